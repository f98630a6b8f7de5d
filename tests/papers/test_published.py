"""What the papers' noise really gives: formulas, enumeration of what a user moves, and every number in the errata."""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.noise import BinomialNoise
from discreet.papers import PUBLISHED, integer_message_delta, published, raw_count_loss, shuffle_noise_bits
from discreet.papers.mechanism import Setting
from discreet.privacy.profiles import GaussianProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.shape import Shape

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


CLAIMS = rows_below("| recipe | at |")


def test_every_published_recipe_is_in_the_errata():
    assert {row[0].strip("`") for row in CLAIMS} == set(PUBLISHED)


def test_the_errata_name_tests_that_exist():
    assert {row[5].strip("`") for row in CLAIMS} <= set(globals())


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: f"{row[0].strip('`')} {row[1]}")
def test_a_row_of_the_errata_is_what_the_code_computes(row):
    words = row[1].split()
    sizes = dict(word.split("=") for word in words if word != "pooled")
    rho, epsilon = (float(sizes[name]) if name in sizes else None for name in ("rho", "eps"))
    shape = Shape(int(sizes["S"]), int(sizes["A"]), int(sizes["H"]), homogeneous="pooled" in words)
    truth = published(row[0].strip("`")).truth(
        shape, epsilon=epsilon, delta=float(sizes.get("delta", 0)), rho=rho, episodes=int(sizes["K"])
    )
    asked = {"epsilon": epsilon, "delta": truth.delta, "rho": rho}
    kind, value = row[2].split()
    assert float(value) == asked[kind]
    kind, value = row[3].split()
    if value == "unbounded":
        assert math.isinf(truth.epsilon)
        return
    computed = {"epsilon": truth.epsilon, "delta": truth.delta_at(epsilon or 0.0), "rho": truth.rho}[kind]
    expected, half_a_digit = printed(value)
    assert abs(computed - expected) <= half_a_digit


@pytest.mark.parametrize("row", rows_below("| users | loss |"), ids=lambda row: row[0])
def test_a_row_of_raw_count_losses(row):
    expected, half_a_digit = printed(row[1])
    assert abs(raw_count_loss(int(row[0])) - expected) <= half_a_digit


@pytest.mark.parametrize("row", rows_below("| noise bits tau |"), ids=lambda row: " ".join(row[:3]))
def test_a_row_of_proofs_by_integer_messages(row):
    expected, half_a_digit = printed(row[3])
    assert abs(integer_message_delta(float(row[0]), int(row[1]), int(row[2])) - expected) <= half_a_digit


def test_the_numbers_in_the_prose_of_the_errata():
    bits = shuffle_noise_bits(6, 4, 2, 1.0, 1e-5)
    assert "tau = 500068 at eps=1" in ERRATA
    assert math.ceil(bits) == 500068
    moves = Sensitivity.unit_shifts(18, 18)
    assert "2008 noise bits keep" in ERRATA
    assert BinomialNoise(2008, 0.5).profile(moves).delta(1.0) <= 1e-5
    assert BinomialNoise(1990, 0.5).profile(moves).delta(1.0) > 1e-5
    assert "20 times more\nprivate" in ERRATA
    truth = published("published/sdp-pe").truth(Shape(4, 2, 6), epsilon=1.0, delta=1e-5)
    assert 1 / truth.epsilon == pytest.approx(20, rel=0.03)
    features = experiment_features()
    assert "squared norm up to 7" in ERRATA
    assert (features**2).sum(axis=1).max() == 7
    vectors, matrices = largest_squared_moves(features)
    assert "9 in the vectors (assumed: 4) and 57 in the matrices (assumed: 1)" in ERRATA
    assert (vectors, matrices) == (9, 57)


def test_orthogonal_features_move_a_matrix_by_two():
    assert largest_squared_moves(np.eye(4, dtype=int)) == (2, 2)
    rng = np.random.default_rng(0)
    unit = rng.normal(size=(400, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    inner = unit @ unit.T
    moves_of_matrices = 2 - 2 * inner**2
    assert 1.99 < moves_of_matrices.max() <= 2
    # Opposite features with opposite targets: a vector moves by 2 targets' ranges, a matrix not at all.
    _, (_, matrices) = own_moves("published/offline-vapvi", horizon=1, rho=1.0)
    assert matrices == 2 * 2  # two matrices


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


def test_a_formula_that_takes_bits_for_users():
    """By hand: to first order a batch loses what Gaussian noise loses whose deviation is that of a decoded count."""
    for root, H, K in ((False, 6, 20_000), (True, 6, 20_000), (False, 20, 20_000), (False, 35, 20_000)):
        name = "published/ldp-shuffle-appendix-batch" + ("-root" if root else "")
        log, bits = math.log(4 / 1e-5), K * H
        factor = math.sqrt(32 * log) if root else 32 * log
        grid = np.linspace(14 * log / bits, 1, 200_001)
        surely = grid - np.sqrt(2 * grid * math.log(2 / 1e-5) / bits)
        p = grid[np.argmax(factor / np.sqrt(bits * surely) * (1 - surely) <= 1.0)]
        variance = K * p / 2 * (1 - p / 2) / (1 - p) ** 2
        gaussian = GaussianProfile(math.sqrt((6 * H - 2) / variance)).epsilon(1e-5)
        truth = published(name).truth(Shape(4, 2, H), epsilon=1.0, delta=1e-5, episodes=K)
        # Thirty answers that are off are no Gaussian: the skew of a small p costs a tenth of epsilon more.
        assert gaussian < truth.epsilon < 1.15 * gaussian
        assert (truth.epsilon > 1.0) == (root or H > 30)
    assert "epsilon 4.081 instead of 1" in ERRATA


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


@pytest.mark.parametrize(("tau", "users"), [(6, 2), (4, 4), (2, 4)])
def test_integer_messages_give_away_what_enumeration_says(tau, users):
    m = max(1, math.ceil(tau / users))
    p = 0.5 if users <= tau else tau / (2 * users)
    proof = 0.0
    for coins in product((0, 1), repeat=m * users):
        probability = math.prod(p if coin else 1 - p for coin in coins)
        sums = [sum(coins[i * m : (i + 1) * m]) for i in range(users)]
        proof += probability * (sums[0] + 1 > m)  # nobody without the bit can send m + 1
    assert integer_message_delta(tau, users) == pytest.approx(proof)


def test_a_truth_carries_the_claim_and_its_reasons():
    truth = published("published/heavy-tailed-central").truth(Shape(6, 2, 20), epsilon=1.0, episodes=20_000)
    assert (truth.model, truth.claimed.epsilon, truth.delta) == ("joint", 1.0, 0.0)
    text = truth.explain()
    assert "NOT TRUE" in text
    assert "clipped rewards" in text
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
