"""Training that is charged to a ledger: paid once, stored, reused; nothing raw is kept, and refusals come first."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

import discreet.data
import discreet.offline
from discreet import ledger
from discreet.base.errors import InvalidInput, OverBudget
from discreet.learners.base import Problem
from discreet.learners.registry import offline_learner
from discreet.ledger import database
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.recipes.targets import Central
from discreet.simulation.data_sets import privatizer_for
from discreet.tables.read.table import Table, TableUsers
from discreet.tables.requests import declaration_hash
from discreet.tables.stored_release import StoredAnswers, pack

USERS, S, A, H = 900, 3, 2, 3
FEATURES = np.eye(S * A).reshape(S, A, S * A)


@pytest.fixture(scope="module")
def table():
    """Action 1 is rewarded in state 0 and action 0 elsewhere."""
    rng = np.random.default_rng(1)
    s, a = rng.integers(0, S, USERS * H), rng.integers(0, A, USERS * H)
    rewards = np.where((s == 0) == (a == 1), 0.9, 0.1)
    columns = {"u": np.repeat(np.arange(USERS), H), "t": np.tile(np.arange(H), USERS), "s": s, "a": a, "r": rewards}
    names = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}
    return discreet.data.read(pa.table(columns), **names, states=S, actions=A, horizon=H, early_end=False)


@pytest.fixture
def book(tmp_path):
    file = tmp_path / "budget.db"
    with ledger.opened(file, new=True) as connection, ledger.transaction(connection):
        ledger.open_data_set(connection, "icu", ledger.make_budget(epsilon=10.0, delta=1e-5))
        ledger.open_data_set(connection, "tiny", ledger.make_budget(epsilon=0.1))
    return file


def entries(file, name="icu"):
    with ledger.opened(file) as connection:
        assert ledger.verify(connection).sound
        return [entry.content for entry in database.entries_of(connection, name, 1)]


def train(table, file, learner="apvi", dataset="icu", **asked):
    return discreet.offline.train(
        table, learner, **{"epsilon": 3.0, "delta": 1e-6, **asked}, ledger=file, dataset=dataset
    )


WAYS = {
    "laplace": {"delta": 0.0},
    "gaussian": {"recipe": "offline/gaussian"},
    "sparse": {"recipe": "offline/sparse-gaussian"},
    "known rewards": {"known_rewards": np.full((S, A), 0.5)},
    "linear": {"learner": "vapvi", "features": FEATURES},
    "linear, with variances": {"learner": "vapvi", "features": FEATURES, "options": {"variance": True}},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_call_is_paid_once_and_gives_the_same_policy(table, book, monkeypatch, way):
    first = train(table, book, **WAYS[way])

    def looked(*_args, **_asked):
        raise AssertionError("the data were counted again")

    monkeypatch.setattr(Table, "joint_counts", looked)
    again = train(table, book, **WAYS[way])
    assert first.policy == again.policy
    np.testing.assert_array_equal(first.values, again.values)
    assert first.guarantee.explain() == again.guarantee.explain()
    assert "operating system" in again.guarantee.explain()
    assert (first.facts["ledger"]["reused"], again.facts["ledger"]["reused"]) == (False, True)
    (entry,) = entries(book)
    assert entry["declaration"] == declaration_hash(table.declaration)
    about = {"model": "central", "neighbours": "replace one user", "who": "u", "unit": "one user"}
    assert entry["about"] == about


def test_anything_else_is_paid_for_and_says_what_was_spent_before(table, book):
    train(table, book)
    for asked in (
        {"epsilon": 2.0},
        {"options": {"penalty_scale": 0.5}},
        {"recipe": "offline/gaussian", "epsilon": 1.0},
    ):
        fit = train(table, book, **asked)
        assert not fit.facts["ledger"]["reused"]
    assert len(entries(book)) == 4
    assert fit.facts["ledger"]["releases_before"] == 3
    with pytest.raises(OverBudget, match="left of epsilon 10"):
        train(table, book, epsilon=1.5)
    assert len(entries(book)) == 4


def test_what_would_go_over_is_refused_before_the_data_are_counted(table, book, monkeypatch):
    monkeypatch.setattr(Table, "joint_counts", None)
    with pytest.raises(OverBudget, match=r"'tiny' has epsilon 0\.1 left of epsilon 0\.1"):
        train(table, book, dataset="tiny", delta=0.0)
    for asked in ({"ledger": book}, {"dataset": "icu"}):
        with pytest.raises(InvalidInput, match="together"):
            discreet.offline.train(table, epsilon=1.0, **asked)


def test_what_would_go_over_reads_the_column_of_users_alone_and_writes_no_split(table, book, monkeypatch, tmp_path):
    """The number of users is public and part of the request, which may have been paid for before."""
    read, source = [], type(table.source)
    honest = source.batches
    monkeypatch.setattr(source, "batches", lambda self, names: read.append(names) or honest(self, names))
    for judged in ({}, {"holdout": 0.35, "split": tmp_path / "split.json"}):
        with pytest.raises(OverBudget, match="'tiny' has epsilon"):
            train(table, book, dataset="tiny", delta=0.0, **judged)
    assert set(read) == {("u",)}
    assert not (tmp_path / "split.json").exists()


def test_the_ledger_holds_the_noisy_release_and_neither_counts_nor_noise(table, book):
    train(table, book, recipe="offline/gaussian", epsilon=0.5)
    with ledger.opened(book) as connection:
        content = database.release_at(connection, "icu", 1)
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    (values,) = [array for name, array in arrays.items() if name.endswith("transitions.values")]
    joint = table.joint_counts()
    counts = np.bincount(joint.keys // 2, weights=joint.counts, minlength=H * S * A * (S + 1))
    counts = counts.reshape(H, S, A, S + 1)
    different = values.reshape((*counts.shape[:3], -1)) - counts[..., : values.shape[-1]]
    assert (different != 0).mean() > 0.5  # noise of several counts in every cell
    assert {name.split(".")[-1] for name in arrays} == {"values", "variance", "facts"}


@pytest.mark.parametrize("recipe", ["offline/laplace", "offline/gaussian", "offline/sparse-gaussian"])
def test_stored_answers_are_the_answers(table, recipe):
    """Everything that a learner can ask of a release, before and after it was stored."""
    learner = offline_learner("apvi")
    privatizer = privatizer_for(learner, Central(1.0, 1e-6, None, recipe), table.shape, USERS, per_user=1)
    problem, coins = Problem(table.shape, USERS), np.zeros(1, np.uint64)
    asked = learner.ask(learner.init(problem, coins))
    session = privatizer.open(TableUsers(table), SimulatedNoise(np.random.default_rng(0)), USERS)
    drawn = session.answer(asked)
    stored = StoredAnswers(privatizer, USERS, pack([(asked, drawn)], {})).answer(asked)
    assert sorted(stored.statistics) == sorted(drawn.statistics)
    for name, (values, variance) in drawn.statistics.items():
        back = stored[name]
        difference = back.values - values
        assert abs(difference).max() == 0
        np.testing.assert_array_equal(back.variance, variance)
        np.testing.assert_array_equal(stored.width(2, 0.01, name), drawn.width(2, 0.01, name))
    assert stored.users == drawn.users


def test_stored_answers_to_other_questions_are_refused(table, book):
    train(table, book, "vapvi", features=FEATURES)
    with ledger.opened(book) as connection:
        content = database.release_at(connection, "icu", 1)
    learner = offline_learner("apvi")
    privatizer = privatizer_for(learner, Central(1.0, 1e-6), table.shape, USERS, per_user=1)
    asked = learner.ask(learner.init(Problem(table.shape, USERS), np.zeros(1, np.uint64)))
    for wrong in (content, b"", b"PK nonsense"):
        with pytest.raises(InvalidInput, match="the version that drew it"):
            StoredAnswers(privatizer, USERS, wrong).answer(asked)
