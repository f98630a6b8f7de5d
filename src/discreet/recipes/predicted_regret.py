r"""What a recipe is expected to cost in regret, from public numbers alone: how "auto" compares recipes and blocks.

Regret is foretold as a share of what uniform play would cost. There are K users in blocks; block b (from 0) has n_b
users, after k_b users in earlier blocks. A row (state, action) competes with the other actions of its state, so take it
to be asked about in one block of A. Let V_b be the variance of the noise that all of its counts carry by then, and f
how often a user visits a row that her policy plays. With S states, A actions and H steps,

    v_b    = f k_b / A                                        visits of a row before block b
    e_b    = sqrt((4 + H^2 / 10) (V_b + v_b / 2)) / v_b       what noise and chance leave unknown
    R      = A + log2 S                                       blocks that try what nobody has tried
    share  = sum over b of n_b / K * (1 while b < R, then e_b / (1 + e_b))

R makes long blocks dear, because a policy that turns out to be bad is followed for a whole block; e_b makes many blocks
dear, because every block brings its own noise. Prefix sums with correlated noise carry little more of it after many
blocks than after few, but an unlucky draw stays for long: their variance counts 1.4 times when recipes are compared.

Focused blocks carry the noise of a release of 0.85 S sqrt(A) rows, with laws per step H times as many. The noise of
users who add it themselves does not depend on blocks at all. So all kinds of recipes are compared by one formula, which
also chooses the number of blocks.

**Learners that weigh.** In worlds of more than one step a learner that weighs what blocks told
(:mod:`discreet.learners.block_history`) is left with 0.6 of the variance of plain blocks, and with 0.3 of that of
prefix sums. And recipes are compared for it with v_b / 10 in place of v_b / 2: most of its regret comes from its first
blocks, where chance is small beside noise.

**A first block at random.** Where noise adds up, trying one plan after another asks about every row many times, with
noise each time. So learners that can (:data:`discreet.mechanisms.release.OPENING`) act at random in a first block,
which is the longer the harder the problem: a quarter of the square of the share above, of all users. Where steps are
pooled it is at most max(.05, .022 S/H) of them, because users who see many states soon have told what such a block can
tell. All actions have been tried then, and R is 2 + log2 S.

**Blocks that grow.** In worlds with pooled steps and more than two actions a plan is wrong somewhere for long, and the
more actions there are, the longer. Where noise adds up from block to block, what a block tells about a row goes with
the square of its visits, so late blocks should be long and early ones short: 0.6 of an equal share of the users, and
0.05 (A - 2) of those so far, at most 0.15, once that is more.

**Comparing recipes.** Of many actions one is the unluckiest, and what hides it is the noise in its reward; and what
follows is worth the more, the longer an episode is. So when recipes are compared, the noise in rewards counts A - 1
times (at most three times), that in successors H / 13 times (at least once, at most 1.5 times), and blocks that grow
count 1.12 times, because with little noise they cost more than this formula says. Focused blocks count 1.1 times for
learners that weigh: they are no plain sums that could be weighed, and more of their runs end with a bad policy.

f is what a policy that visits all states alike would have: H / S counts of every visit, 1 - (1 - 1/S)^H first visits,
1 / S where every step has counts of its own.

**What this is not.** No bound: worlds that are hard to explore cost more than this says, most others less. Its form
and its constants were chosen by measured regret (docs/decisions/0005-auto-expects-regret.md); ``discreet.rehearse``
measures what this formula guesses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.base.validation import check_count, check_open_unit, shown
from discreet.mechanisms.continual import ContinualChannel
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.focused import FocusedChannel
from discreet.mechanisms.mechanism import AnyChannel, counts_per_row
from discreet.mechanisms.release import WEIGHS
from discreet.mechanisms.schedule import (
    Equal,
    Growing,
    GrowThenEqual,
    OpeningThenEqual,
    OpeningThenGrowing,
    Schedule,
    sizes,
)
from discreet.mechanisms.session import Privatizer

NoiseAfter = Callable[[Floats, Floats], Floats]  # variance in a row's counts after so many releases and users

_NUMBERS = tuple(round(20 * 2 ** (i / 4)) for i in range(25))  # blocks that are tried: 20, 24, 28, ... 1280
_MOST, _MOST_WEIGHED = 640, 1280  # blocks of bandits; fewer the longer episodes are
_GROWTH, _GROWTH_OF_ALL = 0.02, 0.08  # how much blocks of the local model grow: one, and one for every action
_ASKED = 0.85  # of S sqrt(A) rows: plans that differ from step to step play several in a state, but some are known
_PERSISTS = 1.4  # noise of prefix sums stays from release to release, so what it hides once, it hides for long
WEIGHED = 0.6  # of the noise of blocks is left to learners that weigh them
WEIGHED_SUMS = 0.3  # of the noise of prefix sums
_CHANCE, _CHANCE_WEIGHED = 0.5, 0.1  # variance by chance, of a row's visits; for learners that weigh
_FIRST = 0.25  # of the square of the share that is expected: users of the first block, who act at random
_LONGEST, _LONGER_FIRST = 0.05, 0.022  # of all users, at most; or so much times S / H, where episodes are short
_TRIED = 2  # blocks, beside those for states that are hard to reach, that go on trying after it
_SMALLER, _GROWTH_PER_ACTION = 0.6, 0.05  # of an equal share, and of the users so far for each action beyond two
_MOST_GROWTH = 0.15
_GROWN = 1.12  # how much more than foretold blocks that grow cost, where there is little noise
_FOCUSED = 1.1  # and focused blocks, for learners that weigh: none of theirs can be weighed, and more runs are stuck
_STEPS, _LONGER = 13, 1.5  # how often that in successors counts: once for so many steps, and at most
_REWARDS = 3  # how often the noise in rewards counts, at most: once for every action beside the best
_AS_GOOD = 1.002  # of numbers of blocks that are foretold to be about as good, the smallest is the safest


def noise_of(privatizer: Privatizer, episodes: int = 0) -> float:
    """The noise variance in all counts of one (state, action) of one release."""
    return sum(channel.noise_per_row() for channel in privatizer.channels)


def expected_regret(privatizer: Privatizer, episodes: int, needs: frozenset[str] = frozenset()) -> float:
    """The regret that this privatizer is expected to leave, as a share of the regret of uniform play."""
    shape = privatizer.shape
    weighs = WEIGHS in needs and shape.horizon > 1
    noises = [
        (_counted(channel) * (_left(channel) if weighs else 1.0), noise_after(channel, 1.0 if weighs else _PERSISTS))
        for channel in privatizer.channels
    ]
    dearer = _GROWN if isinstance(privatizer.schedule, OpeningThenGrowing) else 1.0
    if weighs and any(isinstance(channel, FocusedChannel) for channel in privatizer.channels):
        dearer *= _FOCUSED
    return dearer * expected_share(
        shape,
        sizes(privatizer.schedule, episodes),
        lambda releases, users: np.asarray(sum(part * noise(releases, users) for part, noise in noises)),
        min(visits_per_user(shape, channel.encoder) for channel in privatizer.channels),
        privatizer.opening > 0,
        _CHANCE_WEIGHED if weighs else _CHANCE,
    )


def _counted(channel: AnyChannel) -> float:
    """How much more its noise counts: that in rewards with many actions, that in successors with many steps.

    Bandits have no successors, and recipes of their own. A channel may have some of the three counts only.
    """
    cells, shape = channel.cells_per_count(), channel.encoder.shape
    visits, successors, rewards = (cells.get(name, 0) for name in ("visits", "transitions", "rewards"))
    successors *= shape.states
    if shape.horizon == 1 or not visits + successors + rewards:
        return 1.0
    often = max(1, min(_REWARDS, shape.actions - 1))
    longer = max(1.0, min(_LONGER, shape.horizon / _STEPS))
    return (visits + longer * successors + often * rewards) / (visits + successors + rewards)


def _left(channel: AnyChannel) -> float:
    """How much of its noise is left to learners that weigh what blocks tell."""
    if channel.mixing is None:
        return 1.0
    return WEIGHED_SUMS if isinstance(channel, ContinualChannel) else WEIGHED


def expected_share(
    shape: Shape,
    blocks: Iterable[int],
    noise: NoiseAfter,
    visits: float,
    opening: bool = False,
    chance: float = _CHANCE,
) -> float:
    """The formula of this module, for blocks of these sizes; ``opening``: the first one tries all actions."""
    users = np.fromiter(blocks, np.float64)
    before, actions = np.cumsum(users) - users, shape.actions
    seen = np.maximum(visits * before / actions, 1e-9)
    variance = noise(np.ceil(np.arange(len(users)) / actions), before / actions)
    error = np.sqrt((4 + shape.horizon**2 / 10) * (variance + chance * seen)) / seen
    unknown = error / (1 + error)
    trying = min(actions, _TRIED) if opening else actions
    unknown[: math.ceil(trying + math.log2(shape.states))] = 1.0
    return float(users @ unknown / users.sum())


def best_blocks(
    shape: Shape, encoder: Encoder, episodes: int, noise: Callable[[int], NoiseAfter], opening: int = 0
) -> int:
    """The number of equal blocks, after an opening, that is expected to cost the least; see :func:`foretold`."""
    return foretold(shape, encoder, episodes, noise, opening)[0]


def foretold(
    shape: Shape, encoder: Encoder, episodes: int, noise: Callable[[int], NoiseAfter], opening: int = 0
) -> tuple[int, float]:
    """That number, and the share of uniform play's regret that it costs; ``noise(blocks)`` says what blocks carry."""
    visits = visits_per_user(shape, encoder)
    most = (_MOST_WEIGHED if opening else _MOST) / math.sqrt(shape.horizon)  # more hardly help
    most = min(episodes - opening, round(most))
    expected = {
        blocks: expected_share(shape, sizes(_schedule(opening, blocks), episodes), noise(blocks), visits, opening > 0)
        for blocks in sorted({min(number, most) for number in _NUMBERS})
    }
    best = min(expected.values())
    return next((blocks, share) for blocks, share in expected.items() if share <= best * _AS_GOOD)


def _schedule(opening: int, blocks: int) -> Schedule:
    return OpeningThenEqual(opening, blocks) if opening else Equal(blocks)


def blocks_of(
    options: Mapping[str, Any],
    shape: Shape,
    encoder: Encoder,
    episodes: int,
    noise: Callable[[int], NoiseAfter],
    left: float = WEIGHED,
    grow: bool = True,
) -> Schedule:
    """The blocks that a recipe's options ask for; where these leave it open, as many as are expected to cost least.

    ``left`` of the noise is left to learners that weigh; ``grow``: blocks of plain sums may grow.
    """
    given, first, share = options["blocks"], options.get("first"), options.get("opening", 0.0)
    wanted = None if given is None else check_count("blocks", given)
    if first is not None and share:
        raise InvalidInput(
            f"a first block is either short (first={shown(first)}) or long (opening={shown(share)}): give one of them"
        )
    asked = share is not None or wanted is not None or first is not None
    if shape.horizon == 1 or (asked and not share):
        blocks = wanted or best_blocks(shape, encoder, episodes, noise)
        return Equal(min(blocks, episodes)) if first is None else GrowThenEqual(blocks, first)
    if share is None:
        longest = max(_LONGEST, _LONGER_FIRST * shape.states / shape.horizon) if shape.homogeneous else 1.0
        share = min(longest, _FIRST * foretold(shape, encoder, episodes, noise)[1] ** 2)
    opening = round(check_open_unit("opening", share) * episodes)
    if not 0 < opening < episodes:
        return blocks_of({**options, "opening": 0.0}, shape, encoder, episodes, noise)

    def weighed(blocks: int) -> NoiseAfter:
        plain = noise(blocks)
        return lambda releases, users: left * plain(releases, users)

    blocks = wanted or best_blocks(shape, encoder, episodes, weighed, opening)
    if grow and wanted is None and left == WEIGHED and shape.homogeneous and shape.actions > 2:
        first = max(1, round(_SMALLER * (episodes - opening) / blocks))
        growth = min(_MOST_GROWTH, _GROWTH_PER_ACTION * (shape.actions - 2))
        return OpeningThenGrowing(opening, first, growth)
    return OpeningThenEqual(opening, min(blocks, episodes - opening))


def growing(options: Mapping[str, Any], shape: Shape) -> Growing:
    """Blocks of users who add noise themselves: their number costs nothing but time, so they grow slowly.

    Trying all actions once takes as many blocks, and should not take much longer than all that was before.
    """
    given = options["growth"]
    return Growing(first=1, growth=min(_GROWTH, _GROWTH_OF_ALL / shape.actions) if given is None else given)


def visits_per_user(shape: Shape, encoder: Encoder) -> float:
    """How often a user counts in a row that her policy plays, if all states are visited alike."""
    if not shape.homogeneous:
        return 1.0 / shape.states
    if "first-visit" in encoder.name:
        return 1.0 - (1.0 - 1.0 / shape.states) ** shape.horizon
    return shape.horizon / shape.states


def noise_after(channel: AnyChannel, persists: float = _PERSISTS) -> NoiseAfter:
    """How the noise in a row's counts grows with releases and users; that of prefix sums counts ``persists`` times."""
    if isinstance(channel, ContinualChannel):
        unit = persists * channel.law.variance * counts_per_row(channel.encoder)
        errors = channel.accumulator.errors()
        return lambda releases, _users: unit * errors[np.minimum(releases.astype(np.int64), len(errors) - 1)]
    if isinstance(channel, FocusedChannel):
        shape = channel.encoder.shape
        asked = min(channel.rows[-1], max(1, round(_ASKED * shape.groups * shape.states * math.sqrt(shape.actions))))
        return every_release(channel.law_for(asked).variance * counts_per_row(channel.encoder))
    unit = channel.noise_per_row()
    if len(channel.shortcut([1, 1, 1])) < 3:  # users add it: blocks do not matter
        return lambda _releases, users: unit * users
    return every_release(unit)


def every_release(unit: float) -> NoiseAfter:
    """Fresh noise of this variance in every release."""
    return lambda releases, _users: unit * releases


def square_root(unit: float, releases: int) -> NoiseAfter:
    """Prefix sums by the square root of their matrix, whose coefficients are about 1 / sqrt(pi j)."""
    column = 1 + math.log(releases) / math.pi
    return lambda done, _users: unit * column * (1 + np.log(np.maximum(done, 1.0)) / math.pi) * (done > 0)
