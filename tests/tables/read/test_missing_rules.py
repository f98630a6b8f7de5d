"""The rules for missing rows: a text of a few lines, the compiled rules and the query count the same cells."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from discreet import data
from discreet.base.errors import InvalidInput
from discreet.tables.read.engines import IbisSource
from discreet.tables.requests import declaration_hash

S, A, H = 2, 2, 3
NAMES = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}
SIZES = {"states": S, "actions": A, "horizon": H, "rewards": (0.0, 1.0)}
RULES = ("end", "drop", "row")


def by_hand(frame, rule, early_end, told):
    """The cells (step, state, action, successor) of everybody, record by record."""
    found = []
    for _, rows in frame.groupby("u", sort=True):
        found_at, invalid = {}, False
        for _, row in rows.iterrows():
            if row.t not in range(H):
                continue
            good = row.s in range(S) and row.a in range(A) and (not told or np.isnan(row.n) or row.n in range(S))
            invalid |= not good
            if good:
                item = (row.s, row.a, row.r, S if not told or np.isnan(row.n) else row.n)
                found_at.setdefault(row.t, set()).add(item)
        invalid |= any(len(items) > 1 for items in found_at.values())
        record = {t: min(items) for t, items in found_at.items() if rule == "row" or len(items) == 1}
        steps = sorted(record)
        if rule == "end":
            steps = [t for place, t in enumerate(steps) if place == t]
        if rule == "drop" and (invalid or steps != list(range(len(steps))) or (not early_end and len(steps) < H)):
            steps = []
        for place, t in enumerate(steps):
            state, action, _, following = record[t]
            last = place + 1 == len(steps)
            if t == H - 1 or (last and rule != "row"):
                successor = S
            elif following < S:
                successor = following
            elif last:
                successor = S
            elif steps[place + 1] == t + 1:
                successor = record[t + 1][0]
            else:
                continue
            found.append((int(t), int(state), int(action), int(successor)))
    return sorted(found)


def hostile(seed, users=40):
    """Rows with gaps, values out of domain, steps out of the horizon, ties and users without a valid row."""
    rng = np.random.default_rng(seed)
    size = users * 4
    return pd.DataFrame(
        {
            "u": np.sort(rng.integers(users, size=size)), "t": rng.integers(-1, H + 1, size=size),
            "s": rng.choice([0.0, 1.0, 1.0, 0.0, 7.0, np.nan], size=size), "a": rng.choice([0, 1, 0, 1, 9], size=size),
            "r": rng.integers(2, size=size), "n": rng.choice([0.0, 1.0, np.nan, 5.0], size=size),
        }
    )  # fmt: skip


def cells(table):
    """Cells, each as often as it was counted."""
    sums = table._sums(2, False)
    keys = np.repeat(sums.keys, sums.counts)
    row, successor = np.divmod(keys, S + 1)
    rest, action = np.divmod(row, A)
    step, state = np.divmod(rest, S)
    return sorted(zip(step.tolist(), state.tolist(), action.tolist(), successor.tolist(), strict=True))


@pytest.mark.parametrize("told", [False, True], ids=["next row", "told"])
@pytest.mark.parametrize("rule", RULES)
def test_text_loop_and_query_agree(rule, told):
    import ibis

    seen = 0
    for seed, early_end in itertools.product(range(4), (False, True)):
        frame = hostile(seed)
        declared = {**NAMES, **SIZES, "missing": rule, "early_end": early_end, "next_state": "n" if told else None}
        here, there = data.read(frame, **declared), data.read(ibis.memtable(frame), **declared)
        assert isinstance(there.source, IbisSource)
        expected = by_hand(frame, rule, early_end, told)
        assert cells(here) == expected
        assert cells(there) == expected
        assert data.check(here) == data.check(there)
        seen += len(expected)
    assert seen >= 5


def test_records_are_cut_where_a_step_is_missing():
    frame = pd.DataFrame({"u": [0, 0, 1, 1, 2], "t": [0, 2, 1, 2, 0], "s": 0, "a": 1, "r": 1})
    rows = {rule: cells(data.read(frame, **NAMES, **SIZES, missing=rule)) for rule in RULES}
    assert rows["end"] == [(0, 0, 1, S), (0, 0, 1, S)]  # users 0 and 2; user 1 has no start
    assert rows["drop"] == [(0, 0, 1, S)]
    assert rows["row"] == [(0, 0, 1, S), (1, 0, 1, 0), (2, 0, 1, S), (2, 0, 1, S)]


def test_dates_and_several_records_follow_the_same_rules():
    import ibis

    frame = pd.DataFrame({
        "u": [0, 0, 0, 0, 1, 1, 1, 1], "e": [0, 0, 1, 1, 0, 0, 1, 2],
        "t": ["2026-01-01", "2026-01-03", "2026-02-01", "2026-02-02", "2026-01-05", "2026-01-04", "2026-03-01", "x"],
        "s": [0, 1, 0, 1, 1, 9, 0, 0], "a": 0, "r": 1,
    })  # fmt: skip
    for rule in RULES:
        declared = {**NAMES, **SIZES, "episode": "e", "per_user": 2, "dates": data.Dates(days=1), "missing": rule}
        here, there = (cells(data.read(source, **declared)) for source in (frame, ibis.memtable(frame)))
        assert here == there
        # Under "drop" the first record of user 0 has a gap, and that of user 1 a row that is not valid.
        assert len(here) == {"end": 5, "drop": 3, "row": 5}[rule]


TIES = {
    "equal rows are one": ([(0, 0, 1, 1), (0, 0, 1, 1), (1, 1, 0, 0)], 2, 2),
    "rows beyond the range are equal": ([(0, 0, 1, 7), (0, 0, 1, 5), (1, 1, 0, 0)], 2, 2),
    "rewards differ": ([(0, 0, 1, 1), (1, 1, 0, 0), (1, 1, 0, 1)], 1, 0),
    "actions differ at the start": ([(0, 0, 1, 1), (0, 0, 0, 1), (0, 0, 1, 1), (1, 1, 0, 0)], 0, 0),
    "states differ at the end": ([(0, 0, 1, 1), (1, 1, 0, 0), (2, 0, 0, 0), (2, 1, 0, 0)], 2, 0),
}  # (step, state, action, reward) of one user, and how many rows "end" and "drop" keep


@pytest.mark.parametrize("name", TIES)
def test_a_step_whose_rows_differ_is_missing(name):
    """In any order, by loop and query, also as one of two records; "row" keeps the smallest, as 0.2.0 did."""
    import ibis

    rows, ended, whole = TIES[name]
    frame = pd.DataFrame(rows, columns=["t", "s", "a", "r"]).assign(u=0, e=1)
    other = pd.DataFrame({"u": [0], "e": [0], "t": [0], "s": [1], "a": [1], "r": [0]})
    for given, more in ((frame, {}), (pd.concat([frame[::-1], other]), {"episode": "e", "per_user": 2})):
        for rule, expected in (("end", ended), ("drop", whole), ("row", frame["t"].nunique())):
            declared = {**NAMES, **SIZES, **more, "missing": rule}
            tables = [data.read(source, **declared) for source in (given, ibis.memtable(given))]
            assert [len(cells(table)) for table in tables] == [expected + bool(more)] * 2
            here, there = (data.check(table) for table in tables)
            assert here == there
            conflicts = dict(here.findings)["steps of one user (and episode) whose rows differ"]
            assert conflicts == int(ended < frame["t"].nunique())
            if conflicts:
                said = "the smallest counts" if rule == "row" else "the step is missing"
                assert any(said in remedy for remedy in here.remedies)


def test_a_user_of_one_step_whose_rows_differ_is_not_counted():
    frame = pd.DataFrame({"u": [0, 0, 1, 1], "s": [0, 1, 1, 1], "a": 0, "r": 1})
    names = {**NAMES, **SIZES, "step": None, "horizon": 1}
    assert cells(data.read(frame, **names)) == [(0, 1, 0, S)]
    assert len(cells(data.read(frame, **names, cap=2))) == 4
    assert any(
        "users whose rows differ do not count" in each for each in data.check(data.read(frame, **names)).remedies
    )


def test_the_rule_is_public_and_part_of_the_declaration():
    frame = pd.DataFrame({"u": [0], "t": [0], "s": [0], "a": [0], "r": [0]})
    hashes = {declaration_hash(data.read(frame, **NAMES, **SIZES, missing=rule).declaration) for rule in RULES}
    assert len(hashes) == len(RULES)
    assert data.read(frame, **NAMES, **SIZES).declaration.missing == "end"
    with pytest.raises(InvalidInput, match="unknown rule for missing rows 'carry'"):
        data.read(frame, **NAMES, **SIZES, missing="carry")
