"""Training on a table: the policy is right, the receipt can be checked by an outsider, nothing raw gets out."""

from __future__ import annotations

import json
import logging
import sys
import warnings

import duckdb
import numpy as np
import pytest

import discreet
import discreet.data
import discreet.offline
from discreet.base.errors import DiscreetError, InvalidInput
from discreet.noise import DiscreteGaussian
from discreet.privacy.profiles import ZeroConcentratedProfile

USERS, S, A, H = 3000, 3, 2, 3
NAMES = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}
DOMAIN = {"states": S, "actions": A, "horizon": H}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Action 1 is rewarded in state 0 and action 0 elsewhere; states are drawn uniformly."""
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, S, (USERS, H)), rng.integers(0, A, (USERS, H))
    r = np.where((s == 0) == (a == 1), 0.9, 0.1)
    file = tmp_path_factory.mktemp("data") / "visits.parquet"
    table = {
        "u": np.repeat(np.arange(USERS), H), "t": np.tile(np.arange(H), USERS),
        "s": s.reshape(-1), "a": a.reshape(-1), "r": r.reshape(-1),
    }  # fmt: skip
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows (u BIGINT, t BIGINT, s BIGINT, a BIGINT, r DOUBLE)")
    connection.execute(
        "INSERT INTO rows SELECT unnest($u::BIGINT[]), unnest($t::BIGINT[]), unnest($s::BIGINT[]), "
        "unnest($a::BIGINT[]), unnest($r::DOUBLE[])",
        {name: column.tolist() for name, column in table.items()},
    )
    connection.execute(f"COPY rows TO '{file}' (FORMAT parquet)")
    return file


@pytest.fixture(scope="module")
def table(path):
    return discreet.data.read(path, **NAMES, **DOMAIN, early_end=False)


@pytest.fixture(scope="module")
def fit(table):
    return discreet.offline.train(table, "apvi", epsilon=2.0, delta=1e-6, recipe="offline/gaussian")


BEST = np.tile([1, 0, 0], (H, 1))


def test_the_policy_is_found(fit):
    np.testing.assert_array_equal(fit.policy.actions, BEST)


def test_the_guarantee_is_real_and_central(fit):
    assert fit.guarantee.model == "central"
    assert not fit.guarantee.simulated
    assert 1.9 < fit.guarantee.epsilon <= 2.0
    assert "operating system" in fit.guarantee.explain()


def test_known_rewards_are_declared_public(table):
    known = np.where((np.arange(S)[:, None] == 0) == (np.arange(A) == 1), 0.9, 0.1)
    fit = discreet.offline.train(table, "apvi", rho=0.5, known_rewards=known)
    np.testing.assert_array_equal(fit.policy.actions, BEST)
    assert fit.facts["declared"]["public"] == ["mean rewards"]
    with pytest.raises(InvalidInput, match="declared range"):
        discreet.offline.train(table, rho=0.5, known_rewards=2 * known)
    with pytest.raises(InvalidInput, match="must have shape"):
        discreet.offline.train(table, rho=0.5, known_rewards=known[:2])


def test_a_seed_is_refused_before_anything_is_read(table):
    with pytest.raises(InvalidInput, match="takes no seed"):
        discreet.offline.train(table, epsilon=1.0, seed=0)


def test_two_releases_differ(table):
    first, second = (discreet.offline.train(table, epsilon=0.5).values for _ in range(2))
    assert (first != second).any()


@pytest.mark.parametrize("learner", ["ucbvi", "apvy", discreet.learners.UCBVI()])
def test_learners_that_learn_online_are_refused(table, learner):
    with pytest.raises(InvalidInput, match="apvi"):
        discreet.offline.train(table, learner, epsilon=1.0)


class TestReceipt:
    def test_an_outsider_recomputes_epsilon(self, fit, tmp_path):
        """From the receipt alone: noise and worst shift, through Google's accounting library."""
        accountant = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

        fit.receipt(tmp_path / "receipt.json")
        receipt = json.loads((tmp_path / "receipt.json").read_text())
        (part,) = receipt["mechanisms"]
        assert part["law"]["name"] == "DiscreteGaussian"
        one = accountant.from_discrete_gaussian_mechanism(part["law"]["sigma"], value_discretization_interval=1e-4)
        shifted = sum(shift["cells_up"] + shift["cells_down"] for shift in part["sensitivity"]["worst_shift"])
        assert {shift["by"] for shift in part["sensitivity"]["worst_shift"]} == {1}
        epsilon = one.self_compose(shifted).get_epsilon_for_delta(receipt["guarantee"]["delta"])
        assert receipt["guarantee"]["epsilon"] == pytest.approx(epsilon, rel=2e-3)

    def test_it_names_the_samplers(self, table, fit):
        assert fit.facts["noise"] == "operating system entropy, exact samplers of OpenDP"
        other = discreet.offline.train(table, epsilon=1.0, delta=1e-6, sampler="discreet")
        assert other.facts["noise"] == "operating system entropy, exact samplers of discreet"
        with pytest.raises(InvalidInput, match="sampler must be 'discreet' or 'opendp'"):
            discreet.offline.train(table, epsilon=1.0, sampler="numpy")

    def test_an_outsider_recomputes_a_pure_epsilon(self, table):
        accountant = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

        facts = discreet.offline.train(table, epsilon=1.0).facts
        (part,) = facts["mechanisms"]
        one = accountant.from_discrete_laplace_mechanism(1 / part["law"]["scale"], value_discretization_interval=1e-4)
        shifted = sum(shift["cells_up"] + shift["cells_down"] for shift in part["sensitivity"]["worst_shift"])
        whole = one.self_compose(shifted)
        for entry in facts["guarantee"]["epsilon_at"][:3]:
            assert entry["epsilon"] == pytest.approx(whole.get_epsilon_for_delta(entry["delta"]), abs=2e-3)
        assert part["sensitivity"]["l1"] / part["law"]["scale"] == pytest.approx(facts["guarantee"]["epsilon"])

    def test_the_parts_of_the_budget_add_up(self, table):
        fit = discreet.offline.train(table, rho=0.4, recipe_options={"release": "both"})
        parts = fit.facts["budget"]["parts"]
        assert len(parts) == 1  # one release of both tables
        assert sum(parts) == pytest.approx(fit.facts["budget"]["rho"]) == pytest.approx(0.4)
        by_hand = ZeroConcentratedProfile(sum(parts)).epsilon(1e-5)
        stated = {entry["delta"]: entry["epsilon"] for entry in fit.facts["guarantee"]["epsilon_at"]}
        assert stated[1e-5] <= by_hand

    def test_it_names_the_policy_and_the_bounds(self, fit, tmp_path):
        fit.policy.save(tmp_path / "policy.npz")
        assert fit.facts["policy"]["sha256"] == discreet.offline.policy_hash(
            discreet.load_policy(tmp_path / "policy.npz")
        )
        other = discreet.Policy(1 - fit.policy.actions)
        assert discreet.offline.policy_hash(other) != fit.facts["policy"]["sha256"]
        declared = fit.facts["declared"]
        assert (declared["users"], declared["states"], declared["trajectories_per_user"]) == (USERS, S, 1)
        assert fit.facts["versions"]["discreet"] == discreet.__version__

    def test_the_page_has_everything_and_escapes_it(self, fit, tmp_path):
        fit.receipt(tmp_path / "receipt.html")
        text = (tmp_path / "receipt.html").read_text()
        for phrase in (fit.guarantee.statement(), "DiscreteGaussian", fit.facts["policy"]["sha256"], "are dropped"):
            assert phrase in text
        with pytest.raises(InvalidInput, match=r"\.json or \.html"):
            fit.receipt(tmp_path / "receipt.pdf")

    def test_it_counts_no_repaired_rows(self, tmp_path, table, fit):
        """The same facts, whatever had to be repaired: everything in a receipt is public or a hash of the policy."""
        broken = tmp_path / "broken.parquet"
        duckdb.sql(
            f"COPY (SELECT u, t + 100 * (u % 7 = 0)::INT AS t, s, a, r * 50 AS r FROM '{table.source.name[1:-1]}') "
            f"TO '{broken}' (FORMAT parquet)"
        )
        read = discreet.data.read(broken, **NAMES, **DOMAIN, early_end=False)
        other = discreet.offline.train(read, "apvi", epsilon=2.0, delta=1e-6, recipe="offline/gaussian")
        for name in fit.facts:
            if name not in ("policy", "date", "values"):  # hashes and numbers of the policy, which noise has moved
                assert other.facts[name] == fit.facts[name]


class TestRepairs:
    """The receipt lists what was done to rows, and nothing that was not."""

    ROWS = (
        "(VALUES (1, 0, 0, 0, 0, 0.5, 1), (1, 0, 1, 1, 1, 0.5, NULL), (2, 1, 0, 2, 0, 0.5, 2)) v(u, e, t, s, a, r, n)"
    )

    def rules(self, tmp_path, learner="apvi", domain=DOMAIN, how=(), **declared):
        file = tmp_path / "rows.parquet"
        duckdb.sql(f"COPY (FROM {self.ROWS}) TO '{file}' (FORMAT parquet)")
        read = discreet.data.read(file, **{**NAMES, **domain, **declared})
        # So little noise that two users are never taken for none.
        return "; ".join(discreet.offline.train(read, learner, rho=1e6, **dict(how)).facts["repairs"])

    @pytest.mark.slow
    def test_next_states_have_rules_of_their_own_and_gaps_theirs(self, tmp_path):
        plain, told = (self.rules(tmp_path, next_state=column, missing="row") for column in (None, "n"))
        assert "a record ends before the first step without a valid row" in self.rules(tmp_path)
        assert "a row counts with the state of the next step; it is dropped if that is missing" in plain
        assert "next state" not in plain
        for rule in (
            "rows with a next state outside the declared domain are dropped",
            "the smallest state, action, reward and next state is kept",
            "a row counts with the next state that it gives, even if the next row says otherwise",
            "a row that gives no next state counts with the state of the next step",
            "a row at the last step of the horizon is an end",
        ):
            assert rule in told
        assert "; a row counts with the state of the next step" not in told

    @pytest.mark.slow
    def test_episodes_and_first_visits(self, tmp_path):
        plain = self.rules(tmp_path)
        assert "episode" not in plain
        assert "for one user and step" in plain
        assert "is counted" not in plain
        pooled = self.rules(tmp_path, episode="e", per_user=2, homogeneous=True)
        assert "the 2 episodes with the smallest identifiers are kept" in pooled
        assert "one state and action the first is counted" in pooled
        every = {"recipe_options": {"pooling": "every-visit"}}
        assert "the first is counted" not in self.rules(tmp_path, homogeneous=True, how=every)

    @pytest.mark.slow
    def test_rewards(self, tmp_path):
        assert "to 2 levels" in self.rules(tmp_path)
        linear = {"features": np.eye(S * A).reshape(S, A, S * A)}
        assert "to 17 levels" in self.rules(tmp_path, "pevi", how=linear)
        known = {"known_rewards": np.zeros((S, A))}
        assert "rewards are" not in self.rules(tmp_path, how=known)
        assert "with the same state and action are one; none that differ is valid" in self.rules(
            tmp_path, reward=None, how=known
        )


SECRET = "4815162342"


@pytest.mark.slow
@pytest.mark.parametrize("column", ["u", "t", "s", "a", "r"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_planted_secret_never_gets_out(tmp_path, monkeypatch, capfd, caplog, column, kind):
    """Neither in output, logs, results and errors, nor in temporary files that stay behind."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    caplog.set_level(logging.DEBUG)
    text = {name: f"'{SECRET}'" if name == column else "'0'" for name in "utsar"}
    spec = ", ".join(f"{value} AS {name}" for name, value in text.items())
    file = tmp_path / f"rows.{kind}"
    duckdb.sql(f"COPY (SELECT {spec} UNION ALL SELECT '1', '0', '1', '1', '1') TO '{file}' (FORMAT {kind})")
    said = ""
    try:
        fit = discreet.offline.train(discreet.data.read(file, **NAMES, **DOMAIN), epsilon=1.0)
        fit.receipt(tmp_path / "receipt.json")
        said = repr(fit) + (tmp_path / "receipt.json").read_text() + fit.summary()
    except DiscreetError:
        import traceback

        error = sys.exc_info()[1]
        said = "".join(traceback.format_exception(error)) + repr(error.__context__)
    out, err = capfd.readouterr()
    assert SECRET not in said + out + err + caplog.text
    left = [path for path in temporary.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in left)
    assert not list(temporary.iterdir())


def test_errors_of_the_engine_are_not_even_context(caplog, recwarn):
    """A query that fails on a cell would quote it."""
    from discreet.tables.read.engines import quietly

    def fails():
        logging.getLogger("engine").error("row %s", SECRET)
        warnings.warn(f"row {SECRET}", stacklevel=1)
        duckdb.sql(f"SELECT CAST('{SECRET}x' AS INTEGER)").fetchall()

    with pytest.raises(InvalidInput) as caught:
        quietly("'rows'", fails)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert not recwarn.list
    assert not caplog.records
    logging.getLogger("ours").error("logs work again")
    assert caplog.records


def test_secure_noise_has_the_law_that_it_says():
    """Sums of squares over sigma^2 are nearly chi-squared: six deviations either side, a false alarm in 5e8."""
    from discreet.mechanisms.sums.accumulator import SecureNoise

    ticks = []
    drawn = SecureNoise(tick=ticks.append).draw(DiscreteGaussian(3.0), 1, 10_000)
    assert sum(ticks) == 10_000
    for scale, fits in ((3.0, True), (2.0, False), (4.5, False)):
        assert (abs((drawn**2).sum() / scale**2 - 10_000) < 6 * np.sqrt(20_000)) == fits


def test_the_target_travels_with_its_declarations(table):
    """per_user is the table's, so a table of several trajectories is never released with noise for one."""
    twice = discreet.data.read(
        table.source.name[1:-1], **{**NAMES, "reward": None}, **DOMAIN, episode="t", per_user=2, early_end=False
    )
    with pytest.raises(InvalidInput, match="no reward column"):
        discreet.offline.train(twice, epsilon=1.0)
    fit = discreet.offline.train(twice, rho=1.0, known_rewards=np.zeros((S, A)))
    assert fit.facts["mechanisms"][0]["sensitivity"]["linf"] == 2
    sneaky = {"per_user": 1, "rewards": "private"}
    fit = discreet.offline.train(twice, rho=1.0, known_rewards=np.zeros((S, A)), recipe_options=sneaky)
    assert fit.facts["mechanisms"][0]["sensitivity"]["linf"] == 2
    assert fit.facts["declared"]["public"] == ["mean rewards"]


class TestLinear:
    """Learners that ask linear questions of a real table."""

    FEATURES = np.eye(S * A).reshape(S, A, S * A)

    def test_the_policy_is_found_and_the_receipt_adds_up(self, table):
        fit = discreet.offline.train(table, "vapvi", rho=2.0, features=self.FEATURES, options={"ridge": 0.1})
        np.testing.assert_array_equal(fit.policy.actions, BEST)
        parts = fit.facts["budget"]["parts"]
        assert len(parts) == 2
        assert sum(parts) == pytest.approx(fit.facts["budget"]["rho"]) == pytest.approx(2.0)
        matrix, vector = fit.facts["mechanisms"]
        assert matrix["sensitivity"]["l2"] ** 2 / (4 * matrix["law"]["off_diagonal"]) == pytest.approx(parts[0])
        assert vector["sensitivity"]["l2"] ** 2 / (2 * vector["law"]["sigma"] ** 2) == pytest.approx(parts[1])
        assert not fit.guarantee.simulated

    @pytest.mark.slow
    def test_what_is_missing_is_named(self, table):
        with pytest.raises(InvalidInput, match="needs features="):
            discreet.offline.train(table, "pevi", rho=1.0)
        with pytest.raises(InvalidInput, match="known_rewards"):
            discreet.offline.train(table, "pevi", rho=1.0, features=self.FEATURES, known_rewards=np.zeros((S, A)))
        options = {"variance": True, "split": True}
        with pytest.raises(discreet.Unsupported, match="split=True is for simulation"):
            discreet.offline.train(table, "vapvi", rho=1.0, features=self.FEATURES, options=options)


def test_a_sparse_release_says_so_in_its_receipt(table):
    fit = discreet.offline.train(table, epsilon=4.0, delta=1e-5, recipe="offline/sparse-laplace")
    np.testing.assert_array_equal(fit.policy.actions, BEST)
    (part,) = fit.facts["mechanisms"]
    assert fit.facts["recipe"] == "offline/sparse-laplace"
    assert part["law"]["name"] == "ThresholdedLaplace"
    m, scale, threshold = part["sensitivity"]["l1"] / 2, part["law"]["scale"], part["law"]["threshold"]
    t = np.exp(-1 / scale)
    appears = t ** (threshold - 1) / (1 + t)
    assert 1 - (1 - appears) ** m <= 1e-5
    assert fit.guarantee.epsilon <= 2 * m / scale - m * np.log1p(-appears) + 1e-9


def test_memory_follows_the_cells_that_occur(tmp_path):
    """A declared domain of 900 million cells, of which a handful occur: chosen by itself, and small."""
    import tracemalloc

    file = tmp_path / "large.parquet"
    duckdb.sql(
        "COPY (SELECT i // 5 AS u, i % 5 AS t, ((i // 5) % 3) * 1000 AS s, (i // 7) % 2 AS a, "
        f"((i // 7) % 2)::DOUBLE AS r FROM range(50000) x(i)) TO '{file}' (FORMAT parquet)"
    )
    large = discreet.data.read(file, **NAMES, states=3000, actions=10, horizon=5)
    tracemalloc.start()
    try:
        fit = discreet.offline.train(large, epsilon=2.0, delta=1e-6)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert fit.recipe.startswith("offline/sparse")
    assert fit.facts["mechanisms"][0]["cells"] == 900_300_000
    assert (fit.policy.actions[:, [0, 1000, 2000]] == 1).all()
    assert peak < 200e6
