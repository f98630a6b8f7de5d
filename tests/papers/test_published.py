"""What the papers' noise really gives: formulas, enumeration of what a user moves, and every number in the errata."""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.noise import BinomialNoise
from discreet.papers import PUBLISHED, linear_costs, published, raw_count_loss
from discreet.papers.published_mechanism import Setting
from discreet.privacy.profiles import GaussianProfile
from discreet.privacy.sensitivity import Sensitivity

ERRATA = (Path(__file__).parents[2] / "docs" / "errata.md").read_text()


def rows_below(header: str) -> list[list[str]]:
    """The cells of the markdown table that starts with this header."""
    lines = ERRATA[ERRATA.index(header) :].splitlines()[2:]
    table = lines[: next(i for i, line in enumerate([*lines, ""]) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def printed(text: str) -> tuple[float, float]:
    """A number in the page and how far the true one may be from it: half a unit of its last digit."""
    mantissa = re.split("e", text)[0]
    digits = len(mantissa.split(".")[1]) if "." in mantissa else 0
    exponent = int(text.split("e")[1]) if "e" in text else 0
    return float(text), 0.5000001 * 10.0 ** (exponent - digits)


@pytest.mark.parametrize("row", rows_below("| users | loss |"), ids=lambda row: row[0])
def test_a_row_of_raw_count_losses(row):
    expected, half_a_digit = printed(row[1])
    assert abs(raw_count_loss(int(row[0])) - expected) <= half_a_digit


def test_the_numbers_in_the_prose_of_the_errata():
    page = " ".join(ERRATA.split())
    moves = Sensitivity.unit_shifts(18, 18)
    assert "2,008 noise bits keep" in page
    assert BinomialNoise(2008, 0.5).profile(moves).delta(1.0) <= 1e-5
    assert BinomialNoise(1990, 0.5).profile(moves).delta(1.0) > 1e-5
    truth = published("published/sdp-pe").truth(Shape(4, 2, 6), epsilon=1.0, delta=1e-5)
    assert 1 / truth.epsilon == pytest.approx(20, rel=0.03)
    features = experiment_features()
    assert "squared norms up to 7" in page
    assert (features**2).sum(axis=1).max() == 7
    vectors, matrices = largest_squared_moves(features)
    assert "9 in the vectors (4 for unit features) and 57 in the matrices (2 for unit features)" in page
    assert (vectors, matrices) == (9, 57)
    counts = 4 / 3 * 15 / math.log2(20_000)
    assert f"{counts:.3f} epsilon from the counts alone" in page


def test_orthogonal_features_move_a_matrix_by_two():
    assert largest_squared_moves(np.eye(4, dtype=int)) == (2, 2)
    rng = np.random.default_rng(0)
    unit = rng.normal(size=(400, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    inner = unit @ unit.T
    moves_of_matrices = 2 - 2 * inner**2
    assert 1.99 < moves_of_matrices.max() <= 2
    # Opposite features with opposite targets: a vector moves by 2 targets' ranges, a matrix not at all.
    (_, vectors), (_, matrix) = own_moves("published/offline-vapvi", horizon=1, rho=1.0)
    assert (vectors, matrix) == (2 * 4, 2)  # the half D': two vectors, one matrix


def test_dp_vapvi_costs_what_its_halves_cost():
    """By hand, with rho0 = rho / 5 at H = 1: a vector that moves by 2 costs rho0, a matrix that moves by sqrt(2) twice.

    With the split of Algorithm 2 nobody pays more than rho. Without it, as in the experiment, everybody does.
    """
    assert linear_costs(split=True) == {"D'": 0.8, "D": 0.6}
    assert linear_costs(split=False) == {"everybody": 1.4}
    assert linear_costs(split=False, features="experiment") == {"everybody": 24.15}
    assert linear_costs(split=True, features="experiment") == {"D'": 12.3, "D": 11.85}
    for features, table in (("unit", np.eye(2, dtype=int)), ("experiment", experiment_features())):
        vector, matrix = largest_squared_moves(table)
        vector = 4 if features == "unit" else vector  # opposite features, which a basis does not have
        by_hand = {"D'": (2 * vector / 4 + matrix) / 5, "D": (vector / 4 + matrix) / 5}
        assert linear_costs(split=True, features=features) == pytest.approx(by_hand)
    truth = published("published/offline-vapvi").truth(Shape(2, 100, 20), rho=2.0, delta=1e-5)
    assert truth.rho == pytest.approx(1.6)
    assert "(true)" in truth.explain()
    with pytest.raises(InvalidInput, match="did you mean unit"):
        linear_costs(split=True, features="units")


def test_one_pair_of_the_experiment_really_costs_more_than_the_budget():
    """The matrix without weights moves by 57 for one pair of actions, so its cost alone is 57 / 5 of rho."""
    flat = experiment_features()
    grams = np.einsum("ni,nj->nij", flat, flat)
    moved = max(((grams[i] - grams[:i]) ** 2).sum(axis=(1, 2)).max() for i in range(1, len(flat)))
    assert moved == 57
    found = published("published/offline-vapvi-experiment").reached(Setting(Shape(2, 100, 20), 1000, rho=1.0))
    assert (found.unit, found.value) == ("rho", pytest.approx(11.4))


def experiment_features() -> np.ndarray:
    """The linear benchmark's features: eight bits of the action, and whether state and action agree on being zero."""
    bits = np.array([[(a >> i) & 1 for i in range(8)] for a in range(100)])
    agree = np.array([[(s == 0) == (a == 0) for a in range(100)] for s in range(2)], dtype=int)
    return np.array([[*bits[a], agree[s, a], 1 - agree[s, a]] for s in range(2) for a in range(100)])


def largest_squared_moves(features: np.ndarray) -> tuple[int, int]:
    """The largest |x phi - y psi|^2 over targets x, y in [0, 1], and the largest |phi phi' - psi psi'|_F^2."""
    inner = features @ features.T
    norms = np.diag(inner)
    matrices = (norms[:, None] ** 2 + norms[None, :] ** 2 - 2 * inner**2).max()
    # A convex function of the targets: its maximum is at a corner.
    both = norms[:, None] + norms[None, :] - 2 * inner
    return int(max(both.max(), norms.max())), int(matrices)


# What replacing one trajectory moves, by enumeration. Records carry the state after the last step too, since three of
# the papers count transitions of all H steps.


def moves(tables, states=2, actions=2, horizon=2):
    """The largest L1 and squared L2 distance between encodings, given as lists of (table, cell, value)."""
    records = [
        (path, acts, rewards)
        for path in product(range(states), repeat=horizon + 1)
        for acts in product(range(actions), repeat=horizon)
        for rewards in product((0, 1), repeat=horizon)
    ]
    cells = {}
    rows = []
    for record in records:
        row = {}
        for table in tables:
            for cell, value in table(*record):
                index = cells.setdefault((table.__name__, cell), len(cells))
                row[index] = row.get(index, 0) + value
        rows.append(row)
    matrix = np.zeros((len(rows), len(cells)))
    for i, row in enumerate(rows):
        matrix[i, list(row)] = list(row.values())
    matrix = np.unique(matrix, axis=0)
    shifts = matrix[:, None, :] - matrix[None, :, :]
    return np.abs(shifts).sum(axis=2).max(), (shifts**2).sum(axis=2).max()


def visits(path, acts, rewards):
    return [((h, path[h], acts[h]), 1) for h in range(len(acts))]


def transitions(path, acts, rewards):
    return [((h, path[h], acts[h], path[h + 1]), 1) for h in range(len(acts))]


def signed_rewards(path, acts, rewards):
    return [((h, path[h], acts[h]), 2 * rewards[h] - 1) for h in range(len(acts))]


def inner_transitions(path, acts, rewards):
    return [((h, path[h], acts[h], path[h + 1]), 1) for h in range(len(acts) - 1)]


def rewards_by_step(path, acts, rewards):
    return [((h, path[h], acts[h]), rewards[h]) for h in range(len(acts))]


def squares_by_step(path, acts, rewards):
    return [((h, path[h], acts[h]), rewards[h] ** 2) for h in range(len(acts))]


def pooled_visits(path, acts, rewards):
    return [((path[h], acts[h]), 1) for h in range(len(acts))]


def pooled_inner_transitions(path, acts, rewards):
    return [((path[h], acts[h], path[h + 1]), 1) for h in range(len(acts) - 1)]


def pooled_transitions(path, acts, rewards):
    return [((path[h], acts[h], path[h + 1]), 1) for h in range(len(acts))]


def pooled_signed_rewards(path, acts, rewards):
    return [((path[h], acts[h]), 2 * rewards[h] - 1) for h in range(len(acts))]


def pooled_rewards(path, acts, rewards):
    return [((path[h], acts[h]), rewards[h]) for h in range(len(acts))]


def pooled_squares(path, acts, rewards):
    return [((path[h], acts[h], "squared"), rewards[h] ** 2) for h in range(len(acts))]


def own_moves(name, horizon=2, episodes=1, homogeneous=False, **target):
    """L1 and squared L2 of what a user moves, table by table; the last step's transitions belong to the others."""
    parts = published(name).parts(Setting(Shape(2, 2, horizon, homogeneous=homogeneous), episodes, **target))
    found = {}
    for part in parts:
        table = part.name.removesuffix(" of the last step")
        l1, squared = found.get(table, (0, 0))
        found[table] = (l1 + part.moves.l1, round(squared + part.moves.l2**2, 9))
    return list(found.values())


def test_per_step_tables_move_as_the_entries_say():
    assert moves([visits]) == moves([transitions]) == (4, 4)
    # A clipped reward in [-B, B] moves one cell by 2B or two cells by B: the same L1.
    assert moves([signed_rewards])[0] == 4
    assert [l1 for l1, _ in own_moves("published/heavy-tailed-central", epsilon=1.0)] == [4, 4, 4]
    assert own_moves("published/adversarial-bandit", epsilon=1.0)[:2] == [(4, 4), (4, 4)]
    assert moves([visits, transitions]) == (8, 8)
    assert np.sum(own_moves("published/offline-apvi", rho=1.0), axis=0).tolist() == [8, 8]
    separate = [visits, inner_transitions, rewards_by_step]
    assert moves(separate) == (10, 10)
    assert own_moves("published/ldp-obi-laplace", epsilon=1.0) == [(10, 10)]
    assert own_moves("published/ldp-obi-gaussian", epsilon=1.0, delta=0.1) == [(10, 10)]
    assert np.sum(own_moves("published/ldp-obi-bounded", epsilon=1.0, delta=0.1), axis=0).tolist() == [10, 10]
    assert moves([*separate, squares_by_step]) == (14, 14)
    assert own_moves("published/ldp-psrl", epsilon=1.0) == [(10, 10), (4, 4)]


def test_pooled_tables_move_as_the_entries_say():
    three = [pooled_visits, pooled_inner_transitions, pooled_rewards]
    assert moves(three) == (10, 18)
    assert own_moves("published/ldp-obi-laplace", homogeneous=True, epsilon=1.0) == [(10, 18)]
    assert own_moves("published/ldp-obi-gaussian", homogeneous=True, epsilon=1.0, delta=0.1) == [(10, 18)]
    bounded = own_moves("published/ldp-obi-bounded", homogeneous=True, epsilon=1.0, delta=0.1)
    assert np.sum(bounded, axis=0).tolist() == [10, 18]
    psrl = own_moves("published/ldp-psrl", homogeneous=True, epsilon=1.0)
    assert moves([*three, pooled_squares]) == tuple(np.sum(psrl, axis=0)) == (14, 26)
    # The last step's transitions fall into the cells of the others: 4 in squares for two cells, not 1 and 1.
    heavy = [moves([table]) for table in (pooled_visits, pooled_transitions, pooled_signed_rewards)]
    assert own_moves("published/heavy-tailed-central", homogeneous=True, epsilon=1.0) == heavy
    assert heavy == [(4, 8), (4, 8), (4, 16)]


def test_a_tree_shows_a_user_once_per_level():
    """A release after every user, the last one too: K = 2^m users make m + 1 levels."""
    for episodes, levels in ((1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (4095, 12), (4096, 13), (20_000, 15)):
        l1 = own_moves("published/heavy-tailed-central", horizon=1, episodes=episodes, epsilon=1.0)[0][0]
        nodes = sum(t - (t & -t) < 1 for t in range(1, episodes + 1))  # the first user is in the most nodes
        assert l1 == 2 * levels == 2 * nodes


@pytest.mark.parametrize("H", [1, 3, 20])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_closed_forms(H, epsilon):
    shape, K = Shape(5, 3, H), 1000
    ratio = 10 / math.log2(K)
    d = 15

    def truth(name, **more):
        return published(f"published/{name}").truth(shape, epsilon=epsilon, episodes=K, **more).epsilon

    assert truth("heavy-tailed-central") == pytest.approx(5 / 3 * ratio * epsilon)
    assert truth("heavy-tailed-local") == pytest.approx(5 / 3 * epsilon)
    assert truth("adversarial-full-information") == pytest.approx((4 / 3 + d / (3 * H)) * ratio * epsilon)
    assert truth("adversarial-bandit") == pytest.approx((4 / 3 * ratio + 2 / 3) * epsilon)
    assert truth("adversarial-bandit-local") == pytest.approx(2 * epsilon)
    assert truth("ldp-obi-laplace") == pytest.approx((1 - 1 / (3 * H)) * epsilon)
    assert truth("ldp-obi-randomised-response") == pytest.approx((1 - 1 / (3 * H)) * epsilon)
    assert truth("ldp-psrl") == pytest.approx((1 - 1 / (4 * H)) * epsilon)
    assert truth("ldp-shuffle-appendix") == pytest.approx((6 - 2 / H) * epsilon)
    assert truth("sdp-pe-split") == pytest.approx(2 * epsilon)


def test_formula_113_holds_at_a_short_horizon():
    """By hand: to first order a batch loses what Gaussian noise loses whose deviation is that of a decoded count."""
    H, K = 6, 20_000
    log, bits = math.log(4 / 1e-5), K * H
    grid = np.linspace(14 * log / bits, 1, 200_001)
    surely = grid - np.sqrt(2 * grid * math.log(2 / 1e-5) / bits)
    p = grid[np.argmax(32 * log / np.sqrt(bits * surely) * (1 - surely) <= 1.0)]
    variance = K * p / 2 * (1 - p / 2) / (1 - p) ** 2
    gaussian = GaussianProfile(math.sqrt((6 * H - 2) / variance)).epsilon(1e-5)
    truth = published("published/ldp-shuffle-appendix-batch").truth(Shape(4, 2, H), epsilon=1.0, delta=1e-5, episodes=K)
    # An upper bound over all crowds: a tenth above the first order at most.
    assert gaussian < truth.epsilon < 1.15 * gaussian < 1.0


def test_the_raw_count_loss_is_that_of_two_runs_of_the_paper():
    """Run truncation and the tree twice, with and without the first visit, and add up what each node moves."""
    users, exponent = 64, 0.5

    def leaves(first_visits: bool) -> list[float]:
        visited, kept = 0, []
        for user in range(1, users + 1):
            here = user > 1 or first_visits
            reward = 0.0 if user == 1 else (user - 1) ** exponent
            kept.append(reward if here and reward <= visited**exponent else 0.0)
            visited += here
        return kept

    one, other = leaves(True), leaves(False)
    total = 0.0
    for t in range(1, users + 1):
        node = slice(t - (t & -t), t)
        total += abs(sum(one[node]) - sum(other[node])) / (6 * t**exponent * users.bit_length())
    assert raw_count_loss(users, exponent) == pytest.approx(total, rel=1e-12)
    assert raw_count_loss(4 * users) > 3.5 * raw_count_loss(users)


def test_a_truth_carries_the_claim_and_its_reasons():
    truth = published("published/heavy-tailed-central").truth(Shape(6, 2, 20), epsilon=1.0, episodes=20_000)
    assert (truth.model, truth.claimed.epsilon, truth.delta) == ("joint", 1.0, 0.0)
    text = truth.explain()
    assert "NOT TRUE" in text
    assert "clipped rewards" in text
    assert "Lemma 1, proof in appendix C.2" in text
    assert "its condition: any epsilon > 0" in text
    assert "(true)" in published("published/ldp-psrl").truth(Shape(2, 2, 2), epsilon=1.0).explain()
    models = {entry.model for entry in PUBLISHED.values()}
    assert models == {"central", "local", "offline", "shuffle"}


def test_targets_of_the_wrong_kind_are_refused():
    shape = Shape(2, 2, 2)
    with pytest.raises(InvalidInput, match="give rho, not epsilon"):
        published("published/offline-apvi").truth(shape, epsilon=1.0)
    with pytest.raises(InvalidInput, match="give epsilon, not rho"):
        published("published/ldp-psrl").truth(shape, rho=1.0)
    with pytest.raises(InvalidInput, match="delta above 0"):
        published("published/ldp-obi-gaussian").truth(shape, epsilon=1.0)
    with pytest.raises(InvalidInput, match="did you mean published/ldp-psrl"):
        published("published/ldp-prsl")
