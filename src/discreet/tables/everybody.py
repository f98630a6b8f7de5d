"""``judge="everybody"``: the table of one step that a policy was learned from judges it, at no further cost.

It is the default of one step where nobody is held out: post-processing of the same release, so nothing is charged, and
its interval holds for every policy that the table can be made into (:mod:`discreet.tables.evaluation.arms`).
"""

from __future__ import annotations

from typing import Any

from discreet.base.errors import InvalidInput, Unsupported, check_name
from discreet.base.policies import AnyPolicy
from discreet.base.types import Floats
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.release import Release
from discreet.mechanisms.session import Privatizer
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.tables.evaluation.arms import MOST_CELLS, judged_by_everybody, may_judge, method_words
from discreet.tables.evaluation.return_bounds import Limits
from discreet.tables.evaluation.verdict import ASSUMES, ESTIMAND, READ_OFF
from discreet.tables.holdout_evaluation import Judgement
from discreet.tables.policy_arrays import policy_table
from discreet.tables.read.columns import Declaration

JUDGES = ("everybody", "nobody")


def everybody_judges(
    judge: str | None, holdout: float | None, declaration: Declaration, privatizer: Privatizer, known: bool
) -> bool:
    """Whether everybody judges: as asked, or by default where that is possible. Public things decide."""
    if judge is not None:
        check_name("judge", judge, JUDGES)
        if holdout is not None:
            raise InvalidInput(f"holdout={holdout:g} says who judges: leave judge={judge!r} out")
    if judge == "nobody" or holdout is not None:
        return False
    why = "rewards are known, so nothing is released of them" if known else _why_not(declaration, privatizer)
    if why and judge == "everybody":
        raise Unsupported(f"everybody cannot judge here, because {why}: give holdout=, or leave judge= out")
    return not why


def _why_not(declaration: Declaration, privatizer: Privatizer) -> str:
    shape, channels = declaration.shape, privatizer.channels
    if shape.horizon > 1:
        return f"one table tells what a policy is worth in one step, and there are {shape.horizon}"
    if not may_judge(shape):
        return f"{shape.states * shape.actions:,} states and actions are more than {MOST_CELLS}"
    if declaration.per_user > 1:
        return f"one person has up to {declaration.per_user} records, which depend on each other"
    if declaration.missing == "row":
        return 'missing="row" keeps what stands behind missing rows'
    plain = len(channels) == 1 and isinstance(channels[0], Channel)
    if not plain or not {"visits", "rewards"} <= privatizer.statistics or _law(privatizer) is None:
        return f"recipe {privatizer.recipe!r} releases no table of visits and rewards"
    return ""


def _law(privatizer: Privatizer) -> Any:
    (channel,) = privatizer.channels
    law = channel.law if isinstance(channel, Channel) else None
    return law if isinstance(law, DiscreteLaplace | DiscreteGaussian) else None


def judgement_of(
    declaration: Declaration, privatizer: Privatizer, release: Release, policy: AnyPolicy, behaviour: Floats | None,
    limits: Limits, users: int, confidence: float,
) -> Judgement:  # fmt: skip
    """What the release says of a policy, and how that was judged."""
    shape = declaration.shape
    found = judged_by_everybody(
        shape, release, policy_table("the policy", policy, declaration)[0], None if behaviour is None else behaviour[0],
        laplace=isinstance(_law(privatizer), DiscreteLaplace), users=users, confidence=confidence,
    )  # fmt: skip
    facts = {
        **{name: getattr(found, name).as_dict() for name in ("value", "behaviour", "difference")},
        "word": found.verdict.word,
        "verdict": found.verdict.sentence(),
        "unit": "the declared rewards; steps after the end of an episode are worth 0",
        "users": users,
        "judged": {"users": found.judged, "deviation": found.deviation},
        "estimand": ESTIMAND,
        "assumes": READ_OFF if behaviour is None else ASSUMES,
        "behaviour_declared": behaviour is not None,
        "returns": [float(limits.worst[0]), float(limits.best[0])],
        "split": None,
        "by": method_words(shape, found.critical),
        "critical": found.critical,
        "statement": release.guarantee.statement(),
        "tables": 0,
        "mechanisms": [],
    }
    return Judgement(found.value, found.behaviour, found.difference, found.verdict, release.guarantee, facts)
