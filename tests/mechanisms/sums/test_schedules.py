"""Block schedules: public sizes that serve everybody exactly once."""

from __future__ import annotations

import pytest

from discreet.base.errors import InvalidInput
from discreet.mechanisms.schedule import Equal, EveryEpisode, Growing, GrowThenEqual, OpeningThenGrowing, sizes

SCHEDULES = [
    EveryEpisode(), Equal(1), Equal(7), Equal(60), Growing(), Growing(5, 0.5), GrowThenEqual(6, 2),
    OpeningThenGrowing(5, 2, 0.1), OpeningThenGrowing(300, 7, 0.4),
]  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("total", [1, 2, 6, 7, 61, 1000])
def test_blocks_serve_everybody_once(schedule, total):
    blocks = sizes(schedule, total)
    assert sum(blocks) == total
    assert min(blocks) >= 1


def test_equal_blocks_differ_by_at_most_one_and_are_as_many_as_asked():
    for total in (60, 61, 119, 1000, 20_000):
        blocks = sizes(Equal(60), total)
        assert len(blocks) == 60
        assert max(blocks) - min(blocks) <= 1
    assert sizes(Equal(60), 7) == [1] * 7


def test_equal_blocks_catch_up_with_a_request_of_another_size():
    assert Equal(4).next_block(0, 100) == 25
    assert Equal(4).next_block(10, 100) == 15
    assert Equal(4).next_block(99, 100) == 1


def test_growing_blocks_are_a_share_of_what_was_served():
    assert sizes(Growing(first=4, growth=0.5), 40) == [4, 4, 4, 6, 9, 13]
    assert sizes(EveryEpisode(), 5) == [1] * 5


def test_blocks_double_until_they_are_equal():
    assert sizes(GrowThenEqual(blocks=4, first=2), 64) == [2, 2, 4, 8, 16, 16, 16]


def test_after_an_opening_blocks_grow_once_their_share_is_more_and_the_last_takes_the_rest():
    assert sizes(OpeningThenGrowing(20, 10, 0.25), 200) == [20, 10, 10, 10, 12, 16, 20, 24, 30, 48]
    assert sizes(OpeningThenGrowing(20, 10, 0.25), 44) == [20, 10, 14]
    assert sizes(OpeningThenGrowing(20, 10, 0.25), 45) == [20, 10, 10, 5]
    assert sizes(OpeningThenGrowing(20, 10, 0.25), 12) == [12]


@pytest.mark.parametrize("growth", [0.05, 0.15, 0.6])
@pytest.mark.parametrize("first", [1, 40, 300])
def test_no_block_is_larger_than_the_largest_wherever_it_begins(growth, first):
    schedule, total = OpeningThenGrowing(50, first, growth), 1500
    largest = max(schedule.next_block(served, total) for served in range(total))
    assert largest <= schedule.largest(total) <= 1.02 * largest + 2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Equal(0),
        lambda: Growing(first=0),
        lambda: Growing(growth=0.0),
        lambda: GrowThenEqual(3, 0),
        lambda: OpeningThenGrowing(0, 1, 0.1),
        lambda: OpeningThenGrowing(1, 0, 0.1),
        lambda: OpeningThenGrowing(1, 1, 0.0),
    ],
)
def test_sizes_below_one_are_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()


def test_a_schedule_that_asks_for_nobody_or_too_many_is_refused():
    class Wrong:
        def __init__(self, block):
            self.block = block

        def next_block(self, served, total):
            return self.block

        def describe(self):
            return "wrong"

    for block in (0, -1, 6):
        with pytest.raises(InvalidInput, match="block"):
            sizes(Wrong(block), 5)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_schedule_describes_itself(schedule):
    assert schedule.describe()
    if hasattr(schedule, "blocks"):
        assert str(schedule.blocks) in schedule.describe()
