"""``rehearse``: which recipe, learner and knobs to use, found out on public worlds before anybody's data are touched.

What it found is candidates by mean regret, which is best, whether that is beyond noise, and how to use it.

Every candidate plays the same runs: the same worlds, the same users, the same public coins. So candidates are compared
run by run, and a difference is called beyond noise when its mean over paired runs exceeds what chance gives once in
twenty rehearsals, all rivals of the best one together (Student's law with Bonferroni's correction).

Regret is stated as a share of what uniform play would cost in the same worlds: 0 is perfect, 1 has learned nothing.
Nothing here sees data of real users, so it costs no privacy, however often it is repeated. What it says is as good as
the worlds that are rehearsed in: give worlds that you believe in.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.notebook import counted, one_line, table_html
from discreet.base.policies import uniform_policy
from discreet.base.scientific import special
from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.base.validation import check_count
from discreet.learners.base import Learner
from discreet.learners.registry import LEARNERS, make_learner
from discreet.mechanisms.schedule import sizes
from discreet.mechanisms.session import Privatizer
from discreet.recipes.recipe import HEAVY, TABULAR, Recipe
from discreet.recipes.registry import build, find
from discreet.recipes.registry import recipes as all_recipes
from discreet.recipes.targets import NoPrivacy, Privacy
from discreet.simulation.progress import progress_bar
from discreet.simulation.result_frames import make_frame
from discreet.simulation.simulate import AnyWorld, simulate, world_of_run
from discreet.worlds.family import World, WorldFamily
from discreet.worlds.random_worlds import worlds_of_shape
from discreet.worlds.registry import make_world
from discreet.worlds.tabular import TabularWorld

FREE = "this sees no data and costs no privacy"
_FALSE_ALARMS = 0.05


def knobs_of(learner: Any) -> dict[str, Any]:
    """The options of a learner that differ from their defaults; none are known of one that is no dataclass."""
    if not dataclasses.is_dataclass(learner):
        return {}
    values = {f.name: (getattr(learner, f.name), f.default) for f in dataclasses.fields(learner)}
    return {name: value for name, (value, default) in values.items() if value != default}


@dataclass(frozen=True)
class Candidate:
    """A learner with a privacy target that names its recipe and its options; ``auto`` if "auto" would take it."""

    learner: Learner
    privacy: Privacy
    auto: bool = False

    @property
    def knobs(self) -> dict[str, Any]:
        """The options of the learner that differ from their defaults."""
        return knobs_of(self.learner)

    @property
    def options(self) -> str:
        """All that differs from defaults, in words; empty where nothing does."""
        return ", ".join(f"{name}={value}" for name, value in {**self.knobs, **self.privacy.options}.items())

    @property
    def label(self) -> str:
        """The name of the recipe, marked where "auto" would take it."""
        return self.privacy.recipe + (" (auto)" if self.auto else "")

    def call(self, episodes: int) -> str:
        """The Python call that uses it."""
        knobs = ", ".join(f"{name}={value!r}" for name, value in self.knobs.items())
        learner = f"discreet.learners.{type(self.learner).__name__}({knobs})"
        return f"discreet.simulate(world, {learner}, {self._target()}, episodes={episodes})"

    def command(self, episodes: int, world: str = "") -> str:
        """The command line that uses it; ``world`` are the options that say where."""
        privacy = self.privacy
        words = ["discreet simulate", world, f"--learner {self.learner.name}", f"--privacy {privacy.model}"]
        if privacy.model != "none":
            numbers = {"epsilon": privacy.epsilon, "delta": privacy.delta or None, "rho": privacy.rho}
            words += [f"--{name} {value:g}" for name, value in numbers.items() if value is not None]
            words.append(f"--recipe {privacy.recipe}")
        words += [f"--option {name}={value}" for name, value in {**self.knobs, **privacy.options}.items()]
        return " ".join(filter(None, [*words, f"--episodes {episodes}"]))

    def _target(self) -> str:
        privacy = self.privacy
        given = {"epsilon": privacy.epsilon, "delta": privacy.delta or None, "rho": privacy.rho}
        words = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        if privacy.model != "none":
            words.append(f"recipe={privacy.recipe!r}")
        words += [f"options={dict(privacy.options)!r}"] if privacy.options else []
        return f"discreet.{type(privacy).__name__}({', '.join(words)})"


@dataclass(frozen=True)
class Rehearsed:
    """One candidate and its regret as shares of uniform play's: ``shares[w, i]`` in world w and run i."""

    candidate: Candidate
    shares: Floats
    releases: int
    statement: str

    @property
    def mean(self) -> float:
        """The mean over all runs, every world counted alike."""
        return float(self.shares.mean())

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return spread(self.shares)

    @property
    def worst(self) -> float:
        """The largest share of any run."""
        return float(self.shares.max())


@dataclass(frozen=True)
class Rehearsal:
    """All candidates, the best first. ``refused`` are those that do not serve the learner or the world, and why."""

    worlds: tuple[str, ...]
    episodes: int
    runs: int
    seed: int
    rows: tuple[Rehearsed, ...]
    refused: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return one_line("Rehearsal", counted(len(self.rows), "candidate"), f"best: {self.best.candidate.label}")

    def _repr_html_(self) -> str:
        rows = [
            [row.candidate.label, row.candidate.learner.name, row.candidate.options, *_shares(row)] for row in self.rows
        ]
        columns = ["recipe", "learner", "options", "regret", "worst run"]
        return table_html(f"Rehearsed in {', '.join(self.worlds)}", columns, rows, f"{self.verdict()}; {FREE}")

    def to_frame(self, library: str | None = None) -> Any:
        """A frame of pandas or polars with one row per candidate, the best first."""
        rows = [self._row(row) for row in self.rows]
        names = ("learner", "recipe", "auto", "releases", "beyond_noise")
        table: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in names}
        table["options"] = [row.candidate.options for row in self.rows]
        table |= {f"share_{name}": [row["share"][name] for row in rows] for name in ("mean", "error", "worst")}
        return make_frame(table, library)

    @property
    def best(self) -> Rehearsed:
        """The candidate with the least mean regret."""
        return self.rows[0]

    @property
    def ties(self) -> tuple[Rehearsed, ...]:
        """The rivals of the best candidate whose difference from it is within noise."""
        return tuple(row for row in self.rows[1:] if not self.beyond_noise(row))

    def beyond_noise(self, rival: Rehearsed) -> bool:
        """Whether a rival is worse than the best by more than chance gives, in paired runs, for all rivals together."""
        differences = rival.shares - self.best.shares
        degrees = differences.size - differences.shape[0]
        if degrees < 1:
            return False
        limit = float(special.stdtrit(degrees, 1 - _FALSE_ALARMS / 2 / max(1, len(self.rows) - 1)))
        return float(differences.mean()) > limit * spread(differences)

    def verdict(self) -> str:
        """One sentence: which candidate is best, and whether that can be told from noise."""
        best = self.best.candidate
        name = f"{best.learner.name} with {best.privacy.recipe}" + (f" ({best.options})" if best.options else "")
        if len(self.rows) == 1:
            return f"{name} is the only candidate that serves"
        if not self.ties:
            return f"{name} is best, beyond noise"
        next_one = self.ties[0].candidate
        others = f" and {len(self.ties) - 1} more" if len(self.ties) > 1 else ""
        label = f"{next_one.learner.name} with {next_one.privacy.recipe}"
        options = f" ({next_one.options})" if next_one.options else ""
        runs = counted(self.runs, "run")
        return f"{name} has the least regret; {label}{options}{others} cannot be told from it in {runs}"

    def call(self) -> str:
        """The Python call that uses the best candidate."""
        return self.best.candidate.call(self.episodes)

    def command(self, world: str = "") -> str:
        """The command line that uses the best candidate."""
        return self.best.candidate.command(self.episodes, world)

    def summary(self) -> str:
        """The table, the verdict and the call as text."""
        lines = [
            f"{_shares(row)[0]:>7}  worst {row.worst:.1%}  {row.candidate.learner.name}  "
            f"{row.candidate.label}  {row.candidate.options}".rstrip()
            for row in self.rows
        ]
        return "\n".join([*lines, self.verdict(), FREE, self.call()])

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "worlds": list(self.worlds),
            "episodes": self.episodes,
            "runs": self.runs,
            "seed": self.seed,
            "rows": [self._row(row) for row in self.rows],
            "refused": dict(self.refused),
            "verdict": self.verdict(),
            "call": self.call(),
            "command": self.command(),
            "privacy_cost": FREE,
        }

    def _row(self, row: Rehearsed) -> dict[str, Any]:
        candidate = row.candidate
        return {
            "learner": candidate.learner.name,
            "knobs": candidate.knobs,
            "recipe": candidate.privacy.recipe,
            "options": dict(candidate.privacy.options),
            "auto": candidate.auto,
            "releases": row.releases,
            "share": {
                "mean": row.mean, "error": row.error, "worst": row.worst,
                "per_run": dict(zip(self.worlds, row.shares.tolist(), strict=True)),
            },
            "beyond_noise": row is not self.best and self.beyond_noise(row),
            "guarantee": row.statement,
        }  # fmt: skip


def _shares(row: Rehearsed) -> tuple[str, str]:
    error = "" if math.isnan(row.error) else f" ± {row.error:.1%}"
    return f"{row.mean:.1%}{error}", f"{row.worst:.1%}"


def spread(shares: Floats) -> float:
    """The standard error of the mean over worlds and runs, worlds taken as given."""
    worlds, runs = shares.shape
    if runs < 2:
        return math.nan
    return float(np.sqrt(shares.var(axis=1, ddof=1).sum() / runs) / worlds)


Believed: TypeAlias = Shape | AnyWorld | str | Sequence[AnyWorld | str]


def rehearse(
    about: Believed,
    privacy: Privacy | None = None,
    *,
    episodes: int,
    learners: Iterable[Learner | str] = ("ucbvi",),
    recipes: Iterable[str] | None = None,
    options: Mapping[str, Any] | None = None,
    runs: int = 8,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = False,
) -> Rehearsal:
    """Compare recipes, learners and knobs at a target on public worlds, and say which to use.

    Nothing here sees data, so it costs no privacy, however often it is repeated.

    Args:
        about: A world, a name of one, a family of worlds, several of these of one shape, or a shape: random worlds of
            that shape are then played (:mod:`discreet.worlds.random_worlds`).
        privacy: The target.
        episodes: Users of each run.
        learners: Names, or learners with knobs.
        recipes: Names; by default all that "auto" considers.
        options: Options of recipes, each with one value or a list of values to try: ``{"blocks": [30, 100, 300]}``. A
            recipe that has no such option is tried without it.
        runs: Runs in each world.
        seed: The seed of all randomness.
        threads: Runs side by side; one per core by default.
        progress: Show how far it is.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> found = discreet.rehearse(
        ...     world, discreet.Central(1.0), episodes=50, runs=2,
        ...     recipes=["central/first-visit-laplace"]
        ... )
        >>> found.best.candidate.privacy.recipe
        'central/first-visit-laplace'
    """
    episodes, runs = check_count("episodes", episodes), check_count("runs", runs)
    seed = check_count("seed", seed, at_least=0)
    target = NoPrivacy() if privacy is None else privacy
    if not isinstance(target, Privacy):
        raise InvalidInput(f"rehearse compares recipes for a target such as Central(1.0), got {type(target).__name__}")
    worlds = _worlds(about)
    uniform = np.array([_uniform_regret(world, episodes, runs, seed) for world in worlds])
    candidates, refused = _candidates(target, worlds[0].shape, episodes, list(learners), recipes, options or {})
    rows = []
    with progress_bar("rehearsing", len(candidates) * len(worlds), progress) as tick:
        for candidate, privatizer in candidates:
            regret = []
            for world in worlds:
                played = simulate(
                    world, candidate.learner, privatizer, episodes=episodes, runs=runs, seed=seed, threads=threads
                )
                regret.append(played.total_regret)
                tick(1)
            releases = len(sizes(privatizer.schedule, episodes))
            shares = np.array(regret) / uniform[:, None]
            rows.append(Rehearsed(candidate, shares, releases, privatizer.guarantee.statement()))
    rows.sort(key=lambda row: row.mean)
    return Rehearsal(tuple(world.name for world in worlds), episodes, runs, seed, tuple(rows), refused)


def _worlds(about: Believed) -> tuple[AnyWorld, ...]:
    """The worlds to rehearse in: at least one, all of one shape."""
    if isinstance(about, Shape):
        return worlds_of_shape(about)
    given = (about,) if isinstance(about, str | World | WorldFamily) else tuple(about)
    worlds: tuple[AnyWorld, ...] = tuple(make_world(world) if isinstance(world, str) else world for world in given)
    if not worlds:
        raise InvalidInput("no world was given: give a world, its name, or a shape")
    for world in worlds:
        if not isinstance(world, World | WorldFamily):
            raise InvalidInput(f"cannot rehearse in a {type(world).__name__}: give a world, its name, or a shape")
        if world.shape != worlds[0].shape:
            raise InvalidInput(
                f"worlds {worlds[0].name} and {world.name} differ in shape, {worlds[0].shape} and {world.shape}: "
                "a recipe is made for one shape, so rehearse them apart"
            )
    return worlds


def _uniform_regret(world: AnyWorld, episodes: int, runs: int, seed: int) -> float:
    """The mean regret of uniform play over the worlds of all runs."""
    gaps = [_instance(world, seed, run).gap(uniform_policy(world.shape)) for run in range(runs)]
    if max(gaps) <= 1e-12:
        raise InvalidInput(f"world {world.name} has nothing to learn: uniform play is already the best")
    return episodes * float(np.mean(gaps))


def _instance(world: AnyWorld, seed: int, run: int) -> TabularWorld:
    instance = world_of_run(world, seed, run)
    if not isinstance(instance, TabularWorld):
        raise Unsupported(f"world {world.name} changes while it is played: rehearse knows worlds that stay as they are")
    return instance


def _candidates(
    target: Privacy, shape: Shape, episodes: int, learners: Sequence[Learner | str], names: Iterable[str] | None,
    options: Mapping[str, Any],
) -> tuple[list[tuple[Candidate, Privatizer]], dict[str, str]]:  # fmt: skip
    """All combinations that serve, assembled; and those that do not, with the reason."""
    serving: list[tuple[Candidate, Privatizer]] = []
    refused: dict[str, str] = {}
    targets = list(_targets(target, shape, names, options))
    for learner in learners:
        chosen = _learner(learner)
        automatic = _automatic(target, shape, episodes, chosen)
        for one in targets:
            try:
                privatizer = build(one, shape, episodes, chosen.needs)
            except Unsupported as refusal:
                refused[f"{chosen.name}, {one.recipe}"] = str(refusal)
                continue
            auto = one.recipe == automatic and one.options == target.options
            serving.append((Candidate(chosen, one, auto), privatizer))
    if not serving:
        raise Unsupported("no candidate serves: " + "; ".join(f"{name}: {why}" for name, why in refused.items()))
    return serving, refused


def _learner(learner: Learner | str) -> Learner:
    if not isinstance(learner, str):
        return learner
    if LEARNERS.find(learner).kind == "offline":
        raise Unsupported(f"{learner} learns from a data set: rehearse is for learners that decide what users do next")
    made: Learner = make_learner(learner)
    return made


def _automatic(target: Privacy, shape: Shape, episodes: int, learner: Learner) -> str:
    try:
        return build(replace(target, recipe="auto"), shape, episodes, learner.needs).recipe
    except Unsupported:
        return ""


def _targets(
    target: Privacy, shape: Shape, names: Iterable[str] | None, options: Mapping[str, Any]
) -> Iterator[Privacy]:
    """The target with every recipe and every combination of option values."""
    if names is not None:
        chosen = [find(name, target.model) for name in names]
    elif target.recipe != "auto":
        chosen = [find(target.recipe, target.model)]
    else:
        chosen = _considered(target, shape)
    if not chosen:
        raise InvalidInput("no recipe was given: leave recipes out to try all that auto considers")
    given = {name: _values(value) for name, value in options.items()}
    for name in given:
        if not any(name in recipe.options for recipe in chosen):
            known = sorted({option for recipe in chosen for option in recipe.options})
            raise InvalidInput(f"none of the recipes has an option {name!r}; they have {', '.join(known) or 'none'}")
    for recipe in chosen:
        own = {name: values for name, values in given.items() if name in recipe.options}
        for values in itertools.product(*own.values()):
            yield replace(target, recipe=recipe.name, options={**target.options, **dict(zip(own, values, strict=True))})


def _considered(target: Privacy, shape: Shape) -> list[Recipe]:
    """The recipes of the target's model that "auto" looks at."""
    pure = target.delta == 0 and target.rho is None and target.model != "none"
    problem = TABULAR if shape.moments is None else HEAVY
    known = all_recipes(target.model, problem)
    return [r for r in known if r.automatic and r.suits(target, shape) and (r.pure or not pure)]


def _values(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
