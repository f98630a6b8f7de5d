"""Replacing one user, from bytes to counts: never more than is stated, never another number of users, never an error.

Random tables of every form, with hostile cells: quotes, delimiters, line breaks, NaN, odd numbers, fields of three
megabytes. Coins that round rewards have a fixed seed, so counts are exact.
"""

from __future__ import annotations

import numpy as np
import pytest
from hostile import FORMS, Family, Named, OneStep, as_text, check_chain, in_engine

import discreet.data as data
from discreet.data import Csv
from discreet.tables.read import csv_records, grouping, per_user

LENGTH = 15


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(grouping, "_ROWS_IN_MEMORY", 10)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_one_user_moves_no_more_than_is_stated(tmp_path, form, request):
    """Three chains of each of eleven forms: 495 tables."""
    if form == "parts":
        request.getfixturevalue("small_parts")
    moved = sum(check_chain(Family(seed, form, tmp_path), LENGTH, seed) for seed in range(3))
    assert moved > LENGTH  # most replacements are seen


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_one_user_moves_no_more_than_is_stated_in_many_tables(tmp_path, form, request):
    """The same with 5,000 tables."""
    if form == "parts":
        request.getfixturevalue("small_parts")
    moved = 0
    for seed in range(100, 130):
        moved += check_chain(Family(seed, form, tmp_path), LENGTH, seed)
        for file in tmp_path.iterdir():
            file.unlink()
    assert moved > 30 * LENGTH / 3


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_new_kinds_of_tables_move_no_more_than_is_stated(tmp_path, form, request):
    """Units with many rows, rows as units, levels for missing cells, steps by name or time: two chains of each."""
    if form == "parts":
        request.getfixturevalue("small_parts")
    moved = 0
    for seed in range(2):
        families = [Named(seed, form, tmp_path), OneStep(seed, form, tmp_path, None)]
        if form != "engine":  # which draws no lots
            families.append(OneStep(seed, form, tmp_path, 1 + seed))
        moved += sum(check_chain(family, LENGTH // 2, seed) for family in families)
    assert moved > LENGTH // 2


def test_lots_that_others_move_are_convicted(tmp_path, monkeypatch):
    """The wrong twin: a row's lot knows how many users there are before her, as a draw by position would."""
    honest = per_user._drawn

    def by_position(values, begins, lots, rules):
        return honest(values, begins, np.cumsum(values[begins[:-1]]).astype(np.uint64), rules)

    monkeypatch.setattr(per_user, "_drawn", by_position)
    with pytest.raises(AssertionError):
        sum(check_chain(OneStep(seed, "arrow", tmp_path, 1), LENGTH, seed) for seed in range(8))


def test_a_reader_that_guesses_is_convicted(tmp_path, monkeypatch):
    """The wrong twin: quotes count only if the first records have some, as a guessing reader would find."""
    honest = csv_records.CsvFile._form

    def guessing(self):
        head = self.path.read_bytes()[:400]
        return honest(self) if b'"' in head else honest(self)._replace(quote=-1, escape=-1)

    monkeypatch.setattr(csv_records.CsvFile, "_form", guessing)
    chains = (check_chain(Family(seed, "csv", tmp_path), LENGTH, seed) for seed in range(20))
    with pytest.raises(AssertionError):
        sum(chains)


@pytest.mark.slow
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_the_compiled_rules_and_the_query_count_the_same(tmp_path, text):
    """Two implementations of one set of rules: every cell, every level, every position of rewards between levels."""
    for seed in range(6):
        family = Family(seed, "engine", tmp_path, users=25)
        rows = [(row[0], family.name(user), *row[2:]) for user, own in family.rows.items() for row in own]
        here = as_text(rows) if text else family._arrow_table(rows)
        declared = {
            "user": "u", "episode": "e", "step": "t", "state": "s", "action": "a", "reward": "r",
            "next_state": "n" if family.next_state else None, "states": family.states, "actions": family.actions,
            "horizon": family.horizon, "per_user": family.per_user, "homogeneous": family.pooled,
            "early_end": family.early_end, "missing": family.missing,
        }  # fmt: skip
        tables = data.read(here, **declared), data.read(in_engine(here), **declared)
        assert tables[0].users() == tables[1].users() == 25
        for levels, first in ((2, False), (17, family.pooled)):
            found, expected = (table._sums(levels, first) for table in tables)
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)
            assert found.counts.sum() > 0
        reports = [data.check(table) for table in tables]
        assert reports[0] == reports[1]


class TestOneFieldOfOneUser:
    """The neighbours for which the first release failed: a guessed dialect, stopped runs, phantom users."""

    USERS, HORIZON = 2000, 3

    def counted(self, path, name=lambda user: f"u{user}", note=lambda user, day: "ok"):
        lines = ["patient,day,state,drug,outcome,note"]
        for user in range(self.USERS):
            for day in range(self.HORIZON):
                lines.append(f"{name(user)},{day},{(user + day) % 4},{user % 2},{day % 2},{note(user, day)}")
        path.write_text("\n".join(lines) + "\n", newline="")
        table = data.read(
            path, user="patient", step="day", state="state", action="drug", reward="outcome", states=4, actions=2,
            horizon=self.HORIZON, csv=Csv(),
        )  # fmt: skip
        joint = table.joint_counts(seed=0)
        return table.users(), dict(zip(joint.keys.tolist(), joint.counts.tolist(), strict=True))

    @pytest.mark.parametrize(
        "mine",
        ['"a,b"', '"line\nbreak"', "a\rb", "a" * 3_000_000, "#", ";;;;", '"""', '"\nu1,0,0,0,0,ok\n"', "\0", "'"],
        ids=[
            "quoted",
            "line break",
            "return",
            "3 MB",
            "hash",
            "semicolons",
            "quotes",
            "forged rows",
            "NUL",
            "apostrophe",
        ],
    )
    @pytest.mark.parametrize("others", ["ok", '"a,b"'])
    def test_a_note_changes_nothing(self, tmp_path, mine, others):
        path = tmp_path / "rows.csv"
        plain = self.counted(path, note=lambda user, day: others if user > 1500 else "ok")
        for victim in (5, 1400):
            written = '"' + mine.strip('"').replace('"', '""') + '"' if mine == '"""' else mine
            note = lambda user, day: written if user == victim else others if user > 1500 else "ok"  # noqa: E731, B023
            assert self.counted(path, note=note) == plain

    def test_a_name_changes_nobody_else(self, tmp_path):
        quoted = lambda user: f'"Smith, J{user}"' if user > 1000 else f"u{user}"  # noqa: E731
        before = self.counted(tmp_path / "rows.csv", quoted)
        after = self.counted(tmp_path / "rows.csv", lambda user: '"Doe, J"' if user == 5 else quoted(user))
        assert before == after
        assert before[0] == self.USERS
