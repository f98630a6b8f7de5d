"""Recipes of the local model: sampled steps, and the randomisers of Garcelon et al. (2021) as printed and as certified.

The published randomisers add noise to three tables (visits, transitions, rewards) and answer after every user. Their
guarantee here is the true one, computed from the law and the sensitivity; the paper's claim stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from discreet.accumulators.schedule import EveryEpisode, Growing, Schedule
from discreet.accumulators.sums import Total
from discreet.channels.additive import Channel
from discreet.channels.answered_bits import AnsweredBitsChannel
from discreet.channels.base import AnyChannel
from discreet.channels.sampled_item import RESPONSES, ReportChannel
from discreet.encoders.sampled_step import SampledStep
from discreet.encoders.tables import ScaledTables, ThreeTables
from discreet.errors import Unsupported, unknown_name
from discreet.noise import BoundedNoise, Gaussian, Laplace, RandomizedResponse
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.guarantee import Claim, Guarantee, compose, from_mechanism, from_reports, locally
from discreet.privacy.profiles import PureProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.session import Privatizer
from discreet.recipes.trust import Privacy
from discreet.shape import Shape

_LONGEST_SEARCH = 32  # picked steps tried; more than that needs an epsilon that promises nothing


def _sampled_step(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    if privacy.epsilon is None:
        raise Unsupported("randomised reports are calibrated to epsilon: give epsilon instead of rho")
    channel = quietest_reports(
        shape, privacy.epsilon, options["steps"], options["response"], bool(options["early_end"])
    )
    return Privatizer(
        "local/sampled-step", shape, (channel,), Growing(first=1, growth=options["growth"]),
        report_guarantee(channel), bool(options["masked"]), options,
    )  # fmt: skip


def quietest_reports(
    shape: Shape, epsilon: float, steps: int | None = None, response: str | None = None, early_end: bool = False
) -> ReportChannel:
    """The number of picked steps and the response with the least noise; what is given is kept."""
    if response is not None and response not in RESPONSES:
        raise unknown_name("response", str(response), RESPONSES)
    numbers = range(1, min(shape.horizon, _LONGEST_SEARCH) + 1) if steps is None else (steps,)
    channels = [
        ReportChannel(SampledStep(shape, m, early_end), epsilon, kind)
        for m in numbers
        for kind in (RESPONSES if response is None else (response,))
    ]
    return min(channels, key=lambda channel: channel.noise_per_row())


def report_guarantee(channel: ReportChannel) -> Guarantee:
    """Pure: every report is randomised with its part of epsilon, for any two trajectories and any policy."""
    encoder = channel.encoder
    how = "k-ary randomised response" if channel.response == "kary" else "optimised unary encoding"
    part = from_reports(
        PureProfile(channel.shipped_epsilon),
        delta=0.0,
        name=encoder.name,
        moves=f"the items at {encoder.steps} of {encoder.shape.horizon} steps, which public coins pick",
        law=f"{how}, each report with a loss of at most {channel.shipped_epsilon / encoder.steps:.6g}",
    )
    return locally(part)


def _published(kind: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """A randomiser as printed: its own scale, a release after every user, no mask; the guarantee is the truth."""
    channel, guarantee = _printed(kind, shape, *_target(kind, privacy))
    return Privatizer(f"local/published-{kind}", shape, (channel,), _schedule(options), guarantee, False, options)


@lru_cache(maxsize=256)
def _printed(kind: str, shape: Shape, epsilon: float, delta: float) -> tuple[AnyChannel, Guarantee]:
    channel, parts = _PRINTED[kind](shape, epsilon, delta)
    together = compose(parts, delta=delta, why="one user moves all tables")
    return channel, replace(locally(together), claimed=Claim(epsilon, delta, source=_SOURCE))


def _schedule(options: Options) -> Schedule:
    """Blocks that grow, or a release after every user."""
    return EveryEpisode() if options["growth"] is None else Growing(first=1, growth=options["growth"])


def _printed_laplace(shape: Shape, epsilon: float, delta: float) -> Printed:
    return _printed_additive(shape, Laplace(6 * shape.horizon / epsilon), delta)


def _printed_gaussian(shape: Shape, epsilon: float, delta: float) -> Printed:
    """The smaller of the two printed scales, c^2 = 4 ln(24 / delta)."""
    return _printed_additive(shape, Gaussian(math.sqrt(4 * math.log(24 / delta)) * shape.horizon / epsilon), delta)


def _printed_psrl(shape: Shape, epsilon: float, delta: float) -> Printed:
    """Four tables in print; the fourth, of squared rewards, is the third where rewards are bits, and is not sent."""
    return _printed_additive(shape, Laplace(8 * shape.horizon / epsilon), delta, rounded=True)


def _printed_additive(shape: Shape, law: Any, delta: float, rounded: bool = False) -> Printed:
    # The worst pair has rewards 0 and 1, so it is that of the rounded tables.
    worst = ThreeTables(shape).sensitivity()
    part = from_mechanism(law, worst, delta=delta, name="three tables")
    return Channel(ThreeTables(shape, rounded=rounded), law, Total()), [part]


def _printed_bounded(shape: Shape, epsilon: float, delta: float) -> Printed:
    """Radii with the unknown constant read as 1 and the step's epsilon as epsilon / (3 H)."""
    S, A, H = shape.states, shape.actions, shape.horizon
    radius = math.sqrt(S * A * math.log(1 / delta)) / (epsilon / (3 * H))
    pooled = shape.homogeneous and H > 1
    moves = Sensitivity.worst_shift((H, 2, 2) if pooled else (1, 2 * H, 2 * H))
    parts = [from_mechanism(BoundedNoise(radius), moves, delta=delta, name="visits and rewards")]
    if H > 1:
        moves = Sensitivity.worst_shift((H - 1, 1, 1) if pooled else (1, H - 1, H - 1))
        parts.append(from_mechanism(BoundedNoise(math.sqrt(S) * radius), moves, delta=delta, name="transitions"))
    return Channel(ScaledTables(shape), BoundedNoise(radius), Total()), parts


def _printed_bits(shape: Shape, epsilon: float, delta: float) -> Printed:
    return _answered_bits(shape, epsilon / (6 * shape.horizon), delta)


def _answered_bits(shape: Shape, per_bit: float, delta: float) -> Printed:
    law, moved = RandomizedResponse(per_bit), 6 * shape.horizon - 2
    part = from_reports(
        law.profile(moved), delta=delta, name="a bit per step and cell", moves=f"{moved} bits",
        law=f"randomised response with a loss of {law.shipped_epsilon:.6g} a bit",
    )  # fmt: skip
    return AnsweredBitsChannel(shape, law), [part]


def _certified(kind: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """The same randomiser with the least noise that keeps the promise."""
    channel, guarantee = _least(kind, shape, *_target(kind, privacy))
    recipe, masked = f"local/three-tables-{kind}", bool(options["masked"])
    return Privatizer(recipe, shape, (channel,), _schedule(options), guarantee, masked, options)


@lru_cache(maxsize=256)
def _least(kind: str, shape: Shape, epsilon: float, delta: float) -> tuple[AnyChannel, Guarantee]:
    if kind == "bounded":
        law = calibrate_noise(BoundedNoise, ThreeTables(shape).sensitivity(), epsilon=epsilon, delta=delta)
        channel, (part,) = _printed_additive(shape, law, delta)
    else:
        channel, (part,) = _answered_bits(shape, epsilon / (6 * shape.horizon - 2), 0.0)
    return channel, locally(part)


def _target(kind: str, privacy: Privacy) -> tuple[float, float]:
    if privacy.epsilon is None:
        raise Unsupported(f"the {kind} randomiser is scaled by epsilon: give epsilon instead of rho")
    if kind in ("gaussian", "bounded") and privacy.delta == 0:
        raise Unsupported(f"the {kind} randomiser needs delta above 0; try delta=1e-5")
    return privacy.epsilon, privacy.delta if kind in ("gaussian", "bounded") else 0.0


Printed = tuple[AnyChannel, list[Guarantee]]
_SOURCE = "Garcelon, Perchet, Pike-Burke, Pirotta (2021)"
_PRINTED: dict[str, Callable[[Shape, float, float], Printed]] = {
    "laplace": _printed_laplace,
    "gaussian": _printed_gaussian,
    "bounded": _printed_bounded,
    "randomised-response": _printed_bits,
    "psrl": _printed_psrl,
}
_OPTIONS: dict[str, Any] = {"growth": 0.02, "masked": True, "steps": None, "response": None, "early_end": False}


def _printed_recipe(kind: str, summary: str) -> Recipe:
    return Recipe(
        f"local/published-{kind}", "local", summary, partial(_published, kind),
        pure=kind not in ("gaussian", "bounded"), automatic=False,
        encoder="three-tables", law=kind, accumulator="total", source=_SOURCE, options={"growth": None},
    )  # fmt: skip


def _certified_recipe(kind: str, summary: str) -> Recipe:
    return Recipe(
        f"local/three-tables-{kind}", "local", summary, partial(_certified, kind), pure=kind != "bounded",
        automatic=False, encoder="three-tables", law=kind, accumulator="total",
        # Sums of bounded noise have no form of their own, so they are drawn user by user, in the compiled loop.
        options={"growth": None, "masked": False} if kind == "bounded" else {"growth": 0.02, "masked": True},
    )  # fmt: skip


RECIPES = (
    Recipe(
        "local/sampled-step", "local",
        "every user reports one step, picked by public coins, by randomised response with the whole epsilon",
        _sampled_step, encoder="sampled-step", law="randomised response", accumulator="total", options=_OPTIONS,
    ),
    _certified_recipe("randomised-response", "every bit of every step answered with epsilon/(6H-2)"),
    _certified_recipe("bounded", "bounded noise of the least radius that keeps the promise; simulation only"),
    _printed_recipe("laplace", "LDP-OBI as printed: Lap(6H/epsilon) on three tables, a release after every user"),
    _printed_recipe("gaussian", "LDP-OBI as printed: Gaussian noise; NOT private at large epsilon, see the guarantee"),
    _printed_recipe("bounded", "LDP-OBI as printed: bounded noise; NOT as private as claimed, see the guarantee"),
    _printed_recipe("randomised-response", "LDP-OBI as printed: every bit answered with epsilon/(6H)"),
    _printed_recipe("psrl", "LDP-PSRL as printed: Lap(8H/epsilon) on the tables, a release after every user"),
)  # fmt: skip
