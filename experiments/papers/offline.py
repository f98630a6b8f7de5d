"""Offline learning, Figure 1: DP-VAPVI on the linear benchmark, beside VAPVI and PEVI without privacy.

Qiao and Wang (2023), section 5 and appendix G: H = 20, K from 5 to 1,000 trajectories, 5 runs. (a) compares the
algorithms, (b) privacy budgets.
"""

from __future__ import annotations

from typing import Any

from experiments.papers.figure import UNIFORM, VERSIONS, Claim, Figure, Job, Scale, Verdict, View, all_of, below

PAPER = "Offline reinforcement learning with differential privacy"
USERS = (5, 20, 100, 300, 1_000)
LARGER = (3_000, 10_000, 30_000)  # beyond the paper: where private learning begins
SCALES = {"quick": Scale(1_000, 8), "paper": Scale(1_000, 50)}
_PLACE: dict[str, Any] = {"world": "linear-benchmark", "behaviour": "mostly-first"}
_WEIGHTED = {"variance": True}
# Algorithm 2 to the letter: targets in their full ranges, two halves of the data.
PRINTED: dict[str, Any] = {"variance": True, "split": True, "form": "printed"}
_OPTIONS = {"published": PRINTED, "certified": _WEIGHTED, "ours": {}}
DIFFERENCES = (
    "As published is Algorithm 2 with the printed noise, in two halves of the data and with features divided by "
    "sqrt(7), for which the theorem holds: it keeps 0.8 rho. The paper's own run does not split the data and has "
    "longer features, which spends up to 24.15 rho.",
    "The paper does not state rho, C, the ridge, nor the constants of E and D. rho is in the legend, C = 0.1 and the "
    "ridge is 1; E is the exact quantile; D / K is left out, because with any of its readings every value is zero "
    "here. PEVI as published has its printed beta = d H sqrt(ln(2 d H K / 0.1)), which hides every reward; certified "
    "and ours have PEVI with about the coefficient of VAPVI.",
    "Certified is DP-VAPVI with targets centred by what was released before, and with its variance stage; ours leaves "
    "that stage out, because variances are below one here. Each drawing has VAPVI without privacy in the same form.",
    "Data sets larger than the paper's are added.",
)


def _private(version: str, rho: float, users: int) -> Job:
    return Job(
        version, f"dp {rho:g} {users}", f"DP-VAPVI, ρ={rho:g}", learner="vapvi", model="central", rho=rho, users=users,
        recipe="offline/linear-as-printed" if version == "published" else "auto", learner_options=_OPTIONS[version],
        **_PLACE,
    )  # fmt: skip


def _reference(version: str, learner: str, users: int) -> Job:
    options = _OPTIONS[version]
    if learner == "pevi":
        options = {"form": "printed", "beta": 1.0} if version == "published" else {}
    name = f"{learner} {users}"
    return Job(version, name, f"{learner.upper()}, no privacy", learner=learner, users=users,
               learner_options=options, **_PLACE)  # fmt: skip


def _jobs(rhos: tuple[float, ...], references: tuple[str, ...]) -> tuple[Job, ...]:
    sizes = (*USERS, *LARGER)
    return (
        Job("reference", UNIFORM, UNIFORM, learner=UNIFORM, users=1, **_PLACE),
        *(_reference(version, learner, users) for version in VERSIONS for learner in references for users in sizes),
        *(_private(version, rho, users) for version in VERSIONS for rho in rhos for users in sizes),
    )


def _privacy_costs(view: View) -> Verdict:
    costs = [below(view[f"vapvi {users}"].gap, view[f"dp 1 {users}"].gap, f"{users} users") for users in USERS[2:]]
    return all_of([*costs, _learns(view)])


def _learns(view: View) -> Verdict:
    last = USERS[-1]
    return below(view[f"dp 1 {last}"].gap, view[UNIFORM].gap, f"{last} users, and uniform play")


def _beats_pevi(view: View) -> Verdict:
    found = []
    for users in USERS[2:]:
        private = view[f"dp 1 {users}"].gap
        found.append(below(private, view[f"pevi {users}"].gap, f"{users} users"))
        found.append(below(private, view[UNIFORM].gap, f"{users} users, and uniform play"))
    return all_of(found)


def _converges(users: int) -> Claim:
    def check(view: View) -> Verdict:
        private, clear = view[f"dp 1 {users}"].gap, view[f"vapvi {users}"].gap
        return below(private, clear + 0.05, f"{users} users: private, and clear plus 0.05")

    says = f"at rho 1, DP-VAPVI has come within 0.05 of VAPVI with {users:,} users"
    why = (
        "noise in 2H or 5H matrices of 10 x 10 drowns the features that are rarely seen until there are many more users"
    )
    return Claim(f"converges by {users:,}", says, check, why)


def _larger_budget(view: View) -> Verdict:
    last = USERS[-1]
    return all_of(
        below(view[f"dp {high:g} {last}"].gap, view[f"dp {low:g} {last}"].gap, f"ρ={high:g} and {low:g}, {last} users")
        for low, high in ((1.0, 25.0), (25.0, 1000.0))
    )


FIGURE_1A = Figure(
    "offline/figure-1a",
    "DP-VAPVI, VAPVI and PEVI on the linear benchmark (offline, Figure 1 a)",
    PAPER,
    _jobs((1.0,), ("vapvi", "pevi")),
    SCALES,
    (
        Claim("privacy costs", "VAPVI has a smaller gap than DP-VAPVI, and that than uniform play", _privacy_costs),
        Claim("learns", "at rho 1 and 1,000 users DP-VAPVI has a smaller gap than uniform play", _learns),
        Claim(
            "beats PEVI", "DP-VAPVI has a smaller gap than PEVI, which has no privacy, and than uniform play",
            _beats_pevi,
            "against the printed PEVI, whose penalty hides every reward, so that ties go to the first action, uniform "
            "play would win too; with the same coefficient PEVI is as good as VAPVI: no variance exceeds one here",
        ),
        _converges(1_000),
        _converges(30_000),
    ),
    drawings=("by users",),
    differences=DIFFERENCES,
)  # fmt: skip
FIGURE_1B = Figure(
    "offline/figure-1b",
    "DP-VAPVI with different budgets on the linear benchmark (offline, Figure 1 b)",
    PAPER,
    _jobs((1.0, 25.0, 1000.0), ("vapvi",)),
    SCALES,
    (Claim("more budget, smaller gap", "the gap falls as rho grows", _larger_budget),),
    drawings=("by users",),
    differences=DIFFERENCES,
)
FIGURES = (FIGURE_1A, FIGURE_1B)
