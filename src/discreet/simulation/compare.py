"""``compare``: results side by side, or a sweep over worlds, learners and trust models that plays them first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.validation import check_open_unit
from discreet.learners.base import Learner
from discreet.mechanisms.session import Privatizer
from discreet.recipes.registry import Target
from discreet.recipes.targets import NoPrivacy, Privacy
from discreet.simulation.comparison import AnyResult, Comparison, comparison_of, numbered, told_apart
from discreet.simulation.progress import progress_bar
from discreet.simulation.rehearsal import knobs_of
from discreet.simulation.simulate import AnyWorld, Behaviour, as_learner, as_world, simulate
from discreet.worlds.family import World, WorldFamily

Comparable: TypeAlias = AnyWorld | str | Sequence[AnyWorld | str] | Iterable[AnyResult] | Mapping[str, AnyResult]


def compare(
    what: Comparable,
    *,
    learners: Learner | str | Iterable[Learner | str] | None = None,
    privacy: Target | Iterable[Target] | Mapping[str, Target] | None = None,
    episodes: int | None = None,
    runs: int = 5,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = False,
    behaviour: Behaviour | None = None,
    labels: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> Comparison:
    """Compare results that you have, or play every learner under every trust model in a world and compare those.

    All combinations of a sweep play the same runs, so each is compared with the first, run by run. A combination that
    cannot be served is listed as refused.

    Args:
        what: Results of :func:`discreet.simulate` (a list, or a mapping from labels), or a world, its name, or several
            worlds: a sweep.
        learners: Of a sweep: learners or names, "ucbvi" unless told.
        privacy: Of a sweep: trust models, privatizers of your own or functions that make one; a mapping gives them
            labels. No privacy unless told.
        episodes: Users of each run of a sweep.
        runs: Runs of each combination.
        seed: The seed of all randomness.
        threads: Runs side by side; one per core by default.
        progress: Show how far it is.
        behaviour: For learning offline, as in ``simulate``.
        labels: Names of the results.
        confidence: With which all intervals of the table hold together.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> found = discreet.compare(world, privacy=[discreet.NoPrivacy(), discreet.Central(1.0)], episodes=50, runs=2)
        >>> found.labels
        ('ucbvi, no privacy', 'ucbvi, joint, epsilon 1')
    """
    given = tuple(what.values() if isinstance(what, Mapping) else _several(what))
    if not given or any(isinstance(each, AnyResult) for each in given):
        if episodes is not None or learners is not None or privacy is not None:
            raise InvalidInput(
                "results are there already: learners, privacy and episodes are for worlds; leave them out"
            )
        found: Any = what if isinstance(what, Mapping) else given
        return comparison_of(found, labels, confidence)
    if episodes is None:
        raise InvalidInput("episodes must be given: how many users act in every run")
    check_open_unit("confidence", confidence)
    worlds = [as_world(world) for world in given]
    chosen = [as_learner(each) for each in _several("ucbvi" if learners is None else learners)]
    targets = list(_named_targets(privacy))
    options: dict[str, Any] = {"runs": runs, "seed": seed}
    options |= {"threads": threads} if behaviour is None else {"behaviour": behaviour}
    jobs = [(world, learner, target) for world in worlds for learner in chosen for target in targets]
    results: list[AnyResult] = []
    names: list[str] = []
    refused: dict[str, str] = {}
    with progress_bar("comparing", len(jobs), progress) as tick:
        for world, learner, (name, target) in jobs:
            knobs = "".join(f", {knob}={value}" for knob, value in knobs_of(learner).items())
            where = f" in {world.name}" if len(worlds) > 1 else ""
            try:
                result: AnyResult = simulate(world, learner, target, episodes=episodes, **options)
            except Unsupported as refusal:
                refused[f"{learner.name}{knobs}, {name or _target_words(target)}{where}"] = str(refusal)
            else:
                results.append(result)
                names.append(f"{learner.name}{knobs}, {name or result.brief()}{where}")
            tick(1)
    if not results:
        raise Unsupported("nothing could be played: " + "; ".join(f"{name}: {why}" for name, why in refused.items()))
    made = numbered(told_apart(names, [result.recipe for result in results]))
    return comparison_of(results, labels or made, confidence, refused)


def _several(given: Any) -> tuple[Any, ...]:
    """One thing or several, as several."""
    single = isinstance(given, str | World | WorldFamily | Privacy | Privatizer | AnyResult)
    if single or callable(given) or not isinstance(given, Iterable):
        return (given,)
    return tuple(given)


def _named_targets(privacy: Any) -> Iterable[tuple[str, Any]]:
    if privacy is None:
        return [("", NoPrivacy())]
    if isinstance(privacy, Mapping):
        return [(str(name), target) for name, target in privacy.items()]
    return [("", NoPrivacy() if target is None else target) for target in _several(privacy)]


def _target_words(target: Any) -> str:
    if isinstance(target, Privacy):
        numbers = {"epsilon": target.epsilon, "delta": target.delta or None, "rho": target.rho}
        words = [target.model, *(f"{name} {value:g}" for name, value in numbers.items() if value is not None)]
        return ", ".join([*words, *([] if target.recipe == "auto" else [target.recipe])])
    return repr(target)
