"""Which privatizers can serve real users, round after round, and why the others cannot.

A privatizer is *shippable* if what it promises survives outside a simulation: its noise can be drawn exactly, by the
one who is trusted with it; its state can be saved between rounds; and devices can do what it asks of them. Everything
else is refused by :func:`check_shippable`, in one sentence that names what would serve instead.
"""

from __future__ import annotations

import math

from discreet.base.errors import Unsupported
from discreet.base.policies import MIXED
from discreet.base.validation import check_count
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.bandit import ArmRewardsChannel
from discreet.mechanisms.continual import ContinualChannel
from discreet.mechanisms.focused import FocusedChannel
from discreet.mechanisms.mechanism import AnyChannel, MessageChannel
from discreet.mechanisms.messages.survey import Survey
from discreet.mechanisms.schedule import SameUsers
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.shuffled import ShuffledChannel
from discreet.mechanisms.sums.blocks import Blocks, Total
from discreet.mechanisms.sums.matrix import Matrix
from discreet.mechanisms.sums.tree import EqualLawTree, EvenTree, Tree
from discreet.noise.distribution import Law

_TREES = Tree | EqualLawTree | EvenTree


def check_shippable(privatizer: Privatizer, reports_per_user: int = 1, needs: frozenset[str] = frozenset()) -> None:
    """Refuse what cannot serve real users. ``needs`` are the learner's: policies that mix actions are not for all."""
    check_count("reports_per_user", reports_per_user)
    model, recipe = privatizer.guarantee.model, privatizer.recipe
    if model == "none" or not math.isfinite(privatizer.guarantee.epsilon):
        raise Unsupported(f"recipe {recipe!r} promises nothing that is finite: give the study an epsilon to keep")
    if isinstance(privatizer.schedule, SameUsers):
        raise Unsupported(f"recipe {recipe!r} asks all users again and again: take one that asks every user once")
    if model == "shuffle":
        _check_shuffled(privatizer)
        return
    if model == "local":
        _check_local(privatizer, needs)
        return
    for channel in privatizer.channels:
        _check_central(privatizer, channel)
        if reports_per_user > 1 and _correlated(channel):
            raise Unsupported(
                f"recipe {recipe!r} shows a user in all later releases, and what {reports_per_user} reports of one "
                f"user move there has not been worked out: take {_serves(privatizer)}, or reports_per_user = 1"
            )


def _check_local(privatizer: Privatizer, needs: frozenset[str]) -> None:
    (channel, *others) = privatizer.channels
    if others or not isinstance(channel, Survey):
        raise Unsupported(
            f"recipe {privatizer.recipe!r} has no randomiser for devices yet: take recipe 'local/sampled-step' or "
            "'local/asked-first-visit'"
        )
    if MIXED in needs and not channel.takes_own_actions:
        raise Unsupported(
            "this learner mixes actions, and nobody but a device knows which one it has drawn: set own_actions = true "
            "in the options of the recipe, or take the learner 'ucbvi', 'obi' or 'psrl'"
        )


def _check_shuffled(privatizer: Privatizer) -> None:
    channels = privatizer.channels
    if len(channels) != 1 or not isinstance(channels[0], MessageChannel):
        clear = any(isinstance(channel, ShuffledChannel) for channel in channels)
        why = "users send true bits in clear beside noise" if clear else "no device makes its messages yet"
        raise Unsupported(
            f"recipe {privatizer.recipe!r} is for simulation here: {why}; take one whose messages are randomised on "
            "the device, such as 'shuffle/sampled-item' or 'shuffle/first-visit-tables-randomised-response'"
        )
    channels[0].form(privatizer.masked)


def _check_central(privatizer: Privatizer, channel: AnyChannel) -> None:
    match channel:
        case Channel(accumulator=Blocks() | Total() | Tree() | EqualLawTree() | EvenTree()):
            laws: tuple[Law, ...] = (channel.law,)
        case FocusedChannel():
            laws = channel.laws
        case ContinualChannel(accumulator=Matrix()):
            laws = (channel.law,)
        case ArmRewardsChannel(rewards=Channel()):
            _check_central(privatizer, channel.rewards)
            return
        case _:
            raise Unsupported(
                f"recipe {privatizer.recipe!r} is for simulation here: a curator who holds records cannot run "
                f"{type(channel).__name__} between rounds; take {_serves(privatizer)}"
            )
    if not all(law.discrete and law.variance > 0 for law in laws) or not channel.encoder.rounded:
        raise Unsupported(
            f"recipe {privatizer.recipe!r} is for simulation: noise that is shipped is drawn exactly, in whole "
            f"numbers; take {_serves(privatizer)}"
        )


def _correlated(channel: AnyChannel) -> bool:
    """Whether one user shows in several releases, through noise that these share."""
    return isinstance(channel, ContinualChannel) or (
        isinstance(channel, Channel) and isinstance(channel.accumulator, _TREES)
    )


def _serves(privatizer: Privatizer) -> str:
    pure = privatizer.guarantee.delta == 0
    return f"recipe {'central/focused-first-visit-laplace' if pure else 'central/focused-first-visit-gaussian'!r}"
