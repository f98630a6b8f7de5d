"""When a release happens: public block sizes, fixed before any data are seen.

A schedule maps the users already served (``PerPolicy``: those who followed the same policy) to the size of the next
block. Every user is in exactly one block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from discreet.base.errors import InvalidInput
from discreet.base.validation import check_count, check_positive


class Schedule(Protocol):
    """When releases happen."""

    def next_block(self, served: int, total: int) -> int:
        """How many users the next block has, after ``served`` of ``total``."""

    def describe(self) -> str:
        """The schedule in a few words, for derivations and tables."""


@dataclass(frozen=True)
class EveryEpisode:
    """A release after every user."""

    def next_block(self, served: int, total: int) -> int:
        """One user per block, always."""
        return 1

    def describe(self) -> str:
        """The schedule in words; there is nothing to configure."""
        return "a release after every user"


@dataclass(frozen=True)
class Equal:
    """``blocks`` blocks of equal size (sizes differ by at most one)."""

    blocks: int

    def __post_init__(self) -> None:
        check_count("blocks", self.blocks)

    def next_block(self, served: int, total: int) -> int:
        """The users up to the end of the block that comes next: block i of B ends at user floor(i * total / B)."""
        blocks = min(self.blocks, total)
        following = -(-(served + 1) * blocks // total)  # block i ends at floor(i * total / blocks)
        return following * total // blocks - served

    def describe(self) -> str:
        """The schedule in words, with the number of blocks."""
        return f"{self.blocks} equal blocks"


@dataclass(frozen=True)
class SameUsers:
    """Everybody at once, and everybody again for the next question; the budget counts the questions."""

    def next_block(self, served: int, total: int) -> int:
        """All users in every block."""
        return total

    def describe(self) -> str:
        """The schedule in words; there is nothing to configure."""
        return "all users, question after question"


@dataclass(frozen=True)
class Growing:
    """Blocks that grow with the users served: each is ``growth`` times what was served before, at least ``first``."""

    first: int = 1
    growth: float = 0.02

    def __post_init__(self) -> None:
        check_count("first", self.first)
        check_positive("growth", self.growth)

    def next_block(self, served: int, total: int) -> int:
        """The share ``growth`` of the users served so far, at least ``first``, at most those that are left."""
        return min(total - served, max(self.first, int(served * self.growth)))

    def describe(self) -> str:
        """The schedule in words, with the growth and the first block."""
        return f"blocks that grow by {self.growth:.0%}, the first of {self.first} users"


@dataclass(frozen=True)
class GrowThenEqual:
    """Short blocks early, when exploration is cheap, that double until they reach the size of equal ones."""

    blocks: int
    first: int

    def __post_init__(self) -> None:
        check_count("blocks", self.blocks)
        check_count("first", self.first)

    def next_block(self, served: int, total: int) -> int:
        """As many users as were served so far, at least ``first``, at most an equal share of all users."""
        largest = max(1, total // self.blocks)
        return min(total - served, largest, max(self.first, served))

    def describe(self) -> str:
        """The schedule in words, with the first block and the largest one."""
        return f"blocks that double from {self.first} users up to one {self.blocks}th of all"


@dataclass(frozen=True)
class OpeningThenEqual:
    """One long first block, in which learners try everything at random, then ``blocks`` blocks of equal size."""

    opening: int
    blocks: int

    def __post_init__(self) -> None:
        check_count("opening", self.opening)
        check_count("blocks", self.blocks)

    def next_block(self, served: int, total: int) -> int:
        """The opening, then the blocks of all who are left after it."""
        opening = min(self.opening, total)
        return opening if served == 0 else self._rest.next_block(served - opening, total - opening)

    @cached_property
    def _rest(self) -> Equal:
        return Equal(self.blocks)

    def describe(self) -> str:
        """The schedule in words, with the opening and the number of blocks."""
        return f"a first block of {self.opening} users, then {self.blocks} equal blocks"


@dataclass(frozen=True)
class OpeningThenGrowing:
    """One long first block, as above, then blocks of ``first`` users, or of ``growth`` times those served if larger.

    Nobody is left over for a block of less than half a size: the last one takes them.
    """

    opening: int
    first: int
    growth: float

    def __post_init__(self) -> None:
        check_count("opening", self.opening)
        check_count("first", self.first)
        check_positive("growth", self.growth)

    def next_block(self, served: int, total: int) -> int:
        """The opening, then the larger of ``first`` and the share ``growth`` of the users served so far."""
        left = total - served
        if served == 0:
            return min(self.opening, left)
        size = max(self.first, round(self.growth * served))
        return left if 2 * left < 3 * size else size

    def largest(self, total: int) -> int:
        """No block is larger, however many users were counted before it: after dropouts blocks begin elsewhere."""
        last = 3 * self.growth * total / (2 + 3 * self.growth)  # left is below 3/2 of growth times those before
        return min(total, max(self.opening, math.ceil(1.5 * self.first), math.ceil(last + 1)))

    def describe(self) -> str:
        """The schedule in words, with the opening, the next block and the growth."""
        return (
            f"a first block of {self.opening} users, then blocks of {self.first}, or {self.growth:.0%} of those before"
        )


@dataclass(frozen=True)
class PerPolicy:
    """Blocks that follow the policy and not the clock: the first one of a policy has ``first`` users.

    Later ones have ``growth`` times the users that the policy has had, and at least ``again``. Policies and how many
    have followed them are public, so sizes are. Where there is no policy to ask about yet, ``policies`` of them are
    taken to come in turn.
    Policies that leave a choice differ from block to block: for them there may be another schedule, ``mixed``.
    """

    first: int
    growth: float
    policies: int = 1
    mixed: Growing | None = None
    again: int = 1

    def __post_init__(self) -> None:
        check_count("first", self.first)
        check_positive("growth", self.growth)
        check_count("policies", self.policies)
        check_count("again", self.again)

    def next_block_of(self, followed: int, left: int) -> int:
        """The next block of a policy that ``followed`` users have had, with ``left`` users to come."""
        least = self.first if followed == 0 else max(self.first, self.again)
        return min(left, max(least, math.ceil(self.growth * followed)))

    def next_block(self, served: int, total: int) -> int:
        """The next block if all policies have had equally many users."""
        return self.next_block_of(served // self.policies, total - served)

    def describe(self) -> str:
        """The schedule in words, with the first block of a policy and the growth of later ones."""
        least = f", at least {self.again}" if self.again > self.first else ""
        return f"a policy's first block has {self.first} users, later ones {self.growth:.0%} of those it has had{least}"


def blocks_for(
    deviation: float,
    users_per_deviation: float,
    episodes: int,
    *,
    fewest: int,
    most: int,
    whole: Callable[[float], int] = round,
) -> int:
    """How many blocks leave each of them so many users per standard deviation of the noise in one release.

    Short blocks let a learner plan anew more often, long ones let counts stand out of the noise.
    """
    users = users_per_deviation * deviation
    return min(most, max(fewest, whole(episodes / users))) if users > 0 else most


def sizes(schedule: Schedule, total: int) -> list[int]:
    """All block sizes of a schedule; they add up to ``total``."""
    check_count("total", total)
    served, blocks = 0, []
    while served < total:
        block = schedule.next_block(served, total)
        if not 1 <= block <= total - served:
            raise InvalidInput(f"the schedule asked for a block of {block} users with {total - served} left")
        blocks.append(block)
        served += block
    return blocks
