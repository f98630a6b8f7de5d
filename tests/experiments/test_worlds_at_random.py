"""Random worlds for comparing learners: the same ones for ever, of every kind, and what is said about pairs of runs."""

import numpy as np
import pytest
from experiments.worlds_at_random.__main__ import main, summary
from experiments.worlds_at_random.drawing import KINDS, REPORTED, TUNING, world_of

from discreet.base.policies import uniform_policy


def test_a_seed_is_a_world_in_which_something_can_be_won() -> None:
    names = set()
    for seed in TUNING[:120]:
        world, again = world_of(seed), world_of(seed)
        assert world.name == again.name
        assert np.array_equal(world.transitions, again.transitions)
        assert np.array_equal(world.means, again.means)
        assert world.gap(uniform_policy(world.shape)) > 1e-4
        names.add(world.name.rsplit("-", 1)[0])
        assert (world.horizon == 1) == (seed % 6 == 0)
    assert names == {"arms", *(kind for kind, _ in KINDS)}


def test_no_world_is_tuned_on_and_reported() -> None:
    assert not set(TUNING) & set(REPORTED)
    assert len(REPORTED) == 200


def _row(world: int, share: float, gap: float = 0.0) -> dict[str, float]:
    return {"world": world, "share": share, "gap": gap, "seconds": 1.0}


def test_a_summary_has_the_ratio_and_the_interval_of_stuck_runs() -> None:
    halved = [(_row(world, 0.2), _row(world, 0.1 - 0.00025)) for world in range(10)]
    assert "ratio 0.500 (0.50-0.50), better 10 worse 0 of 10; stuck 0 -> 0 of 10" in summary(halved)
    stuck = [(_row(0, 1.0, 0.6), _row(0, 1.0)), *((_row(world, 1.0), _row(world, 1.0)) for world in range(1, 100))]
    # One pair in a hundred differs: -1 +- 1.96 sqrt(1 + 1) in 100.
    assert "stuck 1 -> 0 of 100 (-3.8 to +1.8 in 100)" in summary(stuck)


def test_runs_are_stored_and_compared(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--out", str(tmp_path)]
    run = [*words, "run", "psrl", "--trust", "none", "--worlds", "3", "--tag"]
    assert main([*run, "one"]) == main([*run, "two"]) == main([*run, "two"]) == 0
    capsys.readouterr()
    assert main([*words, "compare", "psrl", "psrl", "--tags", "one", "two", "--trust", "none"]) == 0
    said = capsys.readouterr().out
    assert "ratio 1.000 (1.00-1.00), better 0 worse 0 of 2; stuck 0 -> 0 of 2" in said
    assert "bandits" in said
