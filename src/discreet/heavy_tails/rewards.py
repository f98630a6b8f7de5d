r"""Heavy-tailed rewards: a mean plus noise whose variance may be infinite, with the moment bound that is public.

========  =====================================  ===================================================================
name      reward                                 parameters
========  =====================================  ===================================================================
stable    mean + symmetric alpha-stable noise    tail index alpha in (1, 2], scale; alpha = 2 is Gaussian, variance
                                                 2 scale^2
student   mean + Student t noise                 degrees of freedom alpha > 1, scale
pareto    mean + or - scale U^(-1/alpha)         tail index alpha > 1, scale
two-point mean / q with probability q, else 0    q in (0, 1] in place of alpha
========  =====================================  ===================================================================

Moments of order p exist for p < alpha only (for alpha = 2 stable: all). ``moment`` computes E|X|^p exactly: for stable
noise by

    E|X|^p = 2 Gamma(1+p) sin(pi p / 2) / pi * integral_0^inf (1 - cos(mean t) exp(-(scale t)^alpha)) t^(-1-p) dt,

for 0 < p < 2, otherwise from the density. Stable noise is drawn as Chambers, Mallows and Stuck (1976) do, Student's t
as Bailey (1994).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.errors import InvalidInput, unknown_name
from discreet.scientific import integrate, special, stats
from discreet.shape import Moments
from discreet.streams import Stream, uniform
from discreet.types import Floats
from discreet.validation import check_array, check_positive
from discreet.worlds.rewards import checked_elsewhere, draw_reward, mean

KINDS = ("stable", "student", "pareto", "two-point")


class HeavyTailed(NamedTuple):
    """Rewards of one kind; ``parameters`` = (kind, alpha or q, scale)."""

    means: Floats
    parameters: Floats


def heavy_tailed(kind: str, means: Floats, alpha: float, scale: float = 1.0) -> HeavyTailed:
    """A law by name."""
    if kind not in KINDS:
        raise unknown_name("heavy-tailed law", kind, KINDS)
    alpha, scale = check_positive("alpha", alpha), check_positive("scale", scale)
    if kind == "two-point" and alpha > 1:
        raise InvalidInput(f"alpha of two-point rewards is a probability in (0, 1], got {alpha!r}")
    if kind != "two-point" and not alpha > 1:
        raise InvalidInput(f"alpha must be above 1, or rewards have no mean, got {alpha!r}")
    if kind == "stable" and alpha > 2:
        raise InvalidInput(f"alpha of a stable law must lie in (1, 2], got {alpha!r}")
    return HeavyTailed(np.asarray(means, np.float64), np.array([KINDS.index(kind), alpha, scale]))


def default_order(kind: str, alpha: float) -> float:
    """A v for which the moment of order 1 + v exists with room to spare: 1 if the variance exists."""
    if kind == "two-point" or (kind == "stable" and alpha == 2) or (kind != "stable" and alpha > 2.5):
        return 1.0
    return 0.625 * min(alpha - 1, 1.0)


def moment_bound(law: HeavyTailed, order: float) -> Moments:
    """The smallest public bound that holds for all means of the law."""
    kind, alpha, scale = KINDS[int(law.parameters[0])], float(law.parameters[1]), float(law.parameters[2])
    worst = max(moment(kind, float(m), alpha, scale, 1 + order) for m in np.unique(np.abs(law.means)))
    return Moments(worst, order)


def moment(kind: str, centre: float, alpha: float, scale: float, p: float) -> float:
    """E|X|^p of a reward with mean ``centre``."""
    if kind == "two-point":
        return float(abs(centre) ** p * alpha ** (1 - p))
    if p >= alpha and not (kind == "stable" and alpha == 2):
        raise InvalidInput(f"the moment of order {p:g} is infinite for alpha = {alpha:g}: take a smaller order")
    if kind == "stable":
        return _stable_moment(centre, alpha, scale, p)
    start = 0.0 if kind == "student" else scale

    def density(x: float) -> float:
        if kind == "student":
            return float(stats.t.pdf(x / scale, alpha)) / scale
        return float(0.5 * alpha * scale**alpha * x ** (-1 - alpha))

    def both(x: float) -> float:
        return float((abs(centre + x) ** p + abs(centre - x) ** p) * density(x))

    middle = start + 10 * scale + abs(centre)
    near = integrate.quad(
        both, start, middle, limit=400, points=[abs(centre)] if start < abs(centre) < middle else None
    )[0]
    far = integrate.quad(lambda y: both(math.exp(y)) * math.exp(y), math.log(middle), 100 / alpha, limit=400)[0]
    return float(near + far)


def _stable_moment(centre: float, alpha: float, scale: float, p: float) -> float:
    if p == 2:
        return float(centre**2 + 2 * scale**2)

    def integrand(t: float) -> float:
        damped = math.exp(-((scale * t) ** alpha))
        # 1 - cos * exp without cancellation at small t
        moved = -math.expm1(-((scale * t) ** alpha)) + damped * 2 * math.sin(centre * t / 2) ** 2
        return float(moved * t ** (-1 - p))

    # Leading terms near zero, and the one that is left when the exponential has died out.
    low, high = 1e-6 / scale, 60 ** (1 / alpha) / scale
    near = scale**alpha * low ** (alpha - p) / (alpha - p) + centre**2 * low ** (2 - p) / (2 * (2 - p))
    inside = integrate.quad(lambda y: integrand(math.exp(y)) * math.exp(y), math.log(low), math.log(high), limit=800)[0]
    beyond = high**-p / p
    return float(2 * special.gamma(1 + p) * math.sin(math.pi * p / 2) / math.pi * (near + inside + beyond))


@draw_reward.implement(HeavyTailed)
def _draw(law: HeavyTailed, g: int, s: int, a: int, _t: int, stream: Stream) -> float:
    centre = law.means[g, s, a]
    kind, alpha, scale = law.parameters[0], law.parameters[1], law.parameters[2]
    if kind == 3.0:
        return float(centre / alpha) if uniform(stream) < alpha else 0.0
    if kind == 2.0:
        size = scale * uniform(stream) ** (-1.0 / alpha)
        return float(centre + size if uniform(stream) < 0.5 else centre - size)
    if kind == 1.0:
        radius = math.sqrt(alpha * (uniform(stream) ** (-2.0 / alpha) - 1.0))
        return float(centre + scale * radius * math.cos(2.0 * math.pi * uniform(stream)))
    angle = math.pi * (uniform(stream) - 0.5)
    wait = -math.log(uniform(stream))
    bent = math.sin(alpha * angle) / math.cos(angle) ** (1.0 / alpha)
    tail = (math.cos((1.0 - alpha) * angle) / wait) ** ((1.0 - alpha) / alpha)
    return float(centre + scale * bent * tail)


@mean.register(HeavyTailed)
def _(law: HeavyTailed, transitions: Floats) -> Floats:
    return law.means


@checked_elsewhere.register(HeavyTailed)
def _(law: HeavyTailed, cells: tuple[int, int, int]) -> HeavyTailed:
    means = np.array(check_array("reward means", law.means, cells), order="C")
    return HeavyTailed(means, np.array(check_array("reward parameters", law.parameters, (3,))))


def around(name: str, means: Floats, alpha: float, scale: float, order: float | None) -> tuple[HeavyTailed, Moments]:
    """A heavy-tailed law around these means and its public moment bound, of this order or of one with room to spare."""
    law = heavy_tailed(name, means, alpha, scale)
    return law, moment_bound(law, default_order(name, alpha) if order is None else order)
