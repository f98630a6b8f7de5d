"""Local privacy on random worlds, Figures 1 and 7: LDP-OBI with Laplace noise and LDP-PSRL beside no privacy.

Garcelon, Perchet, Pike-Burke, Pirotta (2021): S = A = H = 2, epsilon 0.2, 2 and 20, K = 1e8 episodes, 20 runs.
"""

from __future__ import annotations

from typing import Any

from discreet.reproduce.figure import Claim, Figure, Scale
from discreet.reproduce.job import Job
from discreet.reproduce.measured import Verdict, View, all_of, below

PAPER = "Local differential privacy for regret minimization in reinforcement learning"
EPSILONS = (0.2, 2.0, 20.0)
SCALES = {"quick": Scale(1_000_000, 6), "paper": Scale(100_000_000, 20)}
RARELY = {"growth": 0.02}  # a new policy when the users grew by 2%
UNMASKED = {"masked": False, **RARELY}
UCBVI = Job("reference", "ucbvi", "UCB-VI, no privacy", "random-mdp", "ucbvi")
DIFFERENCES = (
    "Policies are recomputed when the users grew by 2%, not after every episode; noise is drawn on whole numbers.",
    "Worlds in which no action matters are drawn again; starts are uniform; each run has a world of its own.",
    "UCB-VI runs with this library's default bonus; the paper does not say which one it used.",
)


def job(version: str, name: str, line: str, epsilon: float, learner: str, **rest: Any) -> Job:
    """A line under local privacy; the name carries epsilon."""
    label = f"{line}, ε={epsilon:g}"
    return Job(version, f"{name} {epsilon:g}", label, "random-mdp", learner, "local", epsilon, **rest)


def _obi(epsilon: float) -> tuple[Job, ...]:
    tables: dict[str, Any] = {"recipe": "local/three-tables-laplace", "recipe_options": UNMASKED}
    printed = {"learner_options": {"constants": "laplace"}}
    return (
        job(
            "published",
            "obi",
            "LDP-OBI",
            epsilon,
            "obi",
            recipe="local/published-laplace",
            recipe_options=RARELY,
            **printed,
        ),
        job("certified", "obi", "LDP-OBI", epsilon, "obi", **tables, **printed),
        job("ours", "obi", "OBI, tight", epsilon, "obi"),
    )


def _psrl(epsilon: float) -> tuple[Job, ...]:
    tables: dict[str, Any] = {"recipe": "local/three-tables-laplace", "recipe_options": UNMASKED}
    return (
        job("published", "psrl", "LDP-PSRL", epsilon, "psrl", recipe="local/published-psrl", recipe_options=RARELY),
        job("certified", "psrl", "LDP-PSRL", epsilon, "psrl", **tables),
        job("ours", "psrl", "PSRL", epsilon, "psrl"),
    )


def _no_privacy_is_best(learner: str) -> Claim:
    def check(view: View) -> Verdict:
        best = view["ucbvi"].total
        return all_of(below(best, view[f"{learner} {e:g}"].total, f"ε={e:g}") for e in EPSILONS)

    return Claim("no privacy is best", "UCB-VI has less regret than the private learner at every epsilon", check)


def _falls_with_epsilon(learner: str) -> Claim:
    def check(view: View) -> Verdict:
        totals = [view[f"{learner} {e:g}"].total for e in EPSILONS]
        return all_of(
            below(totals[i + 1], totals[i], f"ε={EPSILONS[i + 1]:g} and {EPSILONS[i]:g}") for i in range(2)
        )  # fmt: skip

    return Claim("less privacy, less regret", "regret falls with epsilon", check)


def _learns_at(learner: str, epsilon: float) -> Claim:
    def check(view: View) -> Verdict:
        measured = view[f"{learner} {epsilon:g}"]
        end = measured.episodes[-1]
        return below(measured.rate(end), measured.rate(end / 10), "regret per episode up to K and to K/10")

    says = f"regret per episode keeps falling at epsilon {epsilon:g}, although regret looks linear"
    return Claim("learns", says, check, "the bonus is larger than any value until far more users have come")


def _posterior_sampling_wins(view: View) -> Verdict:
    return all_of(below(view[f"psrl {e:g}"].total, view[f"obi {e:g}"].total, f"ε={e:g}") for e in EPSILONS)


FIGURE_1 = Figure(
    "local/figure-1",
    "LDP-OBI and LDP-PSRL on random worlds (local privacy, Figure 1)",
    PAPER,
    (UCBVI, *(j for e in EPSILONS for j in _obi(e)), *(j for e in EPSILONS for j in _psrl(e))),
    SCALES,
    (
        _no_privacy_is_best("obi"),
        Claim("posterior sampling wins", "LDP-PSRL has no more regret than LDP-OBI", _posterior_sampling_wins),
        _falls_with_epsilon("obi"),
        _learns_at("obi", 0.2),
    ),
    drawings=("regret", "per episode"),
    differences=DIFFERENCES,
)
FIGURE_7 = Figure(
    "local/figure-7",
    "LDP-PSRL on random worlds (local privacy, Figure 7)",
    PAPER,
    (UCBVI, *(j for e in EPSILONS for j in _psrl(e))),
    SCALES,
    (_no_privacy_is_best("psrl"), _falls_with_epsilon("psrl"), _learns_at("psrl", 0.2)),
    drawings=("regret", "per episode"),
    differences=DIFFERENCES,
)
