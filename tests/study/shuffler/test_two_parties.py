"""What each party takes, refuses, forgets and never sees.

The permutation test looks at where the first of 24 orders of four messages goes in 4,800 batches: a chi-squared test at
level 1e-9, which the twin (a shuffle that leaves out its last swap) must fail.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import secrets
import sqlite3
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from tests.study.shuffler.two_parties import Parties, declared, rows

from discreet.base.errors import InvalidInput, Unsupported
from discreet.client import Device, Unreachable
from discreet.client import Refused as ClientRefused
from discreet.client.sealing import sealed
from discreet.client.store import MemoryStore
from discreet.client.transport import Service as Seen
from discreet.ledger.keys import private_key
from discreet.study.service.batches import counted, packed, signed_text
from discreet.study.service.chain_heads import Behind, hashed
from discreet.study.service.reports import token_digest
from discreet.study.service.restoring import restore
from discreet.study.service.rounds import add_tokens
from discreet.study.service.sealing import RoundKey
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import new_tokens, places_of, shuffler_folder, shuffler_places_of
from discreet.study.service.wire_messages import BatchAccepted, Refused
from discreet.study.shuffler.shuffler import shuffle_securely

ONE = {'recipe = "shuffle/first-visit-tables-randomised-response"': 'recipe = "shuffle/sampled-item"'}
TOKENS = {"tokens = false": "tokens = true"}
LEVEL = 1e-9


@pytest.fixture
def parties(tmp_path):
    found = Parties(declared(tmp_path, ONE))
    yield found
    found.stop()


def shuffler_files(parties):
    return shuffler_places_of(shuffler_folder(parties.file) / parties.file.name)


def filled(parties, seed: int = 1) -> bytes:
    """A round whose people have all reported; gives the batch that would leave."""
    chance = random.Random(seed)
    for _ in range(4):
        assert parties.person(chance) is None
    assert parties.shuffler.freeze_if_full()
    ((body,),) = rows(shuffler_files(parties).database, "SELECT body FROM batches WHERE how IS NULL")
    return body


def signed_again(parties, batch: dict) -> bytes:
    key = private_key(shuffler_files(parties).signing)
    return json.dumps(batch | {"signature": key.sign(signed_text(batch)).hex()}).encode()


def refused(work) -> str:
    with pytest.raises(Refused) as found:
        work()
    return found.value.code


# The coordinator


def test_a_batch_is_counted_once_and_acknowledged_again(parties):
    body = filled(parties)
    for _ in range(2):
        accepted = parties.coordinator.accept_batch(body)
        assert accepted == BatchAccepted(json.loads(body)["batch"])
    assert parties.coordinator.close_if_full()
    assert parties.coordinator.accept_batch(body) == accepted
    assert not parties.coordinator.close_if_full()
    assert parties.coordinator.published.row.served == 4


def test_other_senders_sizes_rounds_and_tampered_batches_are_refused(parties, tmp_path):
    at, batch = parties.coordinator, json.loads(filled(parties))
    accept = lambda changes: refused(lambda: at.accept_batch(signed_again(parties, batch | changes)))  # noqa: E731
    other = "sha256:" + 64 * "0"
    assert accept({"study": other}) == "unknown"
    assert accept({"round": 2}) == "unknown"
    assert accept({"policy": other}) == "conflict"
    assert accept({"users": 3}) == "malformed"
    assert accept({"messages": batch["messages"][1:]}) == "malformed"
    assert accept({"messages": [batch["messages"][0] + "A", *batch["messages"][1:]]}) == "malformed"
    assert accept({"batch": "x"}) == "malformed"
    assert accept({"key": 64 * "0"}) == "operator"
    tampered = batch | {"messages": batch["messages"][::-1]}
    assert refused(lambda: at.accept_batch(json.dumps(tampered).encode())) == "operator"
    assert refused(lambda: at.accept_batch(json.dumps(batch | {"signature": 128 * "0"}).encode())) == "operator"
    assert refused(lambda: at.accept_batch(json.dumps(batch | {"more": 1}).encode())) == "malformed"
    assert rows(places_of(parties.file).database, "SELECT count(*) FROM batches") == [(0,)]
    assert at.accept_batch(json.dumps(batch).encode())
    assert accept({"messages": batch["messages"][::-1]}) == "conflict"
    assert accept({"batch": secrets.token_hex(16)}) == "closed"
    assert at.close_if_full()
    assert accept({"batch": secrets.token_hex(16)}) == "closed"


def test_a_coordinator_that_has_lost_an_acknowledged_batch_is_refused_until_it_is_restored(parties, tmp_path):
    places = places_of(parties.file)
    with sqlite3.connect(places.database) as now, sqlite3.connect(tmp_path / "backup") as backup:
        now.backup(backup)
    filled(parties)
    assert parties.shuffler.send() == 0
    parties.coordinator.stop()
    with sqlite3.connect(tmp_path / "backup") as backup, sqlite3.connect(places.database) as now:
        backup.backup(now)
    with pytest.raises(Behind, match="lacks a report that was acknowledged in round 1"):
        parties.start_coordinator()
    restore(parties.study, Database(places.database), places)
    parties.coordinator = parties.to_coordinator.party = parties.start_coordinator()
    filled(parties, 2)  # in the next round, with other people
    parties.work()
    assert parties.coordinator.published.row.served == 4


def test_a_coordinator_takes_no_report_from_a_device(parties):
    report = {"kind": "items", "steps": [0], "items": [0]}
    body = {"study": parties.study.hash, "round": 1, "id": 32 * "0", "report": report}
    assert refused(lambda: parties.coordinator.accept(body)) == "malformed"


def test_what_cannot_be_read_is_left_out_by_the_stated_rule(parties):
    study, number = parties.study, 1
    key = RoundKey(places_of(parties.file).sealing.read_bytes())
    terms = parties.coordinator.mechanism.terms(_policy(parties), 4)
    good = sealed([0, 0, terms.values - 1], key.public.hex(), study.hash, number)
    outside = sealed([terms.values, 2**32 - 1], key.public.hex(), study.hash, number)
    elsewhere = sealed([0], key.public.hex(), study.hash, number + 1)
    garbage = [secrets.token_urlsafe(52)[:69] + "A"]
    messages = [*good, good[0], *outside, *elsewhere, *garbage]  # one of the good ones twice
    found = counted(packed(messages), key, study.hash, number, terms)
    expected = np.zeros(terms.values)
    expected[[0, -1]] = 2, 1
    assert found.tolist() == expected.tolist()


def _policy(parties):
    from discreet.study.service.study_mechanism import policy_from

    return policy_from(parties.coordinator.policy()["policy"])


def test_the_coordinator_learns_no_sender(tmp_path):
    """Neither token, id nor order of arrival is in its files; its order of messages is not that of arrival."""
    parties = Parties(declared(tmp_path, ONE, TOKENS))
    tokens = new_tokens(4)
    link = parties.shuffler.database.connect()
    with link.writing():
        add_tokens(link, [token_digest(token) for token in tokens])
    link.close()
    chance = random.Random(3)
    for token in tokens:
        assert parties.person(chance, token=token) is None
    arrived = [json.loads(body) for path, body in parties.to_shuffler.sent if path == "/v1/sealed"]
    parties.shuffler.freeze_if_full()
    parties.shuffler.send()
    places = places_of(parties.file)
    with sqlite3.connect(places.database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        content = b"".join(bytes(str(row), "utf-8") for row in connection.iterdump())
        stored = connection.execute("SELECT content FROM batches").fetchone()[0]
    content += places.database.read_bytes()
    for token, report in zip(tokens, arrived, strict=True):
        for secret in (token, token_digest(token), report["id"]):
            assert secret.encode() not in content
            assert bytes.fromhex(secret) not in content if secret == report["id"] else True
    assert stored is not None
    assert sorted(stored[i : i + 52] for i in range(0, len(stored), 52)) == sorted(
        packed(report["messages"]) for report in arrived
    )
    assert not any(path == "/v1/reports" for path, _body in parties.to_coordinator.sent)
    parties.stop()


# The shuffler


def test_a_frozen_batch_leaves_no_trace_of_who_sent_which_message(parties):
    """Who takes the shuffler's files later, and has the batch, cannot put one to the other.

    No file has a report's messages beside its id, and no hash of a report that could be tried with every message.
    """
    filled(parties)
    arrived = [(json.loads(body), body) for _path, body in parties.to_shuffler.sent]
    assert parties.shuffler.send() == 0
    folder = shuffler_files(parties).database.parent
    files = b"".join(file.read_bytes() for file in folder.iterdir())
    for report, body in arrived:
        assert report["id"].encode() in files  # a retry is known by it
        assert packed(report["messages"]) not in files
        assert hashlib.sha256(body).hexdigest().encode() not in files
        assert hashlib.sha256(body).digest() not in files


def test_the_missing_file_of_what_has_left_is_noticed(parties):
    """Without it a restored database could not be told from the latest one."""
    places = shuffler_files(parties)
    parties.shuffler.stop()
    (head,) = places.database.parent.glob("*.head")
    head.unlink()
    with pytest.raises(InvalidInput, match=r"small\.shuffler\.head. is missing"):
        parties.start_shuffler()


def test_a_batch_below_its_size_never_leaves(parties):
    chance = random.Random(2)
    for _ in range(3):
        assert parties.person(chance) is None
    assert not parties.shuffler.freeze_if_full()
    assert parties.shuffler.send() == 0
    assert not [path for path, _body in parties.to_coordinator.sent if path == "/v1/batches"]


def test_the_same_bytes_are_sent_until_they_are_acknowledged(parties):
    body = filled(parties)
    parties.to_coordinator.down = True
    assert parties.shuffler.send() == 1
    parties.to_coordinator.down = False
    parties.shuffler.stop()
    parties.shuffler = parties.to_shuffler.party = parties.start_shuffler()  # another process goes on
    assert parties.shuffler.send() == 0
    assert [sent for path, sent in parties.to_coordinator.sent if path == "/v1/batches"] == [body]
    assert parties.shuffler.send() == 0
    assert rows(shuffler_files(parties).database, "SELECT how, body FROM batches") == [("acknowledged", None)]


@pytest.mark.parametrize("code", ["busy", "rate", "large", "malformed", "unknown", "conflict", "operator"])
def test_a_batch_that_is_refused_for_now_is_sent_again(parties, code):
    """Only a coordinator that is past the round, or the study, has no use for it any more."""
    body = filled(parties)
    take = parties.coordinator.accept_batch

    def refusing(_body):
        raise Refused(code, "not now")

    parties.coordinator.accept_batch = refusing
    assert parties.shuffler.send() == 1
    parties.coordinator.accept_batch = take
    assert parties.shuffler.send() == 0
    assert [sent for path, sent in parties.to_coordinator.sent if path == "/v1/batches"] == 2 * [body]
    assert parties.coordinator.close_if_full()


def test_what_was_sent_for_a_round_that_the_coordinator_gave_up_is_dropped(parties):
    chance = random.Random(7)
    for _ in range(2):
        assert parties.person(chance) is None
    ((_path, first), *_) = parties.to_shuffler.sent
    parties.coordinator.stop()
    restore(parties.study, Database(places_of(parties.file).database), places_of(parties.file))
    parties.coordinator = parties.to_coordinator.party = parties.start_coordinator()
    parties.shuffler.refresh()
    database = shuffler_files(parties).database
    assert rows(database, "SELECT number, dropped IS NULL FROM rounds ORDER BY number") == [(1, 0), (2, 1)]
    assert rows(database, "SELECT count(*) FROM sealed WHERE content IS NOT NULL") == [(0,)]
    assert parties.shuffler.accept(first).round == 1  # it was acknowledged, and is so again
    for _ in range(4):
        assert parties.person(chance) is None
    parties.work()
    assert parties.coordinator.published.row.served == 4


def test_a_full_round_takes_nobody_else_and_a_retry_is_answered_as_before(parties):
    chance = random.Random(1)
    for _ in range(4):
        assert parties.person(chance) is None
    ((_path, first), (_path, second), *_) = parties.to_shuffler.sent
    other = json.loads(first) | {"messages": json.loads(second)["messages"]}
    assert refused(lambda: parties.shuffler.accept(json.dumps(other).encode())) == "conflict"
    assert parties.shuffler.accept(first).round == 1
    assert parties.shuffler.freeze_if_full()
    assert parties.person(chance) == "closed"
    assert parties.shuffler.accept(first).round == 1
    assert rows(shuffler_files(parties).database, "SELECT count(*) FROM sealed WHERE content IS NOT NULL") == [(0,)]


def test_tokens_count_at_the_shuffler(tmp_path):
    parties = Parties(declared(tmp_path, ONE, TOKENS))
    (token,) = new_tokens(1)
    link = parties.shuffler.database.connect()
    with link.writing():
        add_tokens(link, [token_digest(token)])
    link.close()
    assert parties.person(random.Random(1), token="nobody's") == "token"
    assert parties.person(random.Random(1)) == "token"
    assert parties.person(random.Random(1), token=token) is None
    assert parties.person(random.Random(1), token=token) == "token"
    parties.stop()


def test_what_was_shown_another_law_or_head_is_not_mixed_in(parties):
    """A coordinator that tells devices of a larger batch, and so of less noise, gets no report of them."""
    told = parties.coordinator.policy

    def lying():
        message = told()
        laws = parties.coordinator.mechanism.laws(_told(message), 5000)
        return message | {"wanted": 5000, "laws": laws}

    parties.shuffler.refresh()  # the shuffler has seen the truth
    parties.coordinator.policy = lying
    assert parties.person(random.Random(1)) == "conflict"
    parties.coordinator.policy = told
    assert parties.person(random.Random(1)) is None


def _told(message):
    from discreet.study.service.study_mechanism import policy_from

    return policy_from(message["policy"])


def test_what_was_told_to_answer_other_bits_is_not_mixed_in(tmp_path):
    """More bits of a record depend on it if all visits count: the law of first visits would hide too little of them."""
    parties = Parties(declared(tmp_path))
    told = parties.coordinator.study
    assert told()["report"]["first_visits"]
    parties.coordinator.study = lambda: told() | {"report": told()["report"] | {"first_visits": False}}
    assert parties.person(random.Random(6)) == "conflict"
    parties.coordinator.study = told
    assert parties.person(random.Random(6)) is None
    parties.stop()


def test_laws_that_are_not_certified_are_refused_by_the_shuffler_itself(parties):
    told = parties.coordinator.policy
    parties.coordinator.policy = lambda: told() | {"wanted": 3}
    with pytest.raises(InvalidInput, match="other laws than those that are certified"):
        parties.shuffler.refresh()
    for users in (0, 5, 12, 13, 1 << 40, "4", True):  # with the law of such a batch, too: the schedule has none above 4
        laws = parties.coordinator.mechanism.laws(_told(told()), users) if type(users) is int and 0 < users < 99 else []
        parties.coordinator.policy = lambda users=users, laws=laws: (
            told() | {"wanted": users, "laws": laws or told()["laws"]}
        )
        with pytest.raises((InvalidInput, Refused), match=r"or of more than 4|cannot be followed"):
            parties.shuffler.refresh()


def test_two_heads_of_one_round_are_kept_as_evidence(parties):
    parties.shuffler.refresh()
    message = parties.coordinator.policy()
    other = parties.coordinator._signer.sign(parties.study.hash, 1, {"kind": "other"}, "", "")
    parties.coordinator.policy = lambda: message | {"policy": {"kind": "other"}, "head": other}
    with pytest.raises(Refused):  # the policy itself is none
        parties.shuffler.refresh()
    policy = message["policy"] | {"actions": [[1 - a for a in row] for row in message["policy"]["actions"]]}
    other = parties.coordinator._signer.sign(parties.study.hash, 1, policy, "", "")
    laws = parties.coordinator.mechanism.laws(_told({"policy": policy}), message["wanted"])
    parties.coordinator.policy = lambda: message | {"policy": policy, "head": other, "laws": laws}
    with pytest.raises(InvalidInput, match="two heads for one round"):
        parties.shuffler.refresh()
    ((one, two),) = rows(shuffler_files(parties).database, "SELECT one, other FROM evidence")
    assert {hashed(json.loads(one)), hashed(json.loads(two))} == {hashed(message["head"]), hashed(other)}


def test_at_the_end_what_is_left_is_dropped(parties):
    chance = random.Random(4)
    for _ in range(2):
        assert parties.person(chance) is None
    parties.coordinator.end()
    parties.shuffler.refresh()
    database = shuffler_files(parties).database
    assert rows(database, "SELECT count(*) FROM sealed WHERE content IS NOT NULL") == [(0,)]
    assert rows(database, "SELECT dropped FROM rounds") == [("the study has ended",)]
    assert rows(database, "SELECT count(*) FROM ledger_entries WHERE body LIKE '%a batch of%'") == [(0,)]
    ((_path, body), *_) = parties.to_shuffler.sent
    assert parties.shuffler.accept(body).round == 1  # it was acknowledged, and is so again
    fresh = json.loads(body) | {"id": secrets.token_hex(16)}
    assert refused(lambda: parties.shuffler.accept(json.dumps(fresh).encode())) == "ended"


def test_a_database_from_before_the_last_batch_is_refused(parties, tmp_path):
    places = shuffler_files(parties)
    chance = random.Random(5)
    assert parties.person(chance) is None
    with sqlite3.connect(places.database) as now, sqlite3.connect(tmp_path / "backup") as backup:
        now.backup(backup)
    for _ in range(3):
        assert parties.person(chance) is None
    parties.work()
    parties.shuffler.stop()
    with sqlite3.connect(tmp_path / "backup") as backup, sqlite3.connect(places.database) as now:
        backup.backup(now)
    with pytest.raises(InvalidInput, match="restored from a backup"):
        parties.start_shuffler()


def test_another_key_and_another_model_are_refused(tmp_path):
    file = declared(tmp_path, ONE)
    parties = Parties(file)
    parties.shuffler.stop()
    places = shuffler_files(parties)
    places.signing.write_bytes(places_of(file).signing.read_bytes())
    with pytest.raises(InvalidInput, match="is not the key"):
        parties.start_shuffler()
    places_of(file).sealing.write_bytes(bytes(32))
    with pytest.raises(InvalidInput, match="sealing key"):
        parties.start_coordinator()
    parties.coordinator.stop()
    with pytest.raises(Unsupported, match="true bits in clear"):
        Parties(declared(_made(tmp_path / "other"), {"first-visit-tables-randomised-response": "first-visit-binomial"}))


def _made(folder):
    folder.mkdir()
    return folder


# Devices


def test_a_device_sends_to_a_shuffler_that_nobody_can_listen_to_and_to_no_other(parties):
    parties.to_shuffler.private = False
    with pytest.raises(ClientRefused, match="take the https address"):
        parties.person(random.Random(1))
    alone = Device(
        Seen(parties.to_coordinator, parties.study.hash), MemoryStore(), study_hash=parties.study.hash, at_once=True
    )
    alone.begin()
    alone.abandon()
    with pytest.raises(ClientRefused, match="no address of it is known"):
        alone.send()
    assert not [path for path, _body in parties.to_coordinator.sent if path != "/v1/batches"]


def test_a_retry_sends_the_same_bytes(parties):
    device = parties.device()
    device.begin()
    device.abandon()
    parties.to_shuffler.down = True
    with pytest.raises(Unreachable):
        device.send()
    (waiting,) = device._store.waiting(parties.study.hash)
    parties.to_shuffler.down = False
    assert device.send() == 0
    assert [body for _path, body in parties.to_shuffler.sent] == [waiting.body]


# The order of messages


def orders(shuffle, times: int = 4800) -> float:
    """The p-value of even orders of four messages."""
    seen = Counter()
    for _ in range(times):
        messages = [b"a", b"b", b"c", b"d"]
        shuffle(messages)
        seen[tuple(messages)] += 1
    counts = [seen[order] for order in itertools.permutations([b"a", b"b", b"c", b"d"])]
    return float(stats.chisquare(counts).pvalue)


def test_all_orders_of_messages_are_equally_likely():
    assert orders(shuffle_securely) > LEVEL


def test_the_order_is_drawn_by_nothing_that_a_program_can_repeat():
    """The same seed of Python's own numbers gives another order: the same of 40 by chance once in 10^47 runs."""
    found = []
    for _ in range(2):
        random.seed(1)
        messages = [bytes([number]) for number in range(40)]
        shuffle_securely(messages)
        found.append(messages)
    assert found[0] != found[1]


def test_an_order_that_is_not_even_is_found_out():
    coins = random.Random(8)

    def lazy(messages):
        for i in range(len(messages) - 1, 1, -1):  # never touches the last pair
            j = coins.randrange(i + 1)
            messages[i], messages[j] = messages[j], messages[i]

    assert orders(lazy) < LEVEL


def test_the_batch_has_the_order_of_the_shuffle_and_of_nothing_else(tmp_path):
    """With a shuffle that sorts, the bytes that leave are sorted: order of arrival and ids leave no trace."""
    parties = Parties(declared(tmp_path), shuffle=lambda messages: messages.sort())
    batch = json.loads(filled(parties))
    content = [packed([message]) for message in batch["messages"]]
    assert content == sorted(content)
    assert len(content) == 4 * parties.shuffler._view_of(1).messages
    parties.stop()
