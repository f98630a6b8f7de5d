"""The pieces that recipes for layered worlds are put together from: channels, their promises, whole privatizers.

One user moves counts and losses together and their noises are independent, so the parts of a promise compose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.accumulators.base import Accumulator
from discreet.accumulators.schedule import EveryEpisode, Schedule
from discreet.accumulators.tree import EvenTree, Tree
from discreet.adversarial.channels import OneBitChannel
from discreet.channels.base import AnyChannel
from discreet.errors import InvalidInput, Unsupported
from discreet.privacy.guarantee import Guarantee, about, billboard, compose, from_reports, parallel
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.recipe import Options
from discreet.recipes.session import Privatizer
from discreet.recipes.trust import Privacy
from discreet.shape import LayeredShape, Shape

WHY = "replacing one user moves counts and losses together, and their noises are independent"
Part = tuple[AnyChannel, Guarantee | None]  # nothing is promised about what was declared public


def layered(shape: Shape) -> LayeredShape:
    """The shape, if it is layered."""
    if not isinstance(shape, LayeredShape):
        raise Unsupported(
            "this recipe serves layered worlds only (discreet.adversarial.world, or unroll a tabular one)"
        )
    return shape


def epsilon_of(privacy: Privacy) -> float:
    """The target's epsilon."""
    if privacy.epsilon is None:
        raise Unsupported("this recipe is calibrated to epsilon: give epsilon, or a Gaussian recipe and rho")
    return privacy.epsilon


def seen(sensitivity: Sensitivity, times: int) -> Sensitivity:
    """What one user moves in all of the releases that show her."""
    return Sensitivity.worst_shift(*((m, up * times, down * times) for m, up, down in sensitivity.shifts or ()))


def norms(sensitivity: Sensitivity) -> Sensitivity:
    """The norms alone: Laplace noise needs no more, and hundreds of cells need no convolution."""
    return replace(sensitivity, shifts=None, unit=False)


def times_shown(accumulator: Accumulator) -> int:
    """In how many noisy sums one user is."""
    return accumulator.levels if isinstance(accumulator, Tree | EvenTree) else 1


def one_bit_guarantee(channel: OneBitChannel, delta: float) -> Guarantee:
    """The promise of one answered bit."""
    moves = f"the one of {channel.encoder.size} entries that a coin picked, which is rounded to a bit"
    law = f"RandomizedResponse with epsilon {channel.law.shipped_epsilon:.6g}"
    return from_reports(channel.profile, delta=delta, name="loss tables", moves=moves, law=law)


def promises(parts: Sequence[Part]) -> list[Guarantee]:
    """What is promised about each part that is private."""
    return [promise for _, promise in parts if promise is not None]


def channels(parts: Sequence[Part]) -> tuple[AnyChannel, ...]:
    """The channels of the parts."""
    return tuple(channel for channel, _ in parts)


def assembled(
    name: str, shape: LayeredShape, parts: Sequence[Part], schedule: Schedule, delta: float, options: Options
) -> Privatizer:
    """A central privatizer: parts composed, blocks in parallel, joint privacy by the billboard lemma."""
    private = promises(parts)
    if not private:
        raise InvalidInput("nothing is released with noise: with public losses and split=0 no privacy is at stake")
    whole = compose(private, delta=delta, why=WHY)
    if not isinstance(schedule, EveryEpisode):
        whole = parallel(whole, f"every user is in exactly one block ({schedule.describe()})")
    whole = billboard(whole)
    if len(private) < len(parts):
        whole = about(whole, public=("the loss tables, which are published as they are",))
    return Privatizer(name, shape, channels(parts), schedule, whole, False, options)
