"""Who is held out: nobody else moves when one user is replaced, sizes are public, and a split is for one source."""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.tables.evaluation.split import draw_split, load_split, part_size, permutation, remember
from discreet.tables.read.user_subsets import ordered

DECLARED = {
    "user": "u", "step": "t", "state": "s", "action": "a", "reward": "r", "states": 2, "actions": 2, "horizon": 3
}  # fmt: skip
# Somebody else's rows, under another identifier: none of hers, more of them, and content that is dropped.
OTHERS = [
    [(0, 0, 0, 0.5)],
    [(0, 1, 1, 1.0), (1, 0, 1, 0.0), (2, 1, 0, 1.0)],
    [(9, 7, 9, None)],
    [(2, 1, 1, 0.25), (0, 0, 0, -5.0)],
]


def people(rng, users):
    """Rows of users in an order in which they are interleaved: all first ones, then the others."""
    rows = [
        (f"u{u}", t, *rng.integers(2, size=2).tolist(), 1.0) for u in range(users) for t in range(rng.integers(1, 4))
    ]
    firsts = [row for row in rows if row[1] == 0]
    others = [row for row in rows if row[1] > 0]
    rng.shuffle(firsts)
    rng.shuffle(others)
    return firsts + others


def replaced(rows, user, by, others):
    """Another user in place: the first of the new rows stands where the first of the old ones stood."""
    first = next(i for i, row in enumerate(rows) if row[0] == user)
    new = [(by, *row) for row in others]
    before = [row for row in rows[:first] if row[0] != user]
    return [*before, new[0], *(row for row in rows[first:] if row[0] != user), *new[1:]]


def table(rows, kind, path):
    frame = pd.DataFrame(rows, columns=["u", "t", "s", "a", "r"])
    match kind:
        case "pandas":
            source = frame
        case "arrow":
            source = pa.Table.from_pandas(frame)
        case "csv":
            source = path / "rows.csv"
            frame.to_csv(source, index=False)
        case "parquet":
            source = path / "rows.parquet"
            frame.to_parquet(source)
    return discreet.data.read(source, **DECLARED)


@pytest.mark.parametrize("kind", ["pandas", "arrow", "csv", "parquet"])
def test_replacing_one_user_moves_nobody_else_between_parts(kind, tmp_path):
    rng = np.random.default_rng(0)
    rows = people(rng, 4)
    before = ordered(table(rows, kind, tmp_path))
    split = draw_split(before, 0.5)
    mask = split.held_out_mask()
    order = list(dict.fromkeys(row[0] for row in rows))
    held = dict(zip(order, mask.tolist(), strict=True))
    counts = {part: before.joint_counts(mask == part, levels=2, first_visit=False, seed=1) for part in (True, False)}
    names = itertools.cycle(("u1x", "a", "z"))  # amid, first or last in the order of identifiers
    for user, others in itertools.product(order, OTHERS if kind == "pandas" else OTHERS[1:3]):
        name = next(names)
        other = replaced(rows, user, name, others)
        after = ordered(table(other, kind, tmp_path))
        assert after.users == before.users
        now = dict(zip(dict.fromkeys(row[0] for row in other), mask.tolist(), strict=True))
        assert now.pop(name) == held[user]
        assert now == {who: part for who, part in held.items() if who != user}
        # The counts of the part that she is not in are what they were.
        found = after.joint_counts(mask == (not held[user]), levels=2, first_visit=False, seed=1)
        assert all(np.array_equal(*columns) for columns in zip(found, counts[not held[user]], strict=True))


def test_order_does_not_matter_if_the_key_is_secret():
    """Whatever order users stand in, every part of the public size is as likely: the argument for any replacement."""
    users = "abcd"
    laws = []
    for order in (users, "dbca"):
        held = Counter()
        for chosen in itertools.permutations(range(4)):  # what uniform keys stand for
            held[frozenset(order[position] for position in chosen[2:])] += 1
        laws.append(held)
    assert laws[0] == laws[1]
    assert len(laws[0]) == 6


def test_keys_give_every_order_equally_often():
    """Chi-square of the six orders of three positions over the same 6,000 keys: above 26 for one set in 10,000."""
    found = Counter(tuple(permutation(i.to_bytes(32, "big"), "parts", 3).tolist()) for i in range(6000))
    assert sum((count - 1000) ** 2 / 1000 for count in found.values()) < 26
    twin = Counter(tuple(sorted(order)) for order in found.elements())  # a permutation that never moves anybody
    assert sum((twin[order] - 1000) ** 2 / 1000 for order in found) > 26


def test_the_two_uses_of_a_key_differ():
    key = bytes(range(32))
    assert not np.array_equal(permutation(key, "parts", 50), permutation(key, "halves", 50))


def test_a_split_is_for_its_source_and_is_read_back(tmp_path):
    rng = np.random.default_rng(1)
    rows = people(rng, 9)
    source = ordered(table(rows, "pandas", tmp_path))
    split = draw_split(source, 1 / 3)
    assert (split.users, split.held_out, split.learned_from) == (9, 3, 6)
    assert int(split.held_out_mask().sum()) == 3
    split.save(tmp_path / "split.json")
    assert load_split(tmp_path / "split.json") == split
    split.check(source)
    counted, judging = split.halves_of_held_out(1 / 3)
    assert (int(counted.sum()), int(judging.sum())) == (2, 1)
    assert np.array_equal(counted | judging, split.held_out_mask())
    for other in (rows[::-1], replaced(rows, rows[0][0], "new", OTHERS[0]), [row for row in rows if row[0] != "u3"]):
        with pytest.raises(InvalidInput, match="recorded split was made for other users"):
            split.check(ordered(table(other, "pandas", tmp_path)))


def test_a_split_holds_a_key_and_is_its_owners_alone(tmp_path):
    split = draw_split(ordered(table(people(np.random.default_rng(1), 9), "pandas", tmp_path)), 1 / 3)
    split.save(tmp_path / "split.json")
    assert (tmp_path / "split.json").stat().st_mode & 0o777 == 0o600


def test_what_may_be_published_of_a_split_tells_nothing_about_the_key(tmp_path):
    split = draw_split(ordered(table(people(np.random.default_rng(2), 5), "pandas", tmp_path)), 0.4)
    public = str(split.facts()) + repr(split)
    assert split.key.hex() not in public
    assert split.identity not in public


def test_sources_without_an_order_are_refused(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE rows (u INT, t INT, s INT, a INT, r DOUBLE)")
    data = discreet.data.read(path, table="rows", **DECLARED)
    with pytest.raises(Unsupported, match="no order of rows"):
        ordered(data)


def test_shares_that_leave_nobody_are_refused():
    assert part_size(100, 0.35) == 35
    for users, share in ((2, 0.1), (2, 0.9)):
        with pytest.raises(InvalidInput, match="without users"):
            part_size(users, share)
    with pytest.raises(InvalidInput):
        part_size(10, 1.5)


def test_a_file_that_is_no_split_is_refused(tmp_path):
    for text in ("", "{}", '{"format": "discreet-split", "version": 2, "users": 3}'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(InvalidInput, match="not a recorded split"):
            load_split(tmp_path / "x.json")
    (tmp_path / "x.json").write_text('{"format": "discreet-split", "version": 1, "users": 3}')
    with pytest.raises(InvalidInput, match=r"a split of version 1, .*: train again with --holdout"):
        load_split(tmp_path / "x.json")


@pytest.fixture
def recorded(tmp_path):
    """A split in its file."""
    split = draw_split(ordered(table(people(np.random.default_rng(1), 9), "pandas", tmp_path)), 1 / 3)
    split.save(tmp_path / "split.json")
    return split, tmp_path / "split.json"


def test_a_split_keeps_what_was_asked_of_it_and_adds_up(recorded):
    split, file = recorded
    remember(split, file, "train apvi", 1.0, 1e-6, None)
    remember(split, file, "value of a policy", 0.5, 0.0, None)
    after = remember(split, file, "value of a policy", None, 0.0, 0.25)
    assert load_split(file).asked == after.asked
    assert [each.what for each in after.asked] == ["train apvi", "value of a policy", "value of a policy"]
    assert after.total() == {"epsilon": 1.5, "delta": 1e-6, "rho": 0.25}
    assert "asked 3 times, as far as its file knows: epsilon 1.5 and delta 1e-06 and rho 0.25" in after.sum_words()
    assert "only a ledger does not" in after.sum_words()
    assert after.facts() == split.facts()  # what may be published, and what a ledger compares, stays the same
    assert file.stat().st_mode & 0o777 == 0o600


def test_requests_that_come_at_once_are_all_kept(recorded):
    split, file = recorded
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: remember(split, file, "value of a policy", 0.5, 0.0, None), range(40)))
    assert load_split(file).total()["epsilon"] == 20.0


def test_an_interrupted_write_leaves_the_old_file_and_draws_nothing(recorded, monkeypatch, tmp_path):
    split, file = recorded
    remember(split, file, "train apvi", 1.0, 0.0, None)
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("discreet.base.files.os.replace", full)
    monkeypatch.setattr("discreet.mechanisms.sums.accumulator.SecureNoise.draw", lambda *_: pytest.fail("drawn"))
    data = table(people(np.random.default_rng(1), 9), "pandas", tmp_path)
    with pytest.raises(InvalidInput, match="No space left"):
        discreet.offline.evaluate(data, discreet.Policy([[0, 0]] * 3), epsilon=1.0, behaviour="uniform", split=file)
    assert file.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"split.json"}


def test_another_split_in_the_same_file_is_not_charged(recorded):
    split, file = recorded
    replace(split, key=bytes(32)).save(file)
    with pytest.raises(InvalidInput, match="another split meanwhile"):
        remember(split, file, "train apvi", 1.0, 0.0, None)
