"""Adversarial losses: regret of Private-UC-O-REPS and Private-UOB-LBPS against a switching adversary.

Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen have no experiments. This is the figure that their theorems describe, in
layers 1,4,4,4,1 with three actions; the statements that need more than regret are checked one by one in
:mod:`discreet.reproduce.adversarial`.
"""

from __future__ import annotations

from typing import Any

from discreet.reproduce.figure import Claim, Figure, Scale
from discreet.reproduce.job import VERSIONS, Job
from discreet.reproduce.measured import Verdict, View, all_of, below

PAPER = "Differentially private no-regret exploration in adversarial Markov decision processes"
EPSILONS = (1.0, 10.0)
_FEEDBACK = {
    "full": ("uc-o-reps", "full information", "loss-tables"),
    "bandit": ("uob-lbps", "bandit", "observed-losses"),
}
_MODELS = {"jdp": ("central", "JDP"), "ldp": ("local", "LDP")}


def _private(version: str, feedback: str, trust: str, epsilon: float) -> Job:
    learner, word, statistic = _FEEDBACK[feedback]
    model, letters = _MODELS[trust]
    recipes = {"published": f"{model}/{statistic}-published", "certified": f"{model}/{statistic}", "ours": "auto"}
    as_in_the_paper = version == "certified" and recipes[version] == "central/loss-tables"
    tree: dict[str, Any] = {"accumulator": "tree"} if as_in_the_paper else {}
    return Job(
        version, f"{feedback} {trust} {epsilon:g}", f"{word}, {letters}, ε={epsilon:g}", "layered", learner, model,
        epsilon, recipe=recipes[version], recipe_options=tree,
    )  # fmt: skip


def _privacy_costs(view: View) -> Verdict:
    return all_of(
        below(view[feedback].total, view[f"{feedback} {trust} {e:g}"].total, f"{feedback}, {trust}, ε={e:g}")
        for feedback in _FEEDBACK
        for trust in _MODELS
        for e in EPSILONS
    )


def _local_costs_more(view: View) -> Verdict:
    return all_of(
        below(view[f"{feedback} jdp {e:g}"].total, view[f"{feedback} ldp {e:g}"].total, f"{feedback}, ε={e:g}")
        for feedback in _FEEDBACK
        for e in EPSILONS
    )


def _falls_with_epsilon(view: View) -> Verdict:
    low, high = EPSILONS
    return all_of(
        below(view[f"{name} {high:g}"].total, view[f"{name} {low:g}"].total, name)
        for name in (f"{feedback} {trust}" for feedback in _FEEDBACK for trust in _MODELS)
    )


def _full_information_helps(view: View) -> Verdict:
    return below(view["full"].total, view["bandit"].total, "without privacy")


EXPERIMENT = Figure(
    "adversarial/experiment",
    "Private learning against a switching adversary, full information and bandit feedback",
    PAPER,
    (
        *(
            Job("reference", feedback, f"{word}, no privacy", "layered", learner)
            for feedback, (learner, word, _) in _FEEDBACK.items()
        ),
        *(
            _private(version, feedback, trust, e)
            for version in VERSIONS
            for feedback in _FEEDBACK
            for trust in _MODELS
            for e in EPSILONS
        ),
    ),
    {"quick": Scale(1_000, 4), "paper": Scale(20_000, 10)},
    (
        Claim("privacy costs", "no privacy has less regret than JDP and LDP", _privacy_costs),
        Claim(
            "local costs more", "JDP has less regret than LDP", _local_costs_more,
            "for few users a sampled coordinate of the loss table, sent by everybody, is quieter than a tree of tables",
        ),
        Claim(
            "less privacy, less regret", "regret falls with epsilon", _falls_with_epsilon,
            "confidence boxes of a private run say nothing at this number of users, whatever epsilon is",
        ),
        Claim("information helps", "full information has less regret than bandit feedback", _full_information_helps),
    ),
    differences=(
        "The paper has no experiments: the world, the adversary and the sizes are this library's.",
        "Certified and ours use the corrected estimate of bandit losses; the printed one has linear regret.",
    ),
)  # fmt: skip
