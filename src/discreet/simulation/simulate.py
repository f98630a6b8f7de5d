"""``simulate``: many runs of one learner under one privacy model in one world, and what they cost in regret."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event
from typing import Any, TypeAlias, overload

import numpy as np

from discreet.base.errors import DiscreetError, InvalidInput, Unsupported
from discreet.base.packages import load
from discreet.base.policies import Policy, StochasticPolicy
from discreet.base.streams import WORLD, seed_sequence
from discreet.base.types import ArrayLike, Floats
from discreet.base.validation import check_count, shown
from discreet.learners.base import Informed, Learner
from discreet.learners.registry import make_learner
from discreet.mechanisms.session import Privatizer
from discreet.privacy.guarantee import drawn
from discreet.recipes.registry import Target, build
from discreet.recipes.targets import NoPrivacy, Privacy
from discreet.simulation.block_loop import RunRecord, run_blocks
from discreet.simulation.episode_loop import compiles, run_episodes
from discreet.simulation.progress import progress_bar
from discreet.simulation.result import OfflineResult, SimulationResult
from discreet.worlds.family import World, WorldFamily
from discreet.worlds.registry import make_world
from discreet.worlds.tabular import TabularWorld

# Shorter runs are over in the block loop before a loop for them would be compiled.
_WORTH_COMPILING = 1_000

AnyWorld: TypeAlias = World | WorldFamily[Any]
Behaviour: TypeAlias = str | Policy | StochasticPolicy  # the policy that collected a data set, or its name


class Interrupted(DiscreetError):
    """The simulation was stopped before its end."""


_METHODS = ("init", "ask", "update", "policy", "recommend")


@overload
def simulate(
    world: AnyWorld | str, learner: Learner | str, privacy: Target | None = None, *, episodes: int, runs: int = 1,
    seed: int = 0, threads: int | None = None, progress: bool = False, keep_release: bool = False, first_run: int = 0,
) -> SimulationResult: ...  # fmt: skip


@overload
def simulate(
    world: AnyWorld | str, learner: Learner | str, privacy: Target | None = None, *, episodes: int, runs: int = 1,
    seed: int = 0, progress: bool = False, behaviour: Behaviour, known_rewards: bool | ArrayLike = False,
) -> OfflineResult: ...  # fmt: skip


def simulate(
    world: AnyWorld | str,
    learner: Learner | str,
    privacy: Target | None = None,
    *,
    episodes: int,
    runs: int = 1,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = False,
    keep_release: bool = False,
    behaviour: Behaviour | None = None,
    known_rewards: bool | ArrayLike = False,
    first_run: int = 0,
) -> SimulationResult | OfflineResult:
    """Run a learner in a world under a privacy model, ``runs`` times, and measure its exact regret.

    Every run has its own random streams, derived from ``seed``: the result is the same, bit for bit, whatever the
    number of threads. A family of random worlds gives a fresh world to every run.

    With ``behaviour`` nobody learns while users act (offline learning): ``episodes`` users have acted under that
    policy, and one policy is learned from one private release of their data.

    Args:
        world: A world or its name.
        learner: A learner or its name.
        privacy: A trust model, a privatizer of your own, or a function of shape and episodes that makes one; no privacy
            if there is none.
        episodes: How many users act, one episode each.
        runs: How many independent runs.
        seed: The seed of all randomness.
        threads: Runs side by side; one per core by default.
        progress: Show how far it is.
        keep_release: Keep the last release of each run.
        behaviour: "uniform", "mostly-first", "clinicians" of the world icu-sepsis, or a policy.
        known_rewards: With ``behaviour``: the mean rewards are declared public.
        first_run: The number of the first run: a long study can be done in pieces, runs 0 to 4 today and 5 to 9
            tomorrow, with the results of one piece.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> result = discreet.simulate(world, "ucbvi", discreet.Central(1.0), episodes=50, runs=2)
        >>> result.guarantee.statement()
        'pure joint differential privacy, epsilon 1, replace one user'
    """
    episodes, runs = check_count("episodes", episodes), check_count("runs", runs)
    seed = check_count("seed", seed, at_least=0)
    threads = check_count("threads", threads) if threads is not None else (os.cpu_count() or 1)
    target = NoPrivacy() if privacy is None else privacy
    world = as_world(world)
    chosen = as_learner(learner)
    first_run = check_count("first_run", first_run, at_least=0)
    if behaviour is not None and first_run:
        raise InvalidInput(f"data sets are drawn from run 0 on: leave first_run={first_run} out")
    if behaviour is not None:
        learned: OfflineResult = load("discreet.simulation.data_sets:simulate_data_sets")(
            world, chosen, target, users=episodes, behaviour=behaviour, runs=runs, seed=seed,
            known_rewards=known_rewards, progress=progress,
        )  # fmt: skip
        return learned
    if known_rewards is not False:
        raise InvalidInput("known_rewards is about a data set: give its behaviour= policy too")
    privatizer = build(target, world.shape, episodes, chosen.needs)
    privatizer.check_unchanged()  # results state its guarantee
    numbers = range(first_run, first_run + runs)
    return _simulate_users(world, chosen, target, privatizer, episodes, numbers, seed, threads, progress, keep_release)


def _simulate_users(
    world: AnyWorld, learner: Learner, target: Target, privatizer: Privatizer, episodes: int, runs: range, seed: int,
    threads: int, progress: bool, keep_release: bool,
) -> SimulationResult:  # fmt: skip
    """Users act while the learner learns."""
    fast = compiles(learner, privatizer) and not keep_release and episodes >= _WORTH_COMPILING
    stop = Event()

    def one(run: int, tick: Callable[[int], None]) -> RunRecord:
        def checked_tick(served: int) -> None:
            tick(served)
            if stop.is_set():
                raise Interrupted(f"simulation stopped in run {run}")

        instance = world_of_run(world, seed, run)
        if fast and isinstance(instance, TabularWorld):
            return run_episodes(instance, learner, privatizer, episodes, seed, run, checked_tick)
        playing = learner.in_world(instance) if isinstance(learner, Informed) else learner
        return run_blocks(instance, playing, privatizer, episodes, seed, run, checked_tick, keep_release)

    began = time.perf_counter()
    with progress_bar(f"{learner.name}, {privatizer.guarantee.model}", len(runs) * episodes, progress) as tick:
        records = _in_threads(one, runs, min(threads, len(runs)), tick, stop)
    return SimulationResult(
        world=world.name,
        learner=learner.name,
        privacy=target.model if isinstance(target, Privacy) else privatizer.guarantee.model,
        recipe=privatizer.recipe,
        seed=seed,
        episodes=records[0].episodes,
        regret=np.stack([record.regret for record in records]),
        final_gap=_or_nan(record.final_gap for record in records),
        deployed_gap=_or_nan(record.deployed_gap for record in records),
        switches=np.array([record.switches for record in records]),
        deterministic_switches=np.array([record.deterministic_switches for record in records]),
        guarantee=drawn(privatizer.guarantee, simulated=True),
        seconds=time.perf_counter() - began,
        remarks=tuple(record.remark for record in records),
        releases=tuple(record.release for record in records if record.release is not None),
        sizes=world.shape.words(),
    )


def as_world(world: AnyWorld | str) -> AnyWorld:
    """A world or a family of worlds, by name or as it is."""
    made: AnyWorld = make_world(world) if isinstance(world, str) else world
    if not isinstance(made, World | WorldFamily):
        raise InvalidInput(f"world must be a world from discreet.worlds or the name of one, got {shown(world)}")
    return made


def as_learner(learner: Learner | str) -> Learner:
    """A learner, by name or as it is."""
    chosen = make_learner(learner) if isinstance(learner, str) else learner
    if isinstance(chosen, type):
        raise InvalidInput(f"learner must be a learner, and {chosen.__name__} is a class: write {chosen.__name__}()")
    if not hasattr(chosen, "needs"):
        raise InvalidInput(f"learner must be a learner or the name of one, got {shown(learner)}")
    kind = type(chosen).__name__
    if not isinstance(chosen.needs, frozenset):
        raise InvalidInput(f"{kind}.needs must be a frozenset of statistics, got a {type(chosen.needs).__name__}")
    if lacks := [name for name in _METHODS if not callable(getattr(chosen, name, None))]:
        raise InvalidInput(f"{kind} is no learner yet: it lacks {', '.join(lacks)}; see the guide to learners")
    if not isinstance(getattr(chosen, "name", None), str):
        raise InvalidInput(f"{kind} is no learner yet: its name must be text, as on the command line")
    return chosen


def _or_nan(gaps: Iterable[float | None]) -> Floats:
    return np.array([np.nan if gap is None else gap for gap in gaps])


def world_of_run(world: AnyWorld, seed: int, run: int) -> Any:
    """The world of one run: the same for all, or a fresh draw of a family."""
    instance = world.instance(_instance_of_run(seed, run)) if isinstance(world, WorldFamily) else world
    if not isinstance(instance, World):
        raise Unsupported(f"cannot simulate a {type(world).__name__}; use a world from discreet.worlds")
    return instance


def _instance_of_run(seed: int, run: int) -> int:
    return int(seed_sequence(seed, run, WORLD).generate_state(1, np.uint32)[0])


def _in_threads(
    one: Callable[[int, Callable[[int], None]], RunRecord],
    runs: range,
    threads: int,
    tick: Callable[[int], None],
    stop: Event,
) -> list[RunRecord]:
    """Runs side by side; compiled code holds no lock. Ctrl-C stops every thread at its next look at the clock."""
    if threads == 1:
        return [one(run, tick) for run in runs]
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(one, run, tick) for run in runs]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]
