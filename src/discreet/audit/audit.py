"""``audit``: does a mechanism keep its promise? A verdict from runs of the mechanism, not from its proof.

At the sizes of a real problem the output that tells most about a user is too rare to be seen, so the audit looks where
it is frequent: a mechanism that takes any shape, number of episodes, epsilon and delta makes its promise for all of
them, and is put on trial in a few settings with the fewest coordinates first. Three stages give one verdict:

1. **Coupling.** Real sessions on two neighbouring populations, with noise that is moved until both say the same; the
   exact loss must stay below the stated profile (:mod:`discreet.audit.coupling`). Messages that are answered and not
   noised are read off the code that makes them (:mod:`discreet.audit.answers`).
2. **Samplers.** What is drawn, in simulation and in earnest, against the stated law (:mod:`discreet.audit.samplers`).
3. **Likelihoods.** Two neighbours are found by searching over records, transcripts of both are drawn many times by the
   compiled laws (or, where no law is known, by whole sessions), and one exact test gives a lower bound on epsilon at
   the point of the stated profile where that shows most (:mod:`discreet.audit.binomial_audit`).

A lower bound above the claim, an offence in a session or a sampler that draws another law convicts. Otherwise no
violation was found, which proves nothing; the report says what would have been found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from discreet.audit.binomial_audit import FEWEST_TRIALS, audit_pairs
from discreet.audit.broken_mechanisms import broken, printed_messages, raw_counts
from discreet.audit.likelihoods import PrintedPart, Together
from discreet.audit.report import AuditReport
from discreet.audit.stages import Stage, run_stages
from discreet.audit.trials import Case, exact_profile, known_transcript, session_transcript
from discreet.audit.trials import compared as compared_in
from discreet.base.errors import DiscreetError, InvalidInput, Unsupported, unknown_name
from discreet.base.shape import Shape, check_size
from discreet.base.validation import check_count
from discreet.mechanisms.session import Privatizer
from discreet.papers import published
from discreet.papers.published_mechanism import Published, Setting
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.recipes.registry import Target, build, recipes
from discreet.recipes.targets import Privacy, in_model

_EASY_DELTA = 0.05  # a delta whose worst event is frequent enough to be counted
_EASY_EPSILON = 1.0
_LARGE_EPSILON = 6.0
_FEW_USERS = (2, 4)
_FEW_SESSIONS = 9  # users of a session whose losses are followed to the end: four levels of a tree
_BATCH = 512  # users of a trial that needs many of them
_POINTS = (1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)  # deltas at which a stated profile is tried besides


class _Learner(Protocol):
    needs: frozenset[str]


def audit(
    privacy: Target | str,
    shape: Shape,
    *,
    learner: _Learner | None = None,
    episodes: int = 20_000,
    trials: int = 100_000,
    seed: int = 0,
    confidence: float = 0.99,
    sessions: bool = True,
) -> AuditReport:
    """Put a privacy target, a recipe, a published mechanism or one that is broken on purpose on trial.

    Args:
        privacy: A target such as ``Central(epsilon=1.0)``, whose recipe may also be a name that starts with
            ``published/`` or ``broken/``; the name of a recipe or mechanism by itself means epsilon 1. A privatizer of
            your own, or a function of shape and episodes that makes one, is tried as it is, against the guarantee that
            it carries.
        shape: The public sizes of the problem.
        learner: Whose needs the mechanism must serve.
        episodes: How many users it is made for.
        trials: The number of transcripts in all, both neighbours and every setting counted.
        seed: The seed of all randomness.
        confidence: With which the lower bound on epsilon holds.
        sessions: Switched off, the first two stages are left out, which open sessions and test samplers.

    Examples:
        >>> from discreet.audit.audit import audit
        >>> from discreet.recipes.targets import Central
        >>> report = audit(Central(epsilon=1.0), Shape(4, 2, 6), trials=4000)
        >>> report.holds, report.certified, report.lower_bound < report.claimed
        (True, 1.0, True)
        >>> audit("broken/noise-halved", Shape(4, 2, 6), trials=20_000).holds
        False
    """
    episodes, seed = check_count("episodes", episodes), check_count("seed", seed, at_least=0)
    check_count("trials", trials, at_least=FEWEST_TRIALS)  # before any work
    check_size(shape)
    if isinstance(privacy, str):
        privacy = _named(privacy)
    if not isinstance(privacy, Privacy):
        if isinstance(privacy, Privatizer) and privacy.users is not None:
            episodes = min(episodes, privacy.users)  # it is tried as it was built
        privatizer = build(privacy, shape, episodes)
        return _audit_privatizer(privatizer, episodes, trials, seed, confidence, sessions)
    asked = Setting(shape, episodes, privacy.epsilon, privacy.delta, privacy.rho)
    if privacy.model == "none":
        raise InvalidInput("NoPrivacy claims nothing, so there is nothing to audit")
    stages: tuple[Stage, ...] = ()
    if privacy.recipe.startswith("published/"):
        name, exact, cases = _published_cases(published(privacy.recipe), asked)
    elif privacy.recipe.startswith("broken/"):
        name, exact, cases = privacy.recipe, None, _collect(broken(privacy.recipe).case, _settings(asked))
        exact = cases[0].exact
    else:
        needs = () if learner is None else learner.needs
        name, exact, cases = _recipe_cases(privacy, asked, needs)
        stages = _recipe_stages(privacy, asked, needs, seed) if sessions else ()
    charges = [case.charge() for case in cases]
    finding = audit_pairs(charges, trials=trials, seed=seed, confidence=confidence)
    return AuditReport(name, asked, exact, cases[finding.charge], finding, stages)


def _audit_privatizer(
    privatizer: Privatizer, episodes: int, trials: int, seed: int, confidence: float, sessions: bool
) -> AuditReport:
    shape = privatizer.shape
    guarantee = privatizer.guarantee
    stages = run_stages([privatizer], seed) if sessions else ()
    asked = Setting(shape, episodes, guarantee.epsilon, guarantee.delta)
    if _concentrated(guarantee):
        asked = Setting(shape, episodes, None, _EASY_DELTA, guarantee.rho)
        claimed = ZeroConcentratedProfile(guarantee.rho or 0.0).epsilon(_EASY_DELTA)
        case = _case_of(privatizer, asked, claimed, _EASY_DELTA)
    else:
        case = _case_of(privatizer, asked, guarantee.epsilon, guarantee.delta)
    finding = audit_pairs([case.charge()], trials=trials, seed=seed, confidence=confidence)
    return AuditReport(privatizer.recipe, asked, case.exact, case, finding, stages)


def _concentrated(guarantee: Guarantee) -> bool:
    """Whether it promises a zero-concentrated parameter, and no epsilon at its delta."""
    return math.isinf(guarantee.epsilon) and guarantee.rho is not None and math.isfinite(guarantee.rho)


def _points(guarantee: Guarantee) -> tuple[tuple[float, float], ...]:
    """Further points of what is stated: of the profile, or of the rho where that is the promise."""
    profile = ZeroConcentratedProfile(guarantee.rho or 0.0) if _concentrated(guarantee) else guarantee.profile
    found = ((profile.epsilon(delta), delta) for delta in _POINTS)
    return tuple((epsilon, delta) for epsilon, delta in found if math.isfinite(epsilon))


def _recipe_stages(privacy: Privacy, asked: Setting, needs: Iterable[str], seed: int) -> tuple[Stage, ...]:
    """Sessions in a small shape, where every loss can be reached, and of what was asked for, whose laws are in use."""
    privatizer = build(privacy, asked.shape, asked.episodes, needs)
    small = replace(privacy, recipe=privatizer.recipe, options=_given(privacy))
    privatizers = [privatizer]
    with suppress(DiscreetError):  # not every recipe serves so small a problem
        privatizers.insert(0, build(small, _small(asked.shape, 2), _FEW_SESSIONS))
    return run_stages(privatizers, seed)


def _named(name: str) -> Privacy:
    if name.startswith("published/") and published(name).concentrated:
        return Privacy(rho=1.0, delta=_EASY_DELTA, recipe=name)
    if name.startswith(("published/", "broken/")):
        return Privacy(epsilon=1.0, recipe=name)
    known = {recipe.name: recipe for recipe in recipes()}
    if name not in known:
        raise unknown_name("recipe", name, known)
    delta = 0.0 if known[name].pure else _EASY_DELTA
    return in_model(Privacy(epsilon=1.0, delta=delta, recipe=name), known[name].model)


def _recipe_cases(privacy: Privacy, asked: Setting, needs: Iterable[str]) -> tuple[str, float | None, list[Case]]:
    privatizer = build(privacy, asked.shape, asked.episodes, needs)
    fixed = replace(privacy, recipe=privatizer.recipe, options=_given(privacy))

    def case(setting: Setting) -> Case:
        target = replace(fixed, epsilon=setting.epsilon, delta=setting.delta, rho=setting.rho)
        return _recipe_case(target, setting)

    delta = _usable_delta(asked)
    profile = exact_profile(privatizer)
    exact = None if profile is None else profile.epsilon(delta)
    # Some mistakes show only among many users: those of messages, and those without any bound.
    many = privacy.model == "shuffle" or math.isinf(privatizer.guarantee.epsilon)
    return privatizer.recipe, exact, _collect(case, _settings(asked, batch=many))


def _given(privacy: Privacy) -> dict[str, Any]:
    # A number of blocks that suits the asked episodes may exceed those of a trial, where each user is in one block.
    return {name: value for name, value in privacy.options.items() if name not in ("blocks", "first")}


def _recipe_case(target: Privacy, setting: Setting) -> Case:
    privatizer = build(target, setting.shape, setting.episodes)
    delta = _usable_delta(setting)
    if setting.rho is not None:
        claimed = ZeroConcentratedProfile(setting.rho).epsilon(delta)
    else:
        assert setting.epsilon is not None
        claimed = setting.epsilon
    return _case_of(privatizer, setting, claimed, delta)


def _case_of(privatizer: Privatizer, setting: Setting, claimed: float, delta: float) -> Case:
    pair = known_transcript(privatizer) or session_transcript(privatizer, min(setting.episodes, 2))
    profile = exact_profile(privatizer)
    exact = None if profile is None else profile.epsilon(delta)
    actions = None if pair.known else 1
    compared = "; ".join(sorted({compared_in(channel, actions) for channel in privatizer.channels}))
    points = _points(privatizer.guarantee)
    return Case(setting, pair, claimed, delta, privatizer.guarantee.epsilon_at(delta), exact, compared, points)


def _published_cases(entry: Published, asked: Setting) -> tuple[str, float | None, list[Case]]:
    if entry.concentrated and asked.delta == 0:
        asked = replace(asked, delta=_EASY_DELTA)
    truth = entry.truth(
        asked.shape, epsilon=asked.epsilon, delta=asked.delta, rho=asked.rho, episodes=max(2, asked.episodes)
    )
    if entry.no_bound(asked):
        case = raw_counts(asked) if entry.model == "central" else printed_messages(asked)
        return entry.name, math.inf, [replace(case, certified=None)]

    def one(setting: Setting) -> Case:
        guarantee = entry.truth(
            setting.shape, epsilon=setting.epsilon, delta=setting.delta, rho=setting.rho, episodes=setting.episodes
        )
        claim = entry.claimed(setting)
        parts = [part for part in entry.parts(setting) if part.moves.cells]
        if sum(part.moves.cells for part in parts) > 256:
            raise Unsupported("too many coordinates for a trial")
        compared = "; ".join(f"{part.name}: {part.moves.cells} cells moved" for part in parts)
        true = guarantee.epsilon
        return Case(setting, Together(tuple(map(PrintedPart, parts))), claim.epsilon, claim.delta, true, true, compared)

    return entry.name, truth.epsilon, _collect(one, _settings(asked))


def _settings(asked: Setting, *, batch: bool = False) -> Iterator[Setting]:
    """Where to look: the asked promise in small shapes, then the asked shape, then promises that are easier to test."""
    small, longer = (_small(asked.shape, horizon) for horizon in (1, 2))
    for shape, episodes in ((small, _FEW_USERS[0]), (small, _FEW_USERS[1]), (longer, _FEW_USERS[0])):
        yield replace(asked, shape=shape, episodes=episodes)
    yield replace(asked, episodes=max(2, min(asked.episodes, _FEW_USERS[1])))
    if batch:
        yield replace(asked, shape=small, episodes=_BATCH)
    if asked.epsilon is None:
        return
    easier = {_EASY_EPSILON} if not 0.5 <= asked.epsilon <= 3 else set()
    if asked.epsilon > _LARGE_EPSILON:  # beyond what so many runs can show
        easier |= {_LARGE_EPSILON}
    for epsilon in sorted(easier):
        yield replace(asked, shape=small, episodes=_FEW_USERS[0], epsilon=epsilon)
    if 0 < asked.delta < _EASY_DELTA:
        for epsilon in sorted(easier | {asked.epsilon}):
            yield replace(asked, shape=small, episodes=_FEW_USERS[0], epsilon=epsilon, delta=_EASY_DELTA)


def _small(shape: Shape, horizon: int) -> Shape:
    return replace(
        shape,
        states=min(shape.states, 2),
        actions=min(shape.actions, 2),
        horizon=min(shape.horizon, horizon),
        start=None if shape.start is None else 0,
    )


def _collect(case: Any, settings: Iterable[Setting]) -> list[Case]:
    """The settings in which the mechanism can be built at all; the same trial is not held twice."""
    cases: list[Case] = []
    refusals = []
    for setting in dict.fromkeys(settings):
        try:
            built = case(setting)
        except DiscreetError as refusal:
            refusals.append(str(refusal))
            continue
        if all(other.setting != built.setting for other in cases):
            cases.append(built)
    if not cases:
        raise Unsupported(f"the mechanism cannot be built in any setting of the audit: {refusals[0]}")
    return cases


def _usable_delta(setting: Setting) -> float:
    return _EASY_DELTA if setting.rho is not None and setting.delta == 0 else setting.delta
