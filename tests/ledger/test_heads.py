"""Signed heads, and a thousand ledgers that somebody has tampered with: every one of them is found."""

from __future__ import annotations

import json
import random
import sqlite3
import stat

import pytest
from tests.ledger.conftest import pure

from discreet import ledger
from discreet.base.errors import InvalidInput
from discreet.ledger.chain import Entry, canonical, chained, first_hash, link

ENTRIES = 12


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A ledger of two data sets with some charges, stored releases and a plan, and its head."""
    file = tmp_path_factory.mktemp("sound") / "budget.db"
    with ledger.opened(file, new=True) as connection, ledger.transaction(connection):
        for name in ("people", "others"):
            ledger.open_data_set(connection, name, ledger.make_budget(epsilon=2.0, delta=1e-6))
            ledger.declare_plan(connection, name, "plan", [pure(0.1)] * 2)
            for number in range(ENTRIES - 2):
                ledger.spend(
                    connection, name, pure(0.1), what="a count", request=f"{name} {number}",
                    release=b"noisy %d" % number if number % 3 == 0 else None, plan="plan" if number < 2 else None,
                )  # fmt: skip
    with sqlite3.connect(file) as found:
        heads = {
            name: {"number": number, "hash": digest}
            for name, number, digest in found.execute(
                "SELECT data_set, number, hash FROM ledger_entries WHERE number = ?", (ENTRIES - 1,)
            )
        }
    return found, {"heads": heads}


def rows(connection, name):
    query = "SELECT data_set, number, request, part, body, hash FROM ledger_entries WHERE data_set = ? ORDER BY number"
    return [Entry(*row) for row in connection.execute(query, (name,))]


def put(connection, old, new):
    connection.execute(
        "UPDATE ledger_entries SET data_set = ?, number = ?, request = ?, part = ?, body = ?, hash = ? "
        "WHERE data_set = ? AND number = ?",
        (*new, old.data_set, old.number),
    )


def edited(connection, entry, rng):
    """A body with one number or word changed."""
    content = entry.content
    field = rng.choice(["cost", "spent", "what", "time", "release", "guarantee"])
    if field in ("cost", "spent"):
        content[field][rng.randrange(2)] = str(rng.randrange(10**6))
    elif field == "guarantee":
        content[field]["epsilon"] = rng.random()
    else:
        content[field] = f"something else {rng.random()}"
    put(connection, entry, entry._replace(body=canonical(content)))


def change_an_entry(connection, name, rng):
    edited(connection, rng.choice(rows(connection, name)[1:]), rng)


def change_the_budget(connection, name, rng):
    entry = rows(connection, name)[0]
    content = entry.content
    content["budget"]["limit"][rng.randrange(2)] = str(rng.randrange(2**140))
    put(connection, entry, entry._replace(body=canonical(content)))


def change_and_hash_again(connection, name, rng):
    """The changed entry has a hash that fits; the one after it does not follow any more."""
    found = rows(connection, name)
    index = rng.randrange(1, len(found) - 1)
    content = found[index].content
    content["what"] = f"nothing {rng.random()}"
    put(connection, found[index], chained(found[index - 1].hash, content))


def delete_an_entry(connection, name, rng):
    number = rng.randrange(0, ENTRIES - 1)
    connection.execute("DELETE FROM ledger_entries WHERE data_set = ? AND number = ?", (name, number))


def swap_two(connection, name, rng):
    first, second = rng.sample(rows(connection, name), 2)
    connection.execute("UPDATE ledger_entries SET number = -1 WHERE data_set = ? AND number = ?", (name, first.number))
    connection.execute(
        "UPDATE ledger_entries SET number = ? WHERE data_set = ? AND number = ?", (first.number, name, second.number)
    )
    connection.execute("UPDATE ledger_entries SET number = ? WHERE data_set = ? AND number = -1", (second.number, name))


def insert_one(connection, name, rng):
    last = rows(connection, name)[-1]
    body = last.body.replace(f'"number":{last.number}', f'"number":{last.number + 1}')
    add(connection, last._replace(number=last.number + 1, body=body, request=None))


def add(connection, entry):
    connection.execute("INSERT INTO ledger_entries VALUES (?, ?, ?, ?, ?, ?)", entry)


def change_a_release(connection, name, rng):
    number = rng.choice(
        [n for (n,) in connection.execute("SELECT number FROM ledger_releases WHERE data_set = ?", (name,))]
    )
    what = rng.choice(["UPDATE ledger_releases SET content = x'00'", "DELETE FROM ledger_releases"])
    connection.execute(f"{what} WHERE data_set = ? AND number = ?", (name, number))


def add_a_release(connection, name, rng):
    connection.execute("INSERT INTO ledger_releases VALUES (?, ?, x'00')", (name, rng.randrange(100, 200)))


def change_a_row(connection, name, rng):
    """The columns that a database looks up, which repeat what the body says."""
    entry = rng.choice(rows(connection, name)[1:])
    put(connection, entry, entry._replace(**{rng.choice(["request", "part"]): f"x{rng.random()}"}))


def write_nonsense(connection, name, rng):
    entry = rng.choice(rows(connection, name))
    put(connection, entry, entry._replace(body=rng.choice(["", "{}", "[1]", "null", entry.body[:-1]])))


def write_other_types(connection, name, rng):
    """SQLite takes a word for a number, and bytes for text."""
    column, value = rng.choice(
        [("number", "word"), ("number", 2.5), ("body", b"bytes"), ("body", 7), ("hash", b"bytes"), ("request", 7)]
    )
    number = rng.randrange(1, ENTRIES)
    query = f"UPDATE ledger_entries SET {column} = ? WHERE data_set = ? AND number = ?"
    connection.execute(query, (value, name, number))


def write_other_json(connection, name, rng):
    """A body without one of its fields, or with something else in it, and a hash that fits."""
    found = rows(connection, name)
    index = rng.randrange(len(found) - 1)
    content = found[index].content
    field = rng.choice(sorted(content.keys() - {"dataset", "number", "note", "format", "time", "what", "kind"}))
    if rng.random() < 0.5:
        del content[field]
    else:
        wrong = [None, [], {}, 5, ["x", "y"], ["-1", "0"], "text", [[["deep"]]]]
        content[field] = rng.choice([each for each in wrong if each != content[field]])
    body = canonical(content)
    before = found[index - 1].hash if index else first_hash(name)
    put(connection, found[index], found[index]._replace(body=body, hash=link(before, body)))


def forget_a_data_set(connection, name, rng):
    connection.execute("DELETE FROM ledger_data_sets WHERE name = ?", (name,))


def cut_off(connection, name, rng):
    """The last entries, with their releases: what is left is a sound chain."""
    first = rng.randrange(1, ENTRIES)
    for table in ("ledger_entries", "ledger_releases"):
        connection.execute(f"DELETE FROM {table} WHERE data_set = ? AND number >= ?", (name, first))


def write_anew(connection, name, rng):
    """One cost made smaller, and all totals and hashes after it computed again: a sound chain."""
    found = rows(connection, name)
    index = rng.randrange(2, len(found))
    hash_before, spent = first_hash(name), [0, 0]
    for entry in found:
        content = entry.content
        if entry.number >= 1:
            if entry.number == index:
                content["what"], content["cost"][0] = "nothing much", "1"
            spent = [before + int(cost) for before, cost in zip(spent, content["cost"])]
            content["spent"] = [str(each) for each in spent]
        new = chained(hash_before, content)
        put(connection, entry, new)
        hash_before = new.hash


def forget_everything(connection, name, rng):
    for table, column in (
        ("ledger_entries", "data_set"),
        ("ledger_releases", "data_set"),
        ("ledger_data_sets", "name"),
    ):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))


SEEN_BY_THE_CHAIN = [
    change_an_entry, change_the_budget, change_and_hash_again, delete_an_entry, swap_two, insert_one, change_a_release,
    add_a_release, change_a_row, write_nonsense, write_other_types, write_other_json, forget_a_data_set,
]  # fmt: skip
SEEN_BY_THE_HEAD = [cut_off, write_anew, forget_everything]


def tampered_copies(sound, many):
    """Copies of a sound ledger with one change each, and what the change was."""
    for seed in range(many):
        rng = random.Random(seed)
        change = rng.choice([*SEEN_BY_THE_CHAIN, *SEEN_BY_THE_HEAD])
        copy = sqlite3.connect(":memory:")
        sound.backup(copy)
        change(copy, rng.choice(["people", "others"]), rng)
        yield seed, change, copy
        copy.close()


def test_a_thousand_tampered_ledgers_are_found(sound):
    connection, head = sound
    assert ledger.verify(connection, head).sound
    seen = set()
    for seed, change, copy in tampered_copies(connection, 1000):
        report = ledger.verify(copy, head)
        assert not report.sound, f"{change.__name__} with seed {seed} was not found"
        seen.add(change)
    assert len(seen) == len(SEEN_BY_THE_CHAIN) + len(SEEN_BY_THE_HEAD)


def test_without_a_head_a_chain_does_not_see_truncation_or_rewriting(sound):
    """Why heads are kept elsewhere; and everything else is seen by the chain alone."""
    for seed, change, copy in tampered_copies(sound[0], 150):
        assert ledger.verify(copy).sound == (change in SEEN_BY_THE_HEAD), (change.__name__, seed)


def test_a_ledger_that_has_grown_still_has_the_entries_of_its_head(sound):
    connection, head = sound
    copy = sqlite3.connect(":memory:", isolation_level=None)
    connection.backup(copy)
    with ledger.transaction(copy):
        ledger.spend(copy, "people", pure(0.1), what="later")
    assert ledger.verify(copy, head).sound


@pytest.fixture
def signed(tmp_path, budget_file):
    public = ledger.make_key(tmp_path / "key.pem")
    with ledger.opened(budget_file) as connection:
        head = ledger.sign_head(connection, tmp_path / "key.pem")
    return public, head


def test_a_head_is_signed_and_a_changed_one_is_refused(tmp_path, signed):
    public, head = signed
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    ledger.check_head(head)
    ledger.check_head(head, public)
    with pytest.raises(InvalidInput, match="not by"):
        ledger.check_head(head, "00" * 32)
    changed = json.loads(json.dumps(head))
    changed["heads"]["people"]["number"] = 7
    for wrong in (changed, {**head, "time": "now"}, {**head, "signature": "00" * 64}, {**head, "key": "zz"}):
        with pytest.raises(InvalidInput, match="the signature of the head is wrong"):
            ledger.check_head(wrong)


def test_keys_are_not_overwritten_and_heads_are_recognised(tmp_path, signed, budget_file):
    with pytest.raises(InvalidInput, match="not overwritten"):
        ledger.make_key(tmp_path / "key.pem")
    file = tmp_path / "head.json"
    file.write_text(json.dumps(signed[1]))
    assert ledger.read_head(file) == signed[1]
    for text in ("", "[]", "{}", '{"format": "discreet-ledger-head"}', "[" * 100_000):
        file.write_text(text)
        with pytest.raises(InvalidInput, match="no head of a ledger"):
            ledger.read_head(file)
    with pytest.raises(InvalidInput, match="cannot be read"):
        ledger.read_head(tmp_path / "absent.json")
    (tmp_path / "no.pem").write_text("no key")
    with ledger.opened(budget_file) as connection, pytest.raises(InvalidInput, match="no signing key"):
        ledger.sign_head(connection, tmp_path / "no.pem")
