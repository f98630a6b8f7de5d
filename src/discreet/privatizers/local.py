"""Recipes of the local model: sampled steps, and the randomisers of Garcelon et al. (2021) as printed and as certified.

The published randomisers add noise to three tables (visits, transitions, rewards) and answer after every user. Their
guarantee here is the true one, computed from the law and the sensitivity; the paper's claim stands beside it.
"""

from __future__ import annotations

from typing import Any

from discreet.accumulators.schedule import Growing
from discreet.encoders.sampled_step import SampledStep
from discreet.errors import Unsupported, unknown_name
from discreet.privacy.guarantee import Guarantee, from_reports, locally
from discreet.privacy.profiles import PureProfile
from discreet.privatizers.channel import Privatizer
from discreet.privatizers.recipe import Options, Recipe
from discreet.privatizers.reports import RESPONSES, ReportChannel
from discreet.privatizers.trust import Privacy
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


_OPTIONS: dict[str, Any] = {"growth": 0.02, "masked": True, "steps": None, "response": None, "early_end": False}

RECIPES = (
    Recipe(
        "local/sampled-step", "local",
        "every user reports one step, picked by public coins, by randomised response with the whole epsilon",
        _sampled_step, encoder="sampled-step", law="randomised response", accumulator="total", options=_OPTIONS,
    ),
)  # fmt: skip
