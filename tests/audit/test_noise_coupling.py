"""What moved noise costs, by log-probabilities alone, against the profiles that the laws state; and tapes."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.audit.noise_coupling import Move, Offence, Tape, losses_of, profile_of_moves
from discreet.noise import BinomialNoise, DiscreteGaussian, DiscreteLaplace, Gaussian, GridGaussian, Laplace
from discreet.noise.knorm import TableNoise
from discreet.privacy.sensitivity import Sensitivity

DELTAS = (1e-5, 1e-3, 0.05)


@pytest.mark.parametrize(
    "law",
    [
        DiscreteLaplace(3.0),
        DiscreteGaussian(4.0),
        Laplace(2.5),
        Gaussian(4.0),
        GridGaussian(4.0, 32),
        BinomialNoise(900, 0.25),
    ],
    ids=lambda law: type(law).__name__,
)
def test_the_cost_of_unit_moves_is_the_profile_that_the_law_states(law):
    found = profile_of_moves([Move(law, (1.0, 0.0, -1.0)), Move(law, (1.0,))])
    stated = law.profile(Sensitivity.unit_shifts(2, 1))
    wrong = law.profile(Sensitivity.unit_shifts(3, 1))
    for delta in DELTAS:
        assert found.epsilon(delta) == pytest.approx(stated.epsilon(delta), rel=2e-3)
        assert found.epsilon(delta) < 0.97 * wrong.epsilon(delta)


def test_pure_laws_have_their_largest_loss_and_others_have_none():
    assert profile_of_moves([Move(DiscreteLaplace(3.0), (2.0, -1.0))]).epsilon(0.0) == pytest.approx(1.0)
    assert profile_of_moves([Move(Laplace(300.0), (2.5,))]).epsilon(0.0) == pytest.approx(2.5 / 300)
    assert np.isinf(profile_of_moves([Move(DiscreteGaussian(3.0), (1.0,))]).epsilon(0.0))
    assert np.isinf(profile_of_moves([Move(BinomialNoise(40, 0.5), (1.0,))]).epsilon(0.0))


def test_noise_on_whole_tables_pays_for_the_largest_move():
    moves = [Move(TableNoise(3, 4.0), (1.0, -1.0, 1.0)), Move(TableNoise(3, 4.0), (0.0, 2.0, 0.0))]
    assert profile_of_moves(moves).epsilon(0.0) == pytest.approx(0.25 + 0.5)


def test_losses_are_those_of_two_laws():
    """The mass under the second law, sum of p e^(-loss), is one where both have the same support."""
    for law in (DiscreteLaplace(2.0), DiscreteGaussian(3.0)):
        found = losses_of(law, 1.0)
        assert float(found.masses @ np.exp(-found.losses)) == pytest.approx(1.0, abs=1e-9)
        assert found.infinite < 1e-12


def test_a_tape_plays_the_same_noise_again_and_moved():
    first = Tape(3)
    first.turn(0)
    drawn = first.draw(DiscreteLaplace(2.0), 1, 5)
    again = Tape(3, first, {(0, 0): np.arange(5.0)})
    again.turn(0)
    np.testing.assert_array_equal(again.draw(DiscreteLaplace(2.0), 1, 5), drawn + np.arange(5))


@pytest.mark.parametrize(
    "asked", [(DiscreteLaplace(3.0), 1, 5), (DiscreteLaplace(2.0), 2, 5), (DiscreteLaplace(2.0), 1, 4)]
)
def test_another_draw_than_before_is_an_offence(asked):
    first = Tape(3)
    first.turn(0)
    first.draw(DiscreteLaplace(2.0), 1, 5)
    again = Tape(3, first)
    again.turn(0)
    with pytest.raises(Offence, match="depends on the replaced user"):
        again.draw(*asked)
    again.turn(1)
    with pytest.raises(Offence, match="for one population and not for the other"):
        again.draw(DiscreteLaplace(2.0), 1, 5)
