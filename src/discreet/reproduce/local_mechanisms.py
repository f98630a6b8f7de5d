"""Local privacy, Figures 2 and 4 to 6: LDP-OBI with four randomisers at epsilon 0.2, 2 and 20.

The paper finds bounded noise to be the best of the four. What its noise keeps stands in the legend: that is the reason.
"""

from __future__ import annotations

from typing import Any

from discreet.reproduce.figure import Claim, Figure, Scale
from discreet.reproduce.job import Job
from discreet.reproduce.local_regret import DIFFERENCES, EPSILONS, PAPER, RARELY, UCBVI, UNMASKED, job
from discreet.reproduce.measured import Verdict, View, all_of, below

SCALES = {"quick": Scale(200_000, 6), "paper": Scale(100_000_000, 20)}
DELTA = 0.1  # the paper's own, for the Gaussian and the bounded noise
_MECHANISMS = ("laplace", "gaussian", "randomised-response", "bounded")
_APPROXIMATE = ("gaussian", "bounded")


def _jobs(mechanism: str, epsilon: float) -> tuple[Job, ...]:
    rest: dict[str, Any] = {
        "delta": DELTA if mechanism in _APPROXIMATE else 0.0,
        "learner_options": {"constants": mechanism},
    }
    certified = {"recipe": f"local/three-tables-{mechanism}", "recipe_options": UNMASKED}
    return (
        job(
            "published",
            mechanism,
            mechanism,
            epsilon,
            "obi",
            recipe=f"local/published-{mechanism}",
            recipe_options=RARELY,
            **rest,
        ),
        job("certified", mechanism, mechanism, epsilon, "obi", **certified, **rest),
    )


def _figure(number: int, epsilons: tuple[float, ...]) -> Figure:
    def bounded_is_best(view: View) -> Verdict:
        return all_of(below(view[f"bounded {e:g}"].total, view[f"laplace {e:g}"].total, f"ε={e:g}") for e in epsilons)

    def laplace_is_next(view: View) -> Verdict:
        others = ("gaussian", "randomised-response")
        return all_of(
            below(view[f"laplace {e:g}"].total, view[f"{other} {e:g}"].total, f"{other}, ε={e:g}")
            for e in epsilons
            for other in others
        )

    which = f"epsilon {epsilons[0]:g}" if len(epsilons) == 1 else "all epsilons"
    return Figure(
        f"local/figure-{number}",
        f"LDP-OBI with four randomisers, {which} (local privacy, Figure {number})",
        PAPER,
        (
            UCBVI,
            *(j for mechanism in _MECHANISMS for e in epsilons for j in _jobs(mechanism, e)),
            *(job("ours", "obi", "OBI, tight", e, "obi") for e in epsilons),
        ),
        SCALES,
        (
            Claim(
                "bounded noise is best", "bounded noise has less regret than Laplace noise", bounded_is_best,
                "its advantage was paid with privacy: with the noise that its promise needs it is louder than Laplace",
            ),
            Claim(
                "Laplace is next", "Laplace noise beats Gaussian noise and randomised response", laplace_is_next,
                "Gaussian noise has a delta of 0.1 to spend and is the quieter one; at epsilon 20 its printed scale "
                "keeps no more than epsilon 52",
            ),
        ),
        differences=(
            *DIFFERENCES,
            "delta = 0.1, as in the paper, is no privacy to speak of: one user in ten may be shown in the open.",
        ),
    )  # fmt: skip


FIGURE_2 = _figure(2, EPSILONS)
FIGURE_4 = _figure(4, (0.2,))
FIGURE_5 = _figure(5, (2.0,))
FIGURE_6 = _figure(6, (20.0,))
