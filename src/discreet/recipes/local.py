"""Recipes of the local model: sampled steps, and two randomisers of Garcelon et al. (2021) with the least noise.

The randomisers as printed, with their true guarantee beside the paper's claim, are in :mod:`discreet.papers.ldp_obi`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from discreet.base.errors import Unsupported, unknown_name
from discreet.base.shape import Shape
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.arm_reward import is_bandit
from discreet.mechanisms.counts.first_visit_question import BIT, SUCCESSOR, AskedFirstVisit
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.messages.answered_bits import AnsweredBitsChannel
from discreet.mechanisms.messages.asked_first_visit import AskedChannel, quietest_answers
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.mechanisms.messages.survey import RESPONSES
from discreet.mechanisms.schedule import EveryEpisode, Growing, Schedule
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.blocks import Total
from discreet.noise import BoundedNoise, RandomizedResponse, UnaryEncoding
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.guarantee import Guarantee, from_mechanism, from_reports, locally, one_of
from discreet.privacy.messages import AnsweredBits
from discreet.privacy.profiles import PureProfile
from discreet.privacy.words import rounded_up
from discreet.recipes.arm_blocks import answering_blocks
from discreet.recipes.predicted_regret import growing
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

_LONGEST_SEARCH = 32  # picked steps tried; more than that needs an epsilon that promises nothing
_SMALLEST_SHARE = 1.001e-9  # of epsilon for one report: with less nothing can be drawn


def _sampled_step(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    epsilon = privacy.pure_epsilon
    channel = quietest_reports(
        shape, epsilon, options["steps"], options["response"], bool(options["early_end"]),
        bool(options["own_actions"]),
    )  # fmt: skip
    schedule: Schedule = growing(options, shape)
    if is_bandit(shape) and options["growth"] is None:
        schedule = answering_blocks(epsilon, shape, episodes, growing(options, shape))
    return Privatizer(
        "local/sampled-step", shape, (channel,), schedule, report_guarantee(channel), bool(options["masked"]), options
    )


def _asked_first_visit(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    channel = quietest_answers(AskedFirstVisit(shape), privacy.pure_epsilon, options["response"])
    return Privatizer(
        "local/asked-first-visit", shape, (channel,), growing(options, shape), answer_guarantee(channel),
        bool(options["masked"]), options,
    )  # fmt: skip


def answer_guarantee(channel: AskedChannel) -> Guarantee:
    """Pure: whichever question public coins pick, it is answered with the whole epsilon."""
    asked = ((SUCCESSOR, "the successor"), (BIT, "the reward bit"))
    return locally(one_of([_answered(channel, question, what) for question, what in asked], _ASKED))


_ASKED = "public coins pick the state and action, and the question, without regard to what anybody did"


def _answered(channel: AskedChannel, question: int, what: str) -> Guarantee:
    law = channel.law_of(question)
    how = "optimised unary encoding" if isinstance(law, UnaryEncoding) else "k-ary randomised response"
    return from_reports(
        PureProfile(law.shipped_epsilon),
        delta=0.0,
        name=channel.encoder.name,
        moves=f"{what} of the first visit of one state and action, or that there was none",
        law=f"{how} of {law.items} answers with a loss of at most {rounded_up(law.shipped_epsilon, 6)}",
        message=channel.message_of(question),
    )


def quietest_reports(
    shape: Shape, epsilon: float, steps: int | None = None, response: str | None = None, early_end: bool = False,
    own_actions: bool = False,
) -> ReportChannel:  # fmt: skip
    """The number of picked steps and the response with the least noise; what is given is kept."""
    return quietest_of(lambda picked: SampledStep(shape, picked, early_end), epsilon, steps, response, own_actions)


def quietest_of(
    encode: Callable[[int], SampledStep], epsilon: float, steps: int | None, response: str | None,
    own_actions: bool = False,
) -> ReportChannel:  # fmt: skip
    """The same for an encoder of one's own, made for a number of picked steps."""
    if response is not None and response not in RESPONSES:
        raise unknown_name("response", str(response), RESPONSES)
    most = min(encode(1).shape.horizon, _LONGEST_SEARCH, max(1, int(epsilon / _SMALLEST_SHARE)))
    numbers = range(1, most + 1) if steps is None else (steps,)
    channels = [
        ReportChannel(encode(m), epsilon, kind, own_actions)
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
        law=f"{how}, each report with a loss of at most {rounded_up(channel.shipped_epsilon / encoder.steps, 6)}",
        message=channel.message,
    )
    return locally(part)


def releases(options: Options) -> Schedule:
    """Blocks that grow, or a release after every user."""
    return EveryEpisode() if options["growth"] is None else Growing(first=1, growth=options["growth"])


def _certified(kind: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """The same randomiser with the least noise that keeps the promise."""
    channel, guarantee = _least(kind, shape, *randomiser_target(kind, privacy))
    recipe, masked = f"local/three-tables-{kind}", bool(options["masked"])
    return Privatizer(recipe, shape, (channel,), releases(options), guarantee, masked, options)


@lru_cache(maxsize=256)
def _least(kind: str, shape: Shape, epsilon: float, delta: float) -> tuple[AnyChannel, Guarantee]:
    if kind == "bounded":
        moves = ThreeTables(shape).sensitivity()
        law = calibrate_noise(BoundedNoise, moves, epsilon=epsilon, delta=delta)
        part = from_mechanism(law, moves, delta=delta, name="three tables")
        return Channel(ThreeTables(shape, rounded=False), law, Total()), locally(part)
    moved = 6 * shape.horizon - 2
    bits = RandomizedResponse(epsilon / moved)
    part = from_reports(
        bits.profile(moved), delta=0.0, name="a bit per step and cell", moves=f"{moved} bits",
        law=f"randomised response with a loss of {rounded_up(bits.shipped_epsilon, 6)} a bit",
        message=AnsweredBits(bits.lie, moved),
    )  # fmt: skip
    return AnsweredBitsChannel(shape, bits), locally(part)


def randomiser_target(kind: str, privacy: Privacy) -> tuple[float, float]:
    """The epsilon and delta that a randomiser is scaled by; pure ones have no use for delta."""
    if privacy.epsilon is None:
        raise Unsupported(f"the {kind} randomiser is scaled by epsilon: give epsilon instead of rho")
    if kind in ("gaussian", "bounded") and privacy.delta == 0:
        raise Unsupported(f"the {kind} randomiser needs delta above 0; try delta=1e-5")
    return privacy.epsilon, privacy.delta if kind in ("gaussian", "bounded") else 0.0


_OPTIONS: dict[str, Any] = {
    "growth": None, "masked": True, "steps": None, "response": None, "early_end": False, "own_actions": False,
}  # fmt: skip


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
    Recipe(
        "local/asked-first-visit", "local",
        "every user is asked about her first visit of one state and action, picked by public coins: where it led, or "
        "what it brought, by randomised response with the whole epsilon",
        _asked_first_visit, encoder="asked-first-visit", law="randomised response", accumulator="total",
        options={"growth": None, "masked": True, "response": None},
    ),
    _certified_recipe("randomised-response", "every bit of every step answered with epsilon/(6H-2)"),
    _certified_recipe("bounded", "bounded noise of the least radius that keeps the promise; simulation only"),
)  # fmt: skip
