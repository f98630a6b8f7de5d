"""The learners that have a name on the command line. No option of a learner touches privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.base.errors import InvalidInput, unknown_name
from discreet.base.registry import Named, Registry

if TYPE_CHECKING:
    from discreet.learners.base import Learner

LEARNERS = Registry(
    "learner",
    {
        "ucbvi": Named(
            "discreet.learners.ucbvi:UCBVI",
            "optimistic value iteration: plan in the estimated world with a bonus for what is uncertain",
            "Azar, Osband, Munos (2017), on private counts",
            standing="heuristic constants",
        ),
        "belief-ucbvi": Named(
            "discreet.learners.belief_ucbvi:BeliefUCBVI",
            "ucbvi on one posterior of noisy counts, in place of bonuses and special rules",
            "ours, after Bayes-UCBVI of Tiapkin et al. (2022)",
            standing="heuristic prior and constants",
        ),
        "ucbpo": Named(
            "discreet.learners.ucbpo:UCBPO",
            "optimistic policy optimisation: improve a stochastic policy along optimistic values of itself",
            "Shani, Efroni, Rosenberg, Mannor (2020); Chowdhury, Zhou (2022)",
            standing="heuristic constants",
        ),
        "heavy-ucbvi": Named(
            "discreet.problems.heavy_tails.learners:HeavyUCBVI",
            "optimistic value iteration for rewards of which only a moment is bounded: take it for heavy tails",
            "Private-Heavy-UCBVI, repaired; Zhuang, Sui (2021) without privacy",
            standing="heuristic constants; optimism is proved with bonus_scale=1, error_scale=1, threshold=None",
        ),
        "heavy-ucbpo": Named(
            "discreet.problems.heavy_tails.learners:HeavyUCBPO",
            "optimistic policy optimisation for rewards of which only a moment is bounded",
            "Private-Heavy-UCBPO, its sign corrected",
            standing="heuristic constants; optimism is proved with bonus_scale=1, error_scale=1, threshold=None",
        ),
        "obi": Named(
            "discreet.learners.obi:OBI",
            "optimism with bounds on the noise of every count, as printed or tight; made for the local model",
            "LDP-OBI of Garcelon, Perchet, Pike-Burke, Pirotta (2021)",
            standing="heuristic constants; optimism is proved with scale=1",
        ),
        "dp-ucbvi": Named(
            "discreet.learners.dp_ucbvi:DPUCBVI",
            "optimistic value iteration with the printed bonus of DP-UCBVI: a reference, which learns very slowly",
            "Qiao, Wang (2023)",
            standing="constants of the paper",
        ),
        "psrl": Named(
            "discreet.learners.psrl:PSRL",
            "posterior sampling: play the best policy of a world drawn from what is known",
            "Osband, Russo, Van Roy (2013); LDP-PSRL of Garcelon et al. (2021)",
            standing="heuristic prior; no regret bound is known for private counts",
        ),
        "apvi": Named(
            "discreet.learners.apvi:APVI",
            "offline: pessimistic value iteration, plans with a penalty for what the data do not show",
            "ours, after Yin and Wang (2021) and DP-APVI of Qiao and Wang (2023)",
            kind="offline",
            standing="heuristic penalty; the lower bound that train states apart is proved, pooled steps included",
        ),
        "policy-elimination": Named(
            "discreet.problems.elimination.learners:PolicyElimination",
            "explore with all policies that may still be the best, drop those that cannot be; few policy changes",
            "Qiao, Yin, Min, Wang (2022); SDP-PE of Bai, Talebi, Zhao, Cheng, Chen",
            standing="heuristic constants; the paper's are PolicyElimination.published()",
        ),
        "perturbed-leader": Named(
            "discreet.problems.adversarial.perturbed_leader:PerturbedLeader",
            "layered worlds, adversarial losses, full information or bandit feedback: plan with estimated transitions, "
            "play each action as often as it may be the best (recommended for private runs)",
            "follow the perturbed leader: Hannan (1957), Kalai, Vempala (2005), with shrunk estimates",
            standing="heuristic; privacy exact, no regret bound",
        ),
        "uc-o-reps": Named(
            "discreet.problems.adversarial.learners:UCOREPS",
            "layered worlds, adversarial losses, full information: follow the regularised leader over occupancy "
            "measures",
            "Rosenberg, Mansour (2019); Private-UC-O-REPS of Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen",
            standing="the paper's regret bound, constants of the theory",
        ),
        "uob-lbps": Named(
            "discreet.problems.adversarial.learners:UOBLBPS",
            "layered worlds, adversarial losses, bandit feedback: mirror descent with a log barrier",
            "Private-UOB-LBPS of Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen, its loss estimate corrected",
            standing="the paper's regret bound, constants of the theory, with our loss estimate",
        ),
        "uob-reps": Named(
            "discreet.problems.adversarial.learners:UOBREPS",
            "layered worlds, adversarial losses, bandit feedback without privacy: mirror descent with relative entropy",
            "Jin, Jin, Luo, Sra, Yu (2020)",
            standing="constants of the paper",
        ),
        "o-reps": Named(
            "discreet.problems.adversarial.learners:OREPS",
            "layered worlds, adversarial losses, full information, known transitions: a reference, which simulations "
            "tell the transitions of their world",
            "Zimin, Neu (2013)",
            standing="constants of the theory",
        ),
        "vapvi": Named(
            "discreet.problems.linear.learners:VAPVI",
            "offline, linear features: pessimistic value iteration on weighted regressions, by linear questions",
            "Yin, Duan, Wang, Wang (2022); DP-VAPVI, Qiao and Wang (2023)",
            kind="offline",
            standing="heuristic constants",
        ),
        "pevi": Named(
            "discreet.problems.linear.learners:PEVI",
            "offline, linear features: pessimistic value iteration on plain regressions, by linear questions",
            "Jin, Yang, Wang (2021)",
            kind="offline",
            standing="heuristic constants",
        ),
    },
)


def make_learner(name: str, /, **options: Any) -> Learner:
    """Make a learner by name; option values may be text, as a command line gives them.

    >>> make_learner("ucbvi", threshold="2").threshold
    2.0
    """
    learner: Learner = LEARNERS.create(name, **options)
    return learner


def offline_learner(learner: Learner | str, /, **options: Any) -> Any:
    """A learner from data, by name with these options, or as it is."""
    from discreet.learners.base import OfflineLearner

    if not isinstance(learner, str):
        if not isinstance(learner, OfflineLearner):
            name = getattr(learner, "name", type(learner).__name__)
            raise InvalidInput(f"{name} learns online; learners from data are {', '.join(offline_names())}")
        if options:
            raise InvalidInput("options are for a learner that is given by its name: set them in the learner itself")
        return learner
    if learner not in offline_names():
        raise unknown_name("offline learner", learner, offline_names())
    return LEARNERS.create(learner, **options)


def with_standing(name: str) -> str:
    """The name of a learner and, where it is known, what is theorem and what is heuristic about its defaults."""
    entry = LEARNERS.get(name)
    return f"{name} ({entry.standing})" if entry is not None and entry.standing else name


def offline_names() -> list[str]:
    """The learners that learn from a data set."""
    return [name for name, entry in LEARNERS.items() if entry.kind == "offline"]


register = LEARNERS.register
