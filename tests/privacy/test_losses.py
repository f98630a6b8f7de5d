import numpy as np
import pytest

from discreet.privacy.losses import LossDistribution, convolve, on_grid, regrid, repeat, split_intervals


def three_atoms():
    return np.array([-0.83, 0.21, 1.4]), np.array([0.2, 0.5, 0.3])


def hockey(losses, masses, epsilon, infinite=0.0):
    return infinite + float(np.sum(masses * np.maximum(0.0, 1 - np.exp(epsilon - losses))))


def test_delta_is_the_hockey_stick_sum():
    masses = np.array([0.1, 0.4, 0.5])
    distribution = LossDistribution(-1.0, 0.75, masses, infinite=0.01)
    for epsilon in (-2.0, -1.0, 0.0, 0.3, 0.5, 3.0):
        assert distribution.delta(epsilon) == pytest.approx(
            hockey(distribution.losses, masses, epsilon, 0.01), abs=1e-15
        )


def test_beyond_all_losses_only_infinite_ones_count():
    """Also where a step is so short that its number at epsilon is beyond all whole numbers, or infinite."""
    masses = np.array([0.2, 0.6])
    for step in (0.75, 1e-17, 1e-300):
        assert LossDistribution(0.0, step, masses, infinite=0.2).delta(1e9) == 0.2
    assert LossDistribution(-1.0, 1e-300, masses, infinite=0.2).delta(-1e9) == pytest.approx(1.0)


def test_on_grid_keeps_both_masses_and_only_raises_delta():
    losses, masses = three_atoms()
    gridded = on_grid(losses, masses, 0.3)
    assert gridded.masses.sum() == pytest.approx(1.0, abs=1e-15)
    assert np.dot(gridded.masses, np.exp(-gridded.losses)) == pytest.approx(np.dot(masses, np.exp(-losses)), abs=1e-14)
    assert np.allclose(gridded.losses / 0.3, np.round(gridded.losses / 0.3))
    gaps = [gridded.delta(e) - hockey(losses, masses, e) for e in np.linspace(-1, 2, 61)]
    assert min(gaps) > -1e-14
    assert max(gaps) > 1e-3  # a coarse grid is visibly pessimistic: the test can tell


def test_a_fine_grid_loses_little():
    losses, masses = three_atoms()
    fine = on_grid(losses, masses, 1e-3)
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        assert fine.delta(epsilon) == pytest.approx(hockey(losses, masses, epsilon), rel=1e-3)


def test_regrid_of_a_grid_on_itself_changes_nothing():
    start = on_grid(*three_atoms(), 0.25)
    again = regrid(start, 0.25)
    assert again.delta(0.3) == pytest.approx(start.delta(0.3), abs=1e-13)


@pytest.mark.parametrize("size", [3, 300])
def test_convolution_adds_independent_losses(size):
    rng = np.random.default_rng(0)
    first, second = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size + 1))
    total = convolve(LossDistribution(0.0, 0.1, first, 0.01), LossDistribution(-0.05, 0.1, second, 0.02))
    assert total.start == pytest.approx(-0.05)
    assert total.infinite == pytest.approx(1 - 0.99 * 0.98)
    assert np.allclose(total.masses, np.convolve(first, second), atol=1e-15)


def test_repeat_is_repeated_convolution():
    one = LossDistribution(-0.1, 0.2, np.array([0.45, 0.55]), 0.001)
    seven = repeat(one, 7)
    byhand = one
    for _ in range(6):
        byhand = convolve(byhand, one)
    assert seven.delta(0.2) == pytest.approx(byhand.delta(0.2), rel=1e-12)
    assert seven.infinite == pytest.approx(1 - 0.999**7)


def test_truncation_moves_mass_to_the_worse_side():
    masses = np.array([1e-13, 0.5, 0.5, 1e-13])
    total = convolve(LossDistribution(0.0, 1.0, masses), LossDistribution(0.0, 1.0, np.array([1.0])))
    assert len(total.masses) == 2
    assert total.infinite == pytest.approx(1e-13)
    assert total.start == 1.0
    assert total.masses.sum() + total.infinite == pytest.approx(1.0 + 2e-13, abs=1e-15)


def test_different_steps_do_not_convolve():
    with pytest.raises(ValueError, match="steps differ"):
        convolve(LossDistribution(0.0, 1.0, np.ones(1)), LossDistribution(0.0, 1.1, np.ones(1)))


def test_split_intervals_keeps_both_masses():
    p, q = np.array([0.3, 0.7]), np.array([0.3 * np.exp(-0.2), 0.7 * np.exp(-0.9)])
    masses = split_intervals(0.0, 0.5, p, q)
    losses = np.array([0.0, 0.5, 1.0])
    assert masses.sum() == pytest.approx(1.0)
    assert np.dot(masses, np.exp(-losses)) == pytest.approx(q.sum())
