"""Two worlds that no paper has: FrozenLake, while people act, and ICU-Sepsis, from data of people who have acted.

**FrozenLake** (Gymnasium, 4 x 4, slippery, 50 steps): nearly all episodes end without a reward, so little is learned
from one. UCBVI and posterior sampling with the auto recipe of every trust model.

**ICU-Sepsis** (716 states, 25 treatments, 20 decisions; made from 17,000 real patients by its authors): a policy is
learned from one sparse release of transitions, with the penalty at a tenth, and compared with what clinicians do. Needs
the package ``icu-sepsis``; without it the lines are refused and the page says so.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from experiments.papers.figure import (
    BEHAVIOUR,
    NO_PAPER,
    UNIFORM,
    Claim,
    Figure,
    Job,
    Scale,
    Verdict,
    View,
    all_of,
    below,
)

EPSILONS = (1.0, 4.0)
_DELTA = 1e-5
_TRUST = {"central": "central", "shuffle": "shuffle", "local": "local"}
_LEARNERS = {"ucbvi": "UCBVI", "psrl": "PSRL"}
_LAKE: dict[str, Any] = {"world": "frozen-lake"}


def _lake_jobs() -> tuple[Job, ...]:
    private = [
        Job(
            "ours", f"{learner} {model} {e:g}", f"{word}, {model}, ε={e:g}", learner=learner, model=model, epsilon=e,
            delta=0.0 if model == "local" else _DELTA, **_LAKE,
        )
        for learner, word in _LEARNERS.items()
        for model in (_TRUST if learner == "ucbvi" else ("central",))
        for e in EPSILONS
    ]  # fmt: skip
    return (
        *(
            Job("reference", learner, f"{word}, no privacy", learner=learner, **_LAKE)
            for learner, word in _LEARNERS.items()
        ),
        Job("reference", UNIFORM, UNIFORM, learner=UNIFORM, **_LAKE),
        *private,
    )


def _lake_learns(model: str) -> Claim:
    def check(view: View) -> Verdict:
        return all_of(below(view[f"ucbvi {model} {e:g}"].total, view[UNIFORM].total, f"ε={e:g}") for e in EPSILONS)

    return Claim(f"{model} learns", f"UCBVI under {model} privacy has less regret than uniform play", check)


def _lake_order(view: View) -> Verdict:
    found = []
    for e in EPSILONS:
        lines = ["ucbvi", *(f"ucbvi {model} {e:g}" for model in _TRUST)]
        found += [below(view[a].total, view[b].total, f"{a} and {b}") for a, b in pairwise(lines)]
    return all_of(found)


def _lake_epsilon(view: View) -> Verdict:
    low, high = EPSILONS
    return all_of(
        below(view[f"ucbvi {model} {high:g}"].total, view[f"ucbvi {model} {low:g}"].total, model) for model in _TRUST
    )


FROZEN_LAKE = Figure(
    "beyond/frozen-lake",
    "FrozenLake under central, shuffle and local privacy",
    NO_PAPER,
    _lake_jobs(),
    {"quick": Scale(20_000, 8), "paper": Scale(100_000, 20)},
    (
        *(_lake_learns(model) for model in _TRUST),
        Claim("order", "no privacy, central, shuffle, local: each has less regret than the next", _lake_order),
        Claim("less privacy, less regret", "regret falls with epsilon in every trust model", _lake_epsilon),
    ),
    drawings=("regret",),
    by_epsilon=True,
    differences=(
        "Recipes are those that auto takes, with delta 1e-5 under central and shuffle privacy and none under local "
        "privacy. The world is the same at every step, and every run is in the same world.",
    ),
)

PATIENTS = (10_000, 100_000, 400_000)
_FEW = {400_000: 6}  # runs, at most, of the largest data sets
_UNIT: dict[str, Any] = {
    "world": "icu-sepsis", "learner": "apvi", "behaviour": "clinicians", "known_rewards": True,
    "learner_options": {"penalty": "tight", "penalty_scale": 0.1},
}  # fmt: skip


def _unit_jobs() -> tuple[Job, ...]:
    return (
        *(Job("reference", f"none {n}", "APVI, no privacy", users=n, most_runs=_FEW.get(n), **_UNIT) for n in PATIENTS),
        *(
            Job(
                "ours",
                f"{e:g} {n}",
                f"APVI, central, ε={e:g}",
                users=n,
                most_runs=_FEW.get(n),
                model="central",
                epsilon=e,
                delta=1e-6,
                **_UNIT,
            )
            for e in EPSILONS
            for n in PATIENTS
        ),
        Job("reference", "clinicians", "clinicians", **{**_UNIT, "learner": BEHAVIOUR, "learner_options": {}}, users=1),
        Job("reference", UNIFORM, UNIFORM, **{**_UNIT, "learner": UNIFORM, "learner_options": {}}, users=1),
    )


def _better_than_clinicians(users: int) -> Claim:
    def check(view: View) -> Verdict:
        return all_of(below(view[f"{e:g} {users}"].gap, view["clinicians"].gap, f"ε={e:g}") for e in EPSILONS)

    says = f"with {users:,} patients the private policy is better than what clinicians do, at epsilon 1 and 4"
    why = "most transitions are rarer than the threshold below which a sparse release shows nothing"
    return Claim(f"better by {users:,}", says, check, why)


def _privacy_costs(view: View) -> Verdict:
    return all_of(
        below(view[f"none {n}"].gap, view[f"{e:g} {n}"].gap, f"{n:,} patients, ε={e:g}")
        for n in PATIENTS
        for e in EPSILONS
    )


SEPSIS = Figure(
    "beyond/icu-sepsis",
    "ICU-Sepsis: a private policy from data of patients, and what clinicians do",
    NO_PAPER,
    _unit_jobs(),
    {"quick": Scale(1, 6), "paper": Scale(1, 20)},
    (
        *(_better_than_clinicians(users) for users in PATIENTS),
        Claim("privacy costs", "without privacy the policy is better, whatever the number of patients", _privacy_costs),
    ),
    drawings=("by users",),
    differences=(
        "Patients are simulated from the package's tables under its clinicians' policy; survival is a public function "
        "of the state, so rewards need not be estimated. delta = 1e-6. The penalty's scale, 0.1, was chosen on other "
        "seeds of the same world, for all lines alike. The gap is in probability of survival. The largest data sets "
        "have six runs at most.",
    ),
)
FIGURES = (FROZEN_LAKE, SEPSIS)
