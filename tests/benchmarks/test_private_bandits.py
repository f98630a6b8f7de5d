"""The published bandits that discreet is compared with: their promises as computed, and that each does what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.bandits import central, claims, comparators, page
from benchmarks.bandits.arm_sums import ONE_REWARD, ArmPrivatizer, ArmSums, InArmBlocks, batch_noise
from benchmarks.bandits.measure import MARKS, OURS, Cell, Kept, fingerprint, play
from benchmarks.bandits.settings import BANDITS, EPSILONS, TUNING, uniform_regret, world_of

import discreet
from discreet.accumulators.base import SimulatedNoise
from discreet.encoders.base import Context
from discreet.encoders.joint import JointHistogram
from discreet.errors import Unsupported
from discreet.noise import DiscreteLaplace, Laplace
from discreet.policies import Policy, uniform_policy
from discreet.privacy.guarantee import from_mechanism

EASY = np.array([0.9, 0.2, 0.1])
TRUSTS = ("central", "shuffle", "local")


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


@pytest.mark.slow
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


def noisy_sums(privacy, users: int, times: int) -> tuple[np.ndarray, float]:
    """What a channel says about blocks of which 30% have a reward, and the variance that it states."""
    shape = world_of("two", np.array([0.3, 0.3])).shape
    channel = ArmSums(JointHistogram(shape), privacy, ArmPrivatizer(privacy)(shape, 1_000).channels[0].law)
    source = SimulatedNoise(np.random.default_rng(3))
    found = [channel.noisy(round(0.3 * users), users, source) for _ in range(times)]
    return np.array([value for value, _ in found]), found[0][1]


@pytest.mark.parametrize("trust", TRUSTS)
def test_sums_of_arms_are_unbiased_and_as_noisy_as_stated(trust):
    """False alarms: 6e-7 for the mean; a twin whose noise is centred twice is off by hundreds of deviations."""
    values, variance = noisy_sums(OURS[trust](1.0), users=60, times=4_000)
    error = math.sqrt(variance / len(values))
    assert abs(values.mean() - 18) < 5 * error
    assert values.var() == pytest.approx(variance, rel=0.25)
    twice = values - batch_noise(OURS["shuffle"](1.0), 60).mean
    assert abs(twice.mean() - 18) > 5 * error


@pytest.mark.parametrize("trust", TRUSTS)
def test_sums_of_arms_keep_the_promise_that_was_asked_for(trust):
    shape = world_of("five", BANDITS["5 arms"]).shape
    for epsilon in (0.5, 2.0):
        guarantee = ArmPrivatizer(OURS[trust](epsilon))(shape, 5_000).guarantee
        assert 0.98 * epsilon < guarantee.epsilon <= epsilon * (1 + 1e-9)
        assert guarantee.delta == (1e-5 if trust == "shuffle" else 0.0)
    assert from_mechanism(DiscreteLaplace(0.5), ONE_REWARD, delta=0.0, name="too little").epsilon > 1.9


def test_visits_of_an_arm_are_public_and_carry_no_noise():
    world, target = world_of("five", BANDITS["5 arms"]), ArmPrivatizer(OURS["central"](1.0))
    run = target(world.shape, 1_000).channels[0].start(world.shape, SimulatedNoise(np.random.default_rng(0)), True)
    tally = np.zeros(JointHistogram(world.shape).size)
    second = Context(Policy(np.array([[1]])))
    run.add(tally, 40, second)
    run.add(tally, 20, second)
    estimates = run.estimates()
    assert estimates["visits"].values.reshape(-1).tolist() == [0, 60, 0, 0, 0]
    assert not estimates["visits"].variance.any()
    one = DiscreteLaplace(1.0).variance
    assert estimates["rewards"].variance.reshape(-1) == pytest.approx([0, 2 * one, 0, 0, 0])
    with pytest.raises(Unsupported, match="one arm"):
        run.add(tally, 20, Context(uniform_policy(world.shape)))


def test_sums_of_arms_refuse_worlds_that_are_no_bandits():
    river = discreet.worlds.river_swim(states=3, horizon=4)
    with pytest.raises(Unsupported, match="one state, one step"):
        ArmPrivatizer(OURS["central"](1.0))(river.shape, 100)


def test_blocks_follow_the_arm():
    learner, world = InArmBlocks(discreet.learners.UCBVI(), first=50, growth=0.5), world_of("easy", EASY)
    found = discreet.simulate(world, learner, ArmPrivatizer(OURS["central"](1.0)), episodes=4_000, runs=4, seed=1)
    assert found.total_regret.max() / 4_000 < 0.1 * uniform_regret(EASY)
    assert found.switches.max() < 40


def test_cells_are_kept_and_measured_again_only_when_code_changes(tmp_path):
    calls = []

    def measure() -> Cell:
        calls.append(1)
        return Cell(np.array([0.1, 0.2]), np.arange(3.0), "noted")

    kept = Kept(tmp_path)
    first, again = kept.get("a", "code", measure), kept.get("a", "code", measure)
    assert len(calls) == 1
    assert first.mean == again.mean == pytest.approx(0.15)
    kept.get("a", "other code", measure)
    assert len(calls) == 2
    one, two, three = tmp_path / "one.py", tmp_path / "two.py", tmp_path / "three.py"
    one.write_text('"""Said."""\nx = 1\n')
    two.write_text('"""Said otherwise."""\nx = 1  # why\n')
    three.write_text('"""Said."""\nx = 2\n')
    assert fingerprint(one) == fingerprint(two) != fingerprint(three)


@pytest.mark.slow
def test_the_page_holds_every_line_between_its_marks(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "bandits.md").write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    cell = Cell(np.array([0.01, 0.02]), MARKS * 0.01, "")
    names = {
        trust: [(one.name, version) for one in comparators.of(trust) for version in ("printed", "tuned")]
        + [("discreet", trust), ("discreet, arm sums", trust)]
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
