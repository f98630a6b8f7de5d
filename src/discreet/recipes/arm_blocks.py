"""Blocks of users of a bandit: they follow the arm and not the clock.

An arm's first block has as many users as show something of it. Later blocks have ``growth`` times the users that the
arm has had: a look at a bad arm costs little however late it comes, and an arm that is played for long is released
rarely. With K arms and T users in all, the first block of an arm has

* where noise is added to the rewards of a block (central, shuffle): x = 12 standard deviations of that noise with up
  to four arms, falling to 8 with many, so that a first look stands out of it, and min(x, 8, T / (250 K)) users more
  against chance; but all first blocks together at most 7% of all users, and behind a shuffler, where noise grows with a
  block, 3% with up to twelve arms and .36 / K with more. An arm that is looked at again had something to show: its
  later blocks have at least 1.5 times as many users with up to twelve arms, 1 + 6 / K times with more, which brings
  less noise for each of them. Growth is 1/2, because every block brings its noise;
* where users answer their reward bits themselves (local): ``few`` / tau^2, where tau = tanh(epsilon / 2) is how much
  likelier a true answer is than a false one, and so many answers tell as much as ``few`` rewards; but all together at
  most 4% of all users; growth is 1/20, because blocks cost nothing there but time;
* in any case at least ``few`` = min(8, T / (500 K)) users: one reward says little of an arm, and where there are many
  arms even that is dear.

These numbers were chosen by measured regret on bandits with 2 (.5 and .6, .7 and .3, .45 and .4), 4, 6, 8, 12, 15, 30,
40 and 70 arms, none of which docs/bandits.md reports (docs/decisions/0006-learners-for-worlds-nobody-tuned.md), and by
runs that stay with a wrong arm (docs/decisions/0014-no-arm-given-up-too-early.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from discreet.base.shape import Shape
from discreet.base.validation import check_count, check_positive
from discreet.mechanisms.schedule import Growing, PerPolicy
from discreet.recipes.recipe import Options

GROWTH = 0.5
# The share of all users that first blocks may take: under a curator, behind a shuffler, where users answer themselves.
_TRIED, _TRIED_SHUFFLED, _TRIED_LOCAL = 0.07, 0.03, 0.04
_AGAIN = 0.5  # of the first block's users more, at least, where an arm is looked at again
_FEW_ARMS = 12  # with more of them second looks are shorter, and first blocks behind a shuffler, too
_DEVIATIONS, _MOST_DEVIATIONS = 8.0, 12.0  # of the noise in an arm's first block: with many arms, with a few
_GROWTH_LOCAL = 0.05
_FEW, _FEW_OF_ALL = 8.0, 1 / 500  # users whose rewards say something of an arm, and the share of all that try arms so


def arm_blocks(
    options: Options, deviation: Callable[[int], float], shape: Shape, episodes: int, tried: float = _TRIED
) -> PerPolicy:
    """Blocks with noise of their own; ``deviation`` is that of the noise in the rewards of a block of so many users."""
    first = options["first"]
    if first is None:
        first = max(1, round(tried * episodes / shape.actions))
        deviations = min(_MOST_DEVIATIONS, _DEVIATIONS * (1.0 + 2.0 / shape.actions))
        least, more = max(1, round(_few(shape, episodes))), _few(shape, 2 * episodes)
        while (enough := max(least, _with_chance(deviations * deviation(first), more))) < first:
            first = enough
    growth, first = check_positive("growth", options["growth"]), min(episodes, check_count("first", first))
    return PerPolicy(first, growth, shape.actions, again=math.ceil((1 + _AGAIN * _less(shape)) * first))


def tried_shuffled(shape: Shape) -> float:
    """The share of all users that first blocks may take behind a shuffler."""
    return _TRIED_SHUFFLED * _less(shape)


def answering_blocks(epsilon: float, shape: Shape, episodes: int, mixed: Growing) -> PerPolicy:
    """Blocks of users who answer their reward bits themselves, with this epsilon; ``mixed`` where actions are drawn."""
    told = math.tanh(epsilon / 2) ** 2
    first = max(1, round(min(_few(shape, episodes) / told, _TRIED_LOCAL * episodes / shape.actions)))
    return PerPolicy(min(episodes, first), _GROWTH_LOCAL, shape.actions, mixed)


def _with_chance(noise: float, more: float) -> int:
    """As many users as noise asks for, and some more against chance: at most ``more``, and fewer if noise is small."""
    return round(noise + min(noise, more))


def _less(shape: Shape) -> float:
    return min(1.0, _FEW_ARMS / shape.actions)


def _few(shape: Shape, episodes: int) -> float:
    return min(_FEW, _FEW_OF_ALL * episodes / shape.actions)
