"""The published bandits that discreet is compared with: their promises as computed, and that each does what it says."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.bandits import central, claims, comparators, page
from experiments.bandits.claims import ONE_REWARD
from experiments.bandits.measure import MARKS, Cell, fingerprint, kept_cell, play, simulate
from experiments.bandits.settings import BANDITS, EPSILONS, TUNING, uniform_regret

from discreet.noise import Laplace
from discreet.privacy.guarantee import from_mechanism

EASY = np.array([0.9, 0.2, 0.1])


def test_the_promises_are_what_the_library_computes():
    for epsilon in (0.1, 1.0, 4.0):
        assert claims.epochs(epsilon).epsilon == pytest.approx(epsilon)
        assert claims.noisy_rewards(epsilon).epsilon == pytest.approx(epsilon)
        assert claims.answered(epsilon).epsilon == pytest.approx(epsilon, rel=1e-6)
    half = from_mechanism(Laplace(0.5), ONE_REWARD, delta=0.0, name="half of the noise")
    assert half.epsilon == pytest.approx(2.0)


def test_a_tree_for_each_arm_promises_more_than_it_says():
    """A user is in one arm's tree only, so epsilon / K for each of them is epsilon / K for everybody."""
    assert claims.trees(1.0, arms=5).epsilon == pytest.approx(0.2)


def test_the_binary_sum_keeps_its_promise_with_room_to_spare():
    guarantee = claims.binary_sum(1.0, users=2_000)
    assert guarantee.delta == 1e-5
    assert guarantee.epsilon <= 1.0
    assert comparators.least_deviations(1.0)[11] < 0.5 * comparators.printed_deviations(1.0)[11]


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])
def test_the_private_divergence_is_the_least_over_all_detours(epsilon):
    for x, y in ((0.2, 0.5), (0.0, 0.9), (0.7, 0.75)):
        detours = [epsilon * (z - x) + central.kl(z, y) for z in np.linspace(x, y, 4001)]
        assert central.private_divergence(x, y, epsilon) == pytest.approx(min(detours), rel=1e-4)
    assert central.private_divergence(0.5, 0.2, epsilon) == 0.0


@pytest.mark.long
@pytest.mark.parametrize("one", comparators.ALL, ids=lambda one: one.name)
def test_every_comparator_serves_everybody_and_learns_where_it_is_easy(one):
    loose = play(one, "tuned", EASY, epsilon=20.0, runs=3, users=4_000)
    assert len(loose.regret) == 3
    # DP-UCB hides each arm with a fifth of epsilon, and its tree is deep: it learns hardly anything at this size.
    assert loose.mean < (0.9 if one.name.startswith("DP-UCB") else 0.25) * uniform_regret(EASY)
    private = play(one, "tuned", EASY, epsilon=0.01, runs=3, users=4_000)
    assert private.mean > 2 * loose.mean or one.name.startswith("DP-UCB")


def test_constants_were_tuned_on_other_bandits_than_are_reported():
    for means in BANDITS.values():
        assert not any(
            len(means) == len(other) and np.allclose(np.sort(means), np.sort(other)) for other in TUNING.values()
        )


@pytest.mark.parametrize("trust", EPSILONS)
def test_discreet_plays_the_recipes_for_bandits(trust):
    found = simulate(trust, "easy", EASY, epsilon=2.0, runs=2, users=500)
    assert found.note == f"{trust}/{'sampled-step' if trust == 'local' else 'arm-rewards'}"
    assert found.mean < uniform_regret(EASY)


def test_cells_are_kept_and_measured_again_only_when_code_changes(tmp_path):
    calls = []

    def measure() -> Cell:
        calls.append(1)
        return Cell(np.array([0.1, 0.2]), np.arange(3.0), "noted")

    first, again = (kept_cell(tmp_path, "a", "code", measure) for _ in range(2))
    assert len(calls) == 1
    assert first.mean == again.mean == pytest.approx(0.15)
    kept_cell(tmp_path, "a", "other code", measure)
    assert len(calls) == 2
    one, two, three = tmp_path / "one.py", tmp_path / "two.py", tmp_path / "three.py"
    one.write_text('"""Said."""\nx = 1\n')
    two.write_text('"""Said otherwise."""\nx = 1  # why\n')
    three.write_text('"""Said."""\nx = 2\n')
    assert fingerprint(one) == fingerprint(two) != fingerprint(three)


@pytest.mark.long
def test_the_page_holds_every_line_between_its_marks(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "bandits.md").write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    cell = Cell(np.array([0.01, 0.02]), MARKS * 0.01, "")
    names = {
        trust: [(one.name, version) for one in comparators.of(trust) for version in ("printed", "tuned")]
        + [("discreet", trust)]
        for trust in EPSILONS
    }
    found = {
        (trust, bandit, epsilon): dict.fromkeys(names[trust], cell)
        for trust in EPSILONS
        for bandit in BANDITS
        for epsilon in EPSILONS[trust]
    }
    page.write_page(found, tmp_path)
    text = (tmp_path / "bandits.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert all(f"| {one.name}, tuned |" in text for one in comparators.ALL)
    assert all((tmp_path / "pictures" / f"bandits-{trust}.png").stat().st_size > 10_000 for trust in EPSILONS)
