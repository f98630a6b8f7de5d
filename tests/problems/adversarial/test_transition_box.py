from __future__ import annotations

import numpy as np
import pytest
from layered_instances import RAGGED, SQUARE, random_box, random_policy, random_rows
from scipy.optimize import linprog

from discreet.problems.adversarial.layers import Box, Layers, confidence_box, occupancy, pair_occupancy
from discreet.problems.adversarial.transition_box import upper_occupancy


def bounds_by_linear_programs(layers: Layers, policy: np.ndarray, box: Box) -> np.ndarray:
    """max q(x) over all occupancy measures of the box whose policy is the given one, one program per state."""
    n, N, offset = layers.states, layers.triples, layers.arrays.offset
    pair = np.repeat(np.arange(layers.pairs), np.diff(offset))
    state = pair // layers.actions
    column = np.arange(N) - offset[pair]
    target = layers.arrays.first[layers.layer[state] + 1] + column
    out = (state == np.arange(n)[:, None]).astype(float)
    into = (target == np.arange(n)[:, None]).astype(float)
    mass = (pair == np.arange(layers.pairs)[:, None]).astype(float)
    flow = out - into
    follow = mass - policy.reshape(-1)[:, None] * np.repeat(out, layers.actions, axis=0)
    spread = mass[pair]
    above, below = np.eye(N) - box.upper[:, None] * spread, box.lower[:, None] * spread - np.eye(N)
    bounds = []
    for x in range(n):
        answer = linprog(
            -out[x],
            A_ub=np.vstack((above, below)),
            b_ub=np.zeros(2 * N),
            A_eq=np.vstack((flow, follow)),
            b_eq=np.concatenate((np.eye(n)[0], np.zeros(layers.pairs))),
        )
        bounds.append(-answer.fun)
    return np.array(bounds)


@pytest.mark.parametrize("width", [1.0, 0.2, 0.02])
def test_the_greedy_choice_is_the_linear_program(width: float) -> None:
    rng = np.random.default_rng(0)
    for layers in (RAGGED, Layers((1, 3, 4, 2, 1), actions=2)):
        policy, box = random_policy(layers, rng), random_box(layers, width, rng, zero_lower=True)
        np.testing.assert_allclose(
            upper_occupancy(layers, policy, box), bounds_by_linear_programs(layers, policy, box), atol=1e-9
        )


def test_no_transitions_of_the_box_reach_more_often() -> None:
    rng = np.random.default_rng(1)
    centre, policy = random_rows(SQUARE, rng), random_policy(SQUARE, rng)
    box = confidence_box(SQUARE, centre, 0.1)
    bound = upper_occupancy(SQUARE, policy, box)
    widths = np.diff(SQUARE.arrays.offset)
    tightest = np.inf
    for _ in range(300):
        move = rng.uniform(-0.1, 0.1, SQUARE.triples)
        inside = np.clip(centre + move, box.lower, box.upper) - centre
        inside -= np.repeat(np.add.reduceat(inside, SQUARE.arrays.offset[:-1]) / widths, widths)
        P = centre + 0.5 * inside
        P = np.where(np.repeat(np.minimum.reduceat(P, SQUARE.arrays.offset[:-1]) < 0, widths), centre, P)
        reach = pair_occupancy(SQUARE, occupancy(SQUARE, P, policy)).sum(axis=1)
        assert (reach <= bound + 1e-12).all()
        tightest = min(tightest, float((bound - reach)[1:].min()))
    assert tightest > 0


def test_known_transitions_give_the_occupancy_itself() -> None:
    rng = np.random.default_rng(2)
    for layers in (SQUARE, RAGGED, Layers((1, 1), 2)):
        P, policy = random_rows(layers, rng), random_policy(layers, rng)
        reach = pair_occupancy(layers, occupancy(layers, P, policy)).sum(axis=1)
        bound = upper_occupancy(layers, policy, confidence_box(layers, P, 0.0))
        np.testing.assert_allclose(bound, reach, rtol=1e-12)


def test_without_knowledge_every_state_is_reached() -> None:
    box = confidence_box(RAGGED, RAGGED.uniform_transitions(), 1.0)
    np.testing.assert_allclose(upper_occupancy(RAGGED, random_policy(RAGGED, np.random.default_rng(3)), box), 1)
