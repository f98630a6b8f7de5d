"""What is promised, to whom, and why: a guarantee as frozen data with the derivation it was computed from.

A guarantee is only ever built by the functions below. Each takes guarantees that are already true and applies one
rule of differential privacy, so the tree that ``explain()`` prints can be checked line by line. Called by anybody else,
``Guarantee(...)`` and ``dataclasses.replace`` are refused; copies and pickles stay what they were. However it came
about, a guarantee checks itself: epsilon and delta must lie on or above its own profile.

==========================  ================================================================================
function                    rule
==========================  ================================================================================
``from_mechanism``          a law with a known privacy profile, at a stated sensitivity
``from_reports``            randomised messages whose loss for any two records is known
``compose``                 adaptive composition: one user moves several releases
``parallel``                disjoint users: each user moves one release only
``one_of``                  one of several mechanisms runs; which one is decided by public things
``billboard``               the policies shown to a user depend on the others' data through releases alone
``locally``                 a mechanism that each user runs on her own record
``shuffled``                noise bits of all users, sent through a shuffler, in batches of any size
``several_trajectories``    a user who contributes several trajectories
``post_process``            a function of releases and public coins
``drawn``                   where the noise came from: a seed, or the operating system's entropy
``through_shuffler``        messages that a shuffler hands on, in bags that promise what is known of them already
``with_more_trust``         a mechanism that trusts less than the users do: its promise holds in their model, too
``left_out``                less is released than was printed: what stays is promised, and the rest is named
``unbounded``               a mechanism that no finite epsilon covers
``nothing``                 no promise at all
==========================  ================================================================================

``claimed``, ``about``, ``drawn`` and ``held_by`` change no promise: they put a paper's claim, the unit that is
protected, the public things, the origin of the noise or the parts of the mechanism that it is about beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, Final, NamedTuple, final

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.notebook import facts_html, one_line
from discreet.base.validation import check_delta, check_not_negative, check_number
from discreet.privacy import profiles
from discreet.privacy.certificate import certificate, exact, facts_of, moves_of
from discreet.privacy.derivation import Claim as Claim
from discreet.privacy.derivation import Fact, Facts
from discreet.privacy.derivation import Reason as Reason
from discreet.privacy.losses import LossDistribution
from discreet.privacy.messages import Message, MixedReleases
from discreet.privacy.profiles import LossProfile, Profile, PureProfile, WorstOf
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.units import ONE_TRAJECTORY, check_unit
from discreet.privacy.words import StatedLaw, brief_promise, describe_law, describe_sensitivity, rounded_up

MODELS = ("none", "joint", "local", "shuffle", "central")
_ORIGINS = {
    True: "simulated noise: no real data was protected",
    False: "noise from the operating system's entropy",
    None: "no noise was drawn yet",
}
_IMPLIED = {"local": ("shuffle", "joint"), "shuffle": ("joint",)}


class _Rules:
    """Whoever holds the one object of this class is a rule of this file."""


_RULES: Final = _Rules()


@final
@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) guarantee for replacing one user, with the exact profile and derivation behind it.

    ``epsilon`` is computed from the profile at ``delta``, or it is the target that every batch of a shuffler is checked
    to keep; it is never copied from a claim. Only the rules of this module make or change one.

    Args:
        model: ``central``, ``joint``, ``shuffle``, ``local`` or ``none``.
        epsilon: Computed from the profile at ``delta``.
        delta: By how much a probability may exceed the bound.
        profile: The smallest delta that holds at every epsilon.
        derivation: The rules and premises that it rests on; ``explain()`` prints them.
        rho: The parameter of zero-concentrated differential privacy, where it is known.
        claimed: What a paper says about the mechanism, beside what is computed.
        neighbours: What may differ between two data sets that must look alike.
        unit: Who or what is protected.
        simulated: Whether the noise came from a seed; such a release protects nobody. None: nothing was drawn yet.
        public: What was declared and is not protected.
        parts: Of the one mechanism that it is about, if it was computed for one: it says nothing of any other.
        by: The rule that makes it; nobody else can.

    Examples:
        >>> import discreet
        >>> shape = discreet.Shape(states=3, actions=2, horizon=4)
        >>> promise = discreet.calibrate(discreet.Central(1.0, 1e-5), shape, episodes=1_000).guarantee
        >>> promise.model, promise.epsilon <= 1.0
        ('joint', True)
        >>> promise.profile.delta(promise.epsilon) <= 1e-5
        True
    """

    model: str
    epsilon: float
    delta: float
    profile: Profile
    derivation: Reason
    rho: float | None = None
    claimed: Claim | None = None
    neighbours: str = "replace one user"
    unit: str = ONE_TRAJECTORY
    simulated: bool | None = None
    public: tuple[str, ...] = field(default=())
    parts: tuple[object, ...] = field(default=(), compare=False)
    by: InitVar[_Rules | None] = None

    def __post_init__(self, by: _Rules | None) -> None:
        if by is not _RULES:
            raise InvalidInput(
                "a guarantee is made and changed by the rules of discreet.privacy.guarantee only, which derive what it "
                "says: call from_mechanism, compose, about or another of them"
            )
        self._check()

    def __init_subclass__(cls) -> None:
        """Refused: a class of one's own could leave the checks out and still be taken for a guarantee."""
        raise InvalidInput("a guarantee has no other kinds: combine guarantees by the rules of this module instead")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and pickles: what comes back is checked as if it had just been derived."""
        self.__dict__.update(state)
        self._check()

    def _check(self) -> None:
        """The numbers are in their domains, and the profile promises no less than they say."""
        if self.model not in MODELS:
            raise InvalidInput(f"model must be one of {', '.join(MODELS)}, got {self.model!r}")
        if not isinstance(self.profile, Profile) or not isinstance(self.derivation, Reason):
            raise InvalidInput("a guarantee needs the profile and the derivation that it was computed from")
        check_unit(self.unit)
        epsilon, delta = check_number("epsilon", self.epsilon), check_number("delta", self.delta)
        if not (epsilon >= 0 and 0 <= delta <= 1):
            raise InvalidInput(f"epsilon must be at least 0 and delta in [0, 1], got {epsilon!r} and {delta!r}")
        if math.isfinite(epsilon) and not _keeps(self.profile, epsilon, delta):
            raise InvalidInput(
                f"epsilon {epsilon:g} with delta {delta:g} is less than the profile behind it allows: "
                f"its smallest epsilon there is {rounded_up(self.profile.epsilon(min(delta, _BELOW_ONE)))}"
            )
        if self.rho is not None and not check_number("rho", self.rho) >= self.profile.rho:
            raise InvalidInput(f"rho {self.rho:g} is below the {rounded_up(self.profile.rho)} of the profile behind it")

    def __repr__(self) -> str:
        return one_line("Guarantee", self.brief(), "" if self.model == "none" else self.neighbours)

    def _repr_html_(self) -> str:
        because = f"{self.derivation.rule}: {self.derivation.statement} (explain() has the whole derivation)"
        facts = [
            ("promise", self.statement()),
            ("unit", self.unit),
            ("noise", _ORIGINS[self.simulated]),
            ("because", because),
        ]
        return facts_html("Guarantee", facts[:1] if self.model == "none" else facts)

    def brief(self) -> str:
        """The promise in a few words; ``statement()`` is the whole sentence."""
        return brief_promise(self.model, self.epsilon, self.delta, self.rho)

    @property
    def also(self) -> tuple[str, ...]:
        """The models whose promise follows at the same epsilon and delta."""
        return _IMPLIED.get(self.model, ())

    def epsilon_at(self, delta: float) -> float:
        """The smallest epsilon that holds with this delta."""
        return self.profile.epsilon(check_delta("delta", delta))

    def delta_at(self, epsilon: float) -> float:
        """The smallest delta that holds with this epsilon."""
        # Delta falls with epsilon, so that of a smaller one holds; beyond a million nothing is computed.
        return self.profile.delta(min(check_not_negative("epsilon", epsilon), 1e6))

    def statement(self) -> str:
        """The guarantee in one line."""
        if self.model == "none":
            return "no privacy"
        if self.delta == 0 and math.isinf(self.epsilon) and self.rho is not None and math.isfinite(self.rho):
            return f"zero-concentrated {self.model} differential privacy, rho {rounded_up(self.rho)}, {self.neighbours}"
        kind = "pure " if self.delta == 0 else ""
        delta = "" if self.delta == 0 else f", delta {rounded_up(self.delta, 3)}"
        return f"{kind}{self.model} differential privacy, epsilon {rounded_up(self.epsilon)}{delta}, {self.neighbours}"

    def explain(self) -> str:
        """The derivation as text, from the promise down to the laws and sensitivities that it rests on."""
        lines = [self.statement()]
        if self.claimed is not None:
            claim = f"epsilon {self.claimed.epsilon:.4g}" + (
                f", delta {self.claimed.delta:.3g}" if self.claimed.delta else ""
            )
            missed = "only up to a constant factor, and so it is said" if self.claimed.roughly else "NOT TRUE"
            verdict = "true" if self._claim_holds() else missed
            lines.append(f"claimed in {self.claimed.source}: {claim} ({verdict})")
            lines += [f"its condition: {self.claimed.condition}"] if self.claimed.condition else []
        if self.model != "none":
            lines += [f"unit: {self.unit}; neighbours: {self.neighbours}; the number of users is public"]
            lines += [f"also holds in the {model} model" for model in self.also]
            lines += [f"public: {thing}" for thing in self.public]
            lines.append(_ORIGINS[self.simulated])
        return "\n".join([*lines, "because", *self.derivation.lines(1)])

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; absent and infinite values are null."""
        return {
            "model": self.model,
            "epsilon": finite_or_none(self.epsilon),
            "delta": finite_or_none(self.delta),
            "rho": finite_or_none(self.rho),
            "neighbours": self.neighbours,
            "unit": self.unit,
            "also": list(self.also),
            "claimed": None
            if self.claimed is None
            else {"epsilon": self.claimed.epsilon, "delta": self.claimed.delta, "source": self.claimed.source},
            "simulated": self.simulated,
            "public": list(self.public),
            "derivation": self.explain().splitlines(),
        }

    def certificate(self) -> dict[str, Any]:
        """What the guarantee rests on, as plain data from which others can compute it anew (docs/certificates.md).

        ``discreet.verify`` and ``discreet verify`` check it; so does the file ``checker.py`` alone.
        """
        return certificate(
            model=self.model, epsilon=self.epsilon, delta=self.delta, rho=self.rho, derivation=self.derivation,
            neighbours=self.neighbours, unit=self.unit, simulated=self.simulated, public=self.public,
        )  # fmt: skip

    def _claim_holds(self) -> bool:
        assert self.claimed is not None
        # A claim is a printed number: a share of 1e-9 is how it was typed, not what it says.
        epsilon, delta = self.claimed.epsilon * (1 + 1e-9), self.claimed.delta * (1 + 1e-9)
        return math.isinf(epsilon) or _keeps(self.profile, epsilon, delta)


_BELOW_ONE = 1 - 2.0**-53  # the largest delta below one: profiles take no delta of one, which promises nothing


def _keeps(profile: Profile, epsilon: float, delta: float) -> bool:
    """Whether a finite epsilon holds with this delta.

    A delta of zero is a statement about the largest loss. It is asked for as such: the deltas of a Gaussian are
    positive everywhere, but too small for a floating point number at a large epsilon.
    """
    return profile.epsilon(0.0) <= epsilon if delta == 0 else profile.delta(epsilon) <= delta


def finite_or_none(value: float | None) -> float | None:
    """JSON has no infinity: absent and infinite values are null."""
    return None if value is None or not math.isfinite(value) else float(value)


def unbounded(why: str, *, model: str, delta: float, apart: Guarantee | None = None) -> Guarantee:
    """No finite epsilon holds, with any delta below one; ``apart`` is what would hold without that one mistake."""
    premises = (
        ()
        if apart is None
        else (Reason("apart from that", f"epsilon {rounded_up(apart.epsilon)}", (apart.derivation,)),)
    )
    reason = Reason("no bound", why, premises, _facts("unbounded", why, model=model))
    return Guarantee(model, math.inf, delta, PureProfile(math.inf), reason, by=_RULES)


def nothing() -> Guarantee:
    """No promise: the learner sees the data as they are."""
    return Guarantee(
        "none",
        math.inf,
        1.0,
        PureProfile(math.inf),
        Reason("no mechanism", "the data are released as they are", facts=Facts("nothing", (("model", "none"),))),
        public=(),
        by=_RULES,
    )


class Several(NamedTuple):
    """A user with up to ``trajectories`` trajectories, of which ``one`` is what each moves.

    With ``once`` first visits are counted: all of them together move no cell by more than one, and at most so many
    cells up, and as many down.
    """

    trajectories: int
    one: Sensitivity
    once: int | None = None


def from_mechanism(
    law: StatedLaw,
    sensitivity: Sensitivity,
    *,
    delta: float,
    name: str,
    cells: int | None = None,
    mixed: MixedReleases | None = None,
    several: Several | None = None,
) -> Guarantee:
    """One release of a statistic of known sensitivity with noise of a known law, drawn as its ``drawn`` says.

    For the certificate, ``cells`` says how many numbers are released, ``mixed`` how many releases were mixed into the
    statistic, and how, and ``several`` that the sensitivity is that of a user with several trajectories, and how it
    follows from what one of them moves.
    """
    profile = law.profile(sensitivity)
    reasons = (
        Reason("sensitivity", f"{name}: replacing one user moves {describe_sensitivity(sensitivity)}"),
        Reason("law", f"{law.drawn}, {describe_law(law)}"),
    )
    moves = moves_of(sensitivity if several is None else several.one)
    entries = (("name", name), ("law", facts_of(law)), ("moves", moves))
    more = {"cells": cells, "mixed": None if mixed is None else facts_of(mixed)}
    facts = Facts("mechanism", (*entries, *((name, entry) for name, entry in more.items() if entry is not None)))
    reason = Reason("mechanism", f"{name} released with additive noise", reasons, facts)
    if several is not None:
        why = f"a user contributes up to {several.trajectories} trajectories"
        entry = {} if several.once is None else {"once": several.once}
        reason = Reason(
            "group privacy", why, (reason,), _facts("group", why, trajectories=several.trajectories, **entry)
        )
    return _at("central", profile, delta, reason)


def from_reports(
    profile: Profile, *, delta: float, name: str, moves: str, law: str, message: Message | None = None
) -> Guarantee:
    """A message that is randomised as a whole; ``profile`` is its loss between any two records.

    ``message`` says the same to programs; without it nobody can check the certificate.
    """
    reasons = Reason("sensitivity", f"{name}: replacing one user changes {moves}"), Reason("law", law)
    sent = Facts("undescribed") if message is None else facts_of(message)
    facts = Facts("reports", (("name", name), ("message", sent)))
    reason = Reason("randomised report", f"{name} sent by randomised response", reasons, facts)
    return _at("central", profile, delta, reason)


def compose(parts: Sequence[Guarantee], *, delta: float, why: str) -> Guarantee:
    """Adaptive composition of releases that one user moves together."""
    if len(parts) == 1:
        return parts[0]
    _same_model(parts)
    profile = profiles.compose([part.profile for part in parts])
    facts = _facts("compose", why)
    reason = Reason("composition", why, tuple(_summary(part) for part in parts), facts)
    return _at(parts[0].model, profile, delta, reason)


def one_of(parts: Sequence[Guarantee], why: str) -> Guarantee:
    """One of several mechanisms runs; what decides which one is public. The promise is the weakest of theirs."""
    if len(parts) == 1:
        return parts[0]
    _same_model(parts)
    reason = Reason("public choice", why, tuple(_summary(part) for part in parts), _facts("one-of", why))
    found = tuple(part.profile for part in parts)
    bounds = [profile.bound for profile in found if isinstance(profile, PureProfile)]
    # At every epsilon the largest delta of pure profiles is that of the largest bound, which can be composed further.
    profile = PureProfile(max(bounds)) if len(bounds) == len(found) else WorstOf(found)
    return _at(parts[0].model, profile, parts[0].delta, reason)


def parallel(part: Guarantee, why: str) -> Guarantee:
    """Disjoint groups of users: each user moves exactly one of the releases, so the whole costs what one costs.

    Holds adaptively: what a later group is asked may depend on earlier releases, never on raw data.
    """
    reason = Reason("parallel composition", why, (part.derivation,), _facts("parallel", why))
    return replace(part, derivation=reason, by=_RULES)


def billboard(part: Guarantee) -> Guarantee:
    """Joint differential privacy of all policies shown to the *other* users, from the privacy of the releases."""
    if part.model not in ("central", "shuffle"):
        raise Unsupported(
            f"the billboard lemma starts from private releases of everybody's data, not from the {part.model} model"
        )
    reason = Reason(
        "billboard lemma",
        "each user's policy is a function of the releases before and of public coins",
        (part.derivation,),
        Facts("billboard"),
    )
    return replace(part, model="joint" if part.model == "central" else part.model, derivation=reason, by=_RULES)


def locally(part: Guarantee) -> Guarantee:
    """The mechanism is run by each user on her own record: neighbours are any two records."""
    if part.model != "central":
        raise Unsupported(f"a user runs a mechanism whose law is known, not a promise in the {part.model} model")
    reason = Reason(
        "local randomiser",
        "every user runs the mechanism on her own trajectory before anything leaves her",
        (part.derivation,),
        Facts("local"),
    )
    return replace(part, model="local", derivation=reason, by=_RULES)


def shuffled(batches: Sequence[Guarantee], *, epsilon: float, delta: float, why: str) -> Guarantee:
    """Bits that leave through a shuffler only, in batches whose noise is calibrated for their size.

    ``batches`` are the ones that are foreseen, with their exact profiles; each must keep (epsilon, delta). Batches of
    other sizes are calibrated to the same target when they are asked for, so the whole is known by that point alone,
    and its profile is that of the worst mechanism with that point.
    """
    epsilon, delta = check_not_negative("epsilon", epsilon), check_delta("delta", delta)
    for batch in batches:
        if not batch.profile.delta(epsilon) <= delta:
            raise InvalidInput(
                f"a batch has delta {rounded_up(batch.profile.delta(epsilon), 3)} at epsilon {epsilon:g}, "
                f"above {delta:g}"
            )
    # Numerical profiles overstate their deltas by more than this factor, and without it the point would miss itself.
    infinite = delta * (1 - 1e-11)
    masses = np.array([math.exp(-epsilon), 1.0]) * ((1 - infinite) / (1 + math.exp(-epsilon)))
    losses = LossDistribution(-epsilon, 2 * epsilon, masses, infinite)
    profile = LossProfile(losses, losses, allowance=0.0)
    facts = _facts("shuffled", why, epsilon=exact(epsilon), delta=exact(delta))
    reason = Reason("shuffler", why, tuple(batch.derivation for batch in batches), facts)
    return Guarantee("shuffle", epsilon, delta, profile, reason, by=_RULES)


def through_shuffler(part: Guarantee, why: str) -> Guarantee:
    """Messages leave through a shuffler, and ``why`` says that its bags are as private as ``part``; no more is claimed.

    A user's own randomiser stays as private behind a shuffler; counts of bits are what a bag of separate bits shows.
    """
    if part.model not in ("central", "local"):
        raise Unsupported(f"what a shuffler hands on is known of messages or of counts, not of the {part.model} model")
    reason = Reason("shuffler", why, (part.derivation,), _facts("through-shuffler", why))
    return replace(part, model="shuffle", derivation=reason, by=_RULES)


def with_more_trust(part: Guarantee, model: str) -> Guarantee:
    """The promise of a mechanism that trusts less, restated in a model of more trust at the same epsilon and delta.

    What messages or shuffled bags hide from everybody, they hide from whoever looks at what is made of them. So a local
    mechanism keeps its promise behind a shuffler, and a local or shuffled one is joint differential privacy: what other
    users are shown is a function of the messages.
    """
    if model not in part.also:
        raise Unsupported(f"a promise of the {part.model} model does not hold in the {model} model by itself")
    why = f"a mechanism of the {part.model} model, which trusts less, keeps the same promise in the {model} model"
    reason = Reason("more trust", why, (part.derivation,), _facts("more-trust", why, model=model))
    return replace(part, model=model, derivation=reason, by=_RULES)


def left_out(part: Guarantee, why: str, whole: Guarantee) -> Guarantee:
    """``part`` is all that is released of a printed mechanism; ``whole`` is what the printed one would promise."""
    statement = f"{why}; all that is printed would give {whole.statement()}"
    reason = Reason("left out", statement, (part.derivation,), _facts("left-out", statement))
    return replace(part, derivation=reason, by=_RULES)


def several_trajectories(part: Guarantee, trajectories: int) -> Guarantee:
    """A user who contributes up to ``trajectories`` trajectories to the same release."""
    if trajectories == 1:
        return part
    why = f"a user contributes up to {trajectories} trajectories"
    reason = Reason("group privacy", why, (part.derivation,), _facts("group", why, trajectories=trajectories))
    return _like(part, _at(part.model, profiles.replacing_users(part.profile, trajectories), part.delta, reason))


def post_process(part: Guarantee, why: str) -> Guarantee:
    """Anything computed from releases and public coins costs nothing."""
    reason = Reason("post-processing", why, (part.derivation,), _facts("post-process", why))
    return replace(part, derivation=reason, by=_RULES)


def drawn(part: Guarantee, simulated: bool | None) -> Guarantee:
    """The same guarantee for a release whose noise came from a seed, or else from the operating system's entropy.

    None: for a release of which nothing was drawn yet.
    """
    return replace(part, simulated=simulated, by=_RULES)


def claimed(part: Guarantee, claim: Claim) -> Guarantee:
    """The same guarantee with what a paper says about the mechanism beside it."""
    return replace(part, claimed=claim, by=_RULES)


def about(part: Guarantee, *, unit: str | None = None, public: tuple[str, ...] | None = None) -> Guarantee:
    """The same guarantee with the unit that it protects, or with what was declared public, in words."""
    return replace(
        part, unit=part.unit if unit is None else unit, public=part.public if public is None else public, by=_RULES
    )


def held_by(part: Guarantee, parts: tuple[object, ...]) -> Guarantee:
    """The same guarantee as that of the mechanism with these very parts; one that is held already stays as it is."""
    return part if part.parts else replace(part, parts=parts, by=_RULES)


def _facts(kind: str, why: str, **entries: Fact) -> Facts:
    return Facts(kind, (("why", why), *entries.items()))


def _at(model: str, profile: Profile, delta: float, derivation: Reason) -> Guarantee:
    return Guarantee(model, profile.epsilon(delta), delta, profile, derivation, rho=profile.rho, by=_RULES)


def _like(old: Guarantee, new: Guarantee) -> Guarantee:
    return replace(
        new,
        claimed=old.claimed,
        neighbours=old.neighbours,
        unit=old.unit,
        simulated=old.simulated,
        public=old.public,
        by=_RULES,
    )


def _summary(part: Guarantee) -> Reason:
    delta = "" if part.delta == 0 else f" at delta {rounded_up(part.delta, 3)}"
    return Reason("part", f"epsilon {rounded_up(part.epsilon)}{delta}", (part.derivation,))


def _same_model(parts: Sequence[Guarantee]) -> None:
    models = {part.model for part in parts}
    if not models:
        raise InvalidInput("there is nothing to compose: give at least one guarantee")
    if len(models) != 1:
        raise Unsupported(f"cannot compose guarantees of different models: {', '.join(sorted(models))}")
