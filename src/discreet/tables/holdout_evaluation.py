"""Held-out users of a real table judge a policy: what ``train(..., holdout=)`` and ``evaluate`` share.

The parts are disjoint, so each of them may be asked at the full epsilon: a user moves the table or the judgement, never
both (:mod:`discreet.tables.evaluation.split` has the proof). What is released about held-out users is composed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.base.validation import check_open_unit
from discreet.learners.apvi import APVI
from discreet.mechanisms.release import Release
from discreet.mechanisms.sparse import SparseChannel
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.noise.distribution import NoiseTooWide
from discreet.noise.laplace import DiscreteLaplace
from discreet.privacy.guarantee import Guarantee, about, drawn, one_of, parallel
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.targets import Central
from discreet.simulation.data_sets import privatizer_for
from discreet.tables.evaluation.interval import Interval
from discreet.tables.evaluation.policy_value import Judged, judge, shares_of
from discreet.tables.evaluation.presence import DECLARATIONS, Presence
from discreet.tables.evaluation.private_mean import Count, Part, PrivateMean, guarantee_of
from discreet.tables.evaluation.released_model import has_table, model_of, nothing_shown
from discreet.tables.evaluation.return_bounds import Limits
from discreet.tables.evaluation.split import Split
from discreet.tables.evaluation.start_distribution import first_states
from discreet.tables.evaluation.verdict import (
    ASSUMES,
    ESTIMAND,
    READ_OFF,
    Verdict,
    not_judged,
    verdict_from,
    verdict_of,
)
from discreet.tables.read.columns import Declaration
from discreet.tables.read.user_subsets import Ordered
from discreet.tables.receipt import mechanism_facts

_FOR_FIRST_STATES = 0.05  # of the epsilon of the judgement, where steps are pooled
NEEDS_A_TABLE = (
    "a behaviour that is not declared is read from a table of all visits and successors at every step, which is too "
    "large here, pooled, or not released: declare behaviour=, or a table of fewer states with homogeneous=False"
)


@dataclass(frozen=True)
class Budget:
    """What may be spent on the users of one part: epsilon with delta, or rho."""

    epsilon: float | None
    delta: float
    rho: float | None

    @property
    def pure(self) -> float:
        """The pure epsilon that fits into the budget."""
        if self.rho is not None:
            return math.sqrt(2 * self.rho)
        assert self.epsilon is not None
        return self.epsilon

    def target(self) -> Central:
        """The budget as a privacy target."""
        return Central(self.epsilon, self.delta, self.rho)


@dataclass(frozen=True)
class Judgement:
    """The value of a policy, that of the behaviour and their difference, with the promise of the held-out part."""

    value: Interval
    behaviour: Interval
    difference: Interval
    verdict: Verdict
    guarantee: Guarantee
    facts: Mapping[str, Any] = field(repr=False)


def judge_held_out(
    people: Ordered,
    held_out: Mask,
    policy: Floats,
    limits: Limits,
    budget: Budget,
    noise: NoiseSource,
    *,
    behaviour: Floats | None,
    release: Release | None,
    table_users: int,
    split: Split | None,
    confidence: float = 0.95,
) -> Judgement:
    """Judge a policy (H, S, A) by the users at some positions.

    ``release`` is a table of ``table_users`` *other* users. A behaviour that is not declared is read from it.
    """
    check_open_unit("confidence", confidence)
    if people.table.declaration.missing != "row":
        limits = limits.of_records(people.table.shape)
    judged = _judged(people, held_out, policy, behaviour, limits, budget.pure, noise, release, table_users, confidence)
    guarantee = drawn(guarantee_of(judged.parts), noise.simulated)
    doubt = _doubt(people.table.declaration, judged.present, int(held_out.sum()))
    users = int(held_out.sum())
    absent, deviation = 1 - judged.present.users / users, math.sqrt(2) * judged.present.scale
    if absent * users <= 3 * deviation:  # noise alone would explain it
        absent = 0.0
    assumes = READ_OFF if behaviour is None else ASSUMES
    verdict = not_judged(doubt) if doubt else verdict_of(judged.difference, judged.causes, absent, assumes)
    facts = {
        **{name: getattr(judged, name).as_dict() for name in ("value", "behaviour", "difference")},
        "word": verdict.word,
        "verdict": verdict.sentence(),
        "unit": "the declared rewards; steps after the end of an episode are worth 0",
        "users": int(held_out.sum()),
        "judged": {"users": judged.present.users, "deviation": deviation},
        "estimand": ESTIMAND,
        "assumes": assumes,
        "behaviour_declared": behaviour is not None,
        "returns": [float(limits.worst[0]), float(limits.best[0])],
        "split": None if split is None else split.facts(),
        "statement": guarantee.statement(),
        "mechanisms": [mechanism_facts(*part) for part in judged.parts],
    }
    return Judgement(judged.value, judged.behaviour, judged.difference, verdict, guarantee, facts)


def _judged(
    people: Ordered, held_out: Mask, policy: Floats, behaviour: Floats | None, limits: Limits, epsilon: float,
    noise: NoiseSource, release: Release | None, table_users: int, confidence: float,
) -> Judged:  # fmt: skip
    shape, paths = people.table.shape, people.paths(held_out)
    parts: tuple[Part, ...] = ()
    start, left = None, epsilon
    if release is None or not has_table(release):
        if behaviour is None:
            raise Unsupported(NEEDS_A_TABLE)
        model = nothing_shown(shape, paths.users)
    else:
        if shape.homogeneous:
            first = first_states(paths, shape.states, _FOR_FIRST_STATES * epsilon, noise)
            start, parts, left = first.shares, first.parts, (1 - _FOR_FIRST_STATES) * epsilon
        model = model_of(shape, release, limits.ends, table_users, start)
    judged = judge(paths, shape, limits, policy, behaviour, model, shares_of(left), noise, confidence=confidence)
    return judged._replace(parts=(*parts, *judged.parts))


def _doubt(declaration: Declaration, count: Count, users: int) -> str:
    """Why nothing is said about better or worse."""
    if declaration.missing == "row":
        return (
            'missing="row" keeps what stands behind missing rows, so policy and behaviour are not compared on the same '
            'records: declare missing="end" or "drop"'
        )
    if count.may_be_nobody and count.users < users / 2:
        present = Presence(count.users, math.sqrt(2) * count.scale, users)
        return f"{present.words('have a record')}; check the declarations ({DECLARATIONS})"
    return ""


def promised(budget: Budget) -> Guarantee:
    """What held-out users are promised, before anything is drawn: never less than what their releases will cost.

    How a pure epsilon is divided between sums may depend on a release; that it is not exceeded does not.
    """
    return guarantee_of([PrivateMean.at_most("all sums of the judgement together, at most", budget.pure)])


def with_judgement(table: bytes, judgement: Judgement | None) -> bytes:
    """A stored table and the judgement of held-out users as one content of a ledger."""
    assert judgement is not None
    head = json.dumps(judgement.facts, sort_keys=True, allow_nan=False).encode()
    return len(head).to_bytes(8, "little") + head + table


def without_judgement(content: bytes) -> tuple[bytes, dict[str, Any]]:
    """The table and the judgement of a stored content."""
    size = 8 + int.from_bytes(content[:8], "little")
    try:
        return content[size:], json.loads(content[8:size])
    except ValueError:
        raise InvalidInput("the stored release cannot be read by this version of discreet") from None


def stored_promise(facts: Mapping[str, Any]) -> Guarantee:
    """What a stored judgement promises, from the noise that it lists: no more than ``promised``, which was paid."""
    sums = [
        Part(each["statistic"], each["cells"], _sensitivity(each["sensitivity"]), DiscreteLaplace(each["law"]["scale"]))
        for each in facts["mechanisms"]
    ]
    return drawn(guarantee_of(sums), False)


def _sensitivity(facts: Mapping[str, Any]) -> Sensitivity:
    shifts = facts["worst_shift"]
    if shifts is None:
        return Sensitivity(facts["l1"], facts["l2"], facts["linf"])
    return Sensitivity.worst_shift(*((each["by"], each["cells_up"], each["cells_down"]) for each in shifts))


def judgement_from(facts: Mapping[str, Any], guarantee: Guarantee) -> Judgement:
    """A judgement that was stored; ``guarantee`` is what it promises."""
    value, behaviour, difference = (Interval(**facts[name]) for name in ("value", "behaviour", "difference"))
    return Judgement(value, behaviour, difference, verdict_from(facts["word"], facts["verdict"]), guarantee, facts)


def has_small_table(shape: Shape, ends: bool, budget: Budget) -> bool:
    """Whether a table of all successors is released at this budget: public sizes decide, before anything is spent."""
    try:
        made = privatizer_for(APVI(ends=ends), budget.target(), shape, 2)
    except Unsupported:
        return False
    return not any(isinstance(channel, SparseChannel) for channel in made.channels)


def check_judgeable(shape: Shape, ends: bool, budget: Budget, behaviour: Floats | None) -> None:
    """Refuse, before anything is spent, noise that is too wide, and a table that is too large, to judge by."""
    least = (1 - _FOR_FIRST_STATES) * min(astuple(shares_of(budget.pure)))
    try:
        PrivateMean.check_width(least)
    except NoiseTooWide as refusal:
        raise refusal.named(budget.epsilon, budget.rho) from None
    pooled = shape.homogeneous and shape.horizon > 1  # nobody can tell how a behaviour changes from step to step
    if behaviour is None and (pooled or not has_small_table(shape, ends, budget)):
        raise Unsupported(NEEDS_A_TABLE)


def of_both_parts(table: Guarantee | None, judgement: Guarantee, sizes: tuple[int, int], like: Guarantee) -> Guarantee:
    """The promise to everybody: a user is in one part, and moves that part's releases only."""
    if table is None:
        whole = judgement
    else:
        why = (
            f"{sizes[0]:,} users are counted in the table and {sizes[1]:,} others judge the policy; a secret random "
            "permutation of positions, of public sizes, decides who is in which part, and replacing one user moves "
            "nobody else between them"
        )
        whole = parallel(one_of([table, judgement], "the releases of one part or of the other"), why)
    return drawn(about(whole, unit=like.unit, public=like.public), like.simulated)
