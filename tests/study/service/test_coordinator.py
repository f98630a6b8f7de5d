"""One study at work in process: exactly once, spend before release, signed heads, sealed records, refusals."""

from __future__ import annotations

import json
import sqlite3

import pytest
from tests.study.service.small_studies import (
    CENTRAL,
    MATRIX,
    SAMPLED,
    TOKENS,
    coordinator,
    declared,
    report,
    run_to_the_end,
)
from tests.study.service.soundness import STORED

from discreet.base.errors import InvalidInput, Unsupported
from discreet.client.reports import read_round
from discreet.client.study import read_study as read_for_device
from discreet.ledger import balance, opened, verify
from discreet.study.service import rounds
from discreet.study.service.chain_heads import check_head, hashed
from discreet.study.service.reports import token_digest
from discreet.study.service.study_files import new_tokens, places_of
from discreet.study.service.wire_messages import Accepted, Refused


def refused(code: str):
    """The refusal with this code."""

    class Expected:
        def __enter__(self):
            self._raises = pytest.raises(Refused)
            self.info = self._raises.__enter__()
            return self.info

        def __exit__(self, *error):
            done = self._raises.__exit__(*error)
            assert self.info.value.code == code, self.info.value
            return done

    return Expected()


def counted(at) -> list[tuple]:
    with at.reading() as link:
        return link.rows(f"{STORED} ORDER BY r.id")


def test_a_study_runs_to_its_end_and_every_report_is_counted_once(at_work, rng):
    assert run_to_the_end(at_work, rng) == at_work.declared.total
    rows = counted(at_work)
    assert len(rows) == at_work.declared.total
    assert all(row[2] is not None and row[3] is None for row in rows)
    with refused("ended"):
        at_work.policy()
    assert at_work.published.row.served == at_work.declared.total


def test_the_whole_study_is_charged_when_it_opens_and_releases_cost_nothing_more(at_work, rng):
    places = at_work._places
    with opened(places.database) as books:
        before = balance(books, "small")
    run_to_the_end(at_work, rng)
    with opened(places.database) as books:
        after, report_of_all = balance(books, "small"), verify(books)
        entries = books.execute("SELECT body FROM ledger_entries ORDER BY number").fetchall()
    assert before.spent == after.spent
    assert before.spent.loss > 0
    assert report_of_all.sound
    kinds = [json.loads(body)["kind"] for (body,) in entries]
    assert kinds == ["open", "rounds", *["spend"] * (len(kinds) - 2)]
    assert len(kinds) - 2 == at_work.published.row.number - 1  # one entry for each round that has closed


def test_the_same_report_again_is_answered_as_before_and_counted_once(at_work, rng):
    body = report(at_work, rng)
    assert at_work.accept(body) == at_work.accept(body) == Accepted(1)
    other = report(at_work, rng)
    while other["report"] == body["report"]:
        other = report(at_work, rng)
    other["id"] = body["id"]
    with refused("conflict"):
        at_work.accept(other)
    assert at_work.waiting()[0] == 1


def test_a_retry_after_the_round_has_closed_is_still_answered(at_work, rng):
    first = report(at_work, rng)
    at_work.accept(first)
    while at_work.published.row.number == 1:
        at_work.accept(report(at_work, rng))
        at_work.close_if_full()
    assert at_work.accept(first) == Accepted(1)
    assert sum(row[0] == first["id"] for row in counted(at_work)) == 1


def test_late_reports_count_in_the_local_model_and_are_refused_in_the_central_one(at_work, rng):
    late = report(at_work, rng)
    while at_work.published.row.number == 1:
        at_work.accept(report(at_work, rng))
        at_work.close_if_full()
    if at_work.declared.sealed:
        with refused("closed"):
            at_work.accept(late)
    else:
        assert at_work.accept(late) == Accepted(1)


def test_a_report_that_was_checked_before_its_round_closed_and_is_stored_after(at_work, rng):
    """The lock decides: sealed to a key that goes, it must not wait for a closing that cannot open it."""
    slow = at_work.check(json.dumps(report(at_work, rng)).encode())
    while at_work.published.row.number == 1:
        at_work.accept(report(at_work, rng))
        at_work.close_if_full()
    (answer,) = at_work.accept_all([slow])
    assert answer.code == "closed" if at_work.declared.sealed else answer == Accepted(1)


def test_nobody_is_let_in_after_the_last_one(tmp_path, rng):
    at = coordinator(declared(tmp_path, number=3))
    bodies = [report(at, rng) for _ in range(5)]
    answers = at.accept_all([at.check(json.dumps(body).encode()) for body in bodies])
    assert [isinstance(answer, Accepted) for answer in answers] == [True] * 3 + [False] * 2
    assert [answer.code for answer in answers[3:]] == ["ended"] * 2
    while at.close_if_full():
        pass
    assert at.published.ended is not None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"study": "sha256:" + 64 * "0"}, "unknown"),
        ({"round": 7}, "unknown"),
        ({"round": -1}, "unknown"),
        ({"round": 1 << 70}, "unknown"),
        ({"round": 0}, None),
        ({"id": "0" * 31}, "malformed"),
        ({"id": "G" * 32}, "malformed"),
        ({"more": 1}, "malformed"),
        ({"report": {"kind": "items", "steps": [0], "items": [99]}}, "malformed"),
        ({"report": {"kind": "items", "steps": [9], "items": [0]}}, "malformed"),
        ({"report": {"kind": "items", "steps": [0, 1], "items": [0, 0]}}, "malformed"),
        ({"report": {"kind": "items", "steps": [0], "items": []}}, "malformed"),
        ({"report": {"kind": "items", "steps": [0.5], "items": [0]}}, "malformed"),
        ({"report": {"kind": "bits", "steps": [0], "bits": ["0101"]}}, "malformed"),
        ({"report": {"kind": "record", "steps": [[0, 0, 2], [0, 0, 0]]}}, "malformed"),
        ({"report": {"kind": "record", "steps": [[0, 0, 0]]}}, "malformed"),
        ({"report": {"kind": "record", "steps": [[0, 0, 0], [-1, -1, -1]]}}, "malformed"),
        ({"report": {"kind": "record", "steps": [[1, 0, 0], [1, 0, 0]]}}, "malformed"),
        ({"report": {"kind": "record", "steps": [[0, 5, 0], [1, 0, 0]]}}, "malformed"),
        ({"report": {"kind": "nothing"}}, "malformed"),
        ({"report": None}, "malformed"),
    ],
)
def test_bad_reports_are_refused_and_counted_nowhere(at_work, rng, change, code):
    with pytest.raises(Refused) as refusal:
        at_work.accept({**report(at_work, rng), **change})
    assert code is None or refusal.value.code == code
    assert counted(at_work) == []


def test_reasons_quote_nothing_that_was_sent(at_work):
    for body in (b"secret!", b'{"study": "secret"}', b'{"secret": 1}', b'{"study": 1, "round": "secret"}', b"\xff\xfe",
                 b"[" * 100_000, b'{"study":"s","round":1,"id":"x","report":{"kind":"secret"}}'):  # fmt: skip
        with refused("malformed") as refusal:
            at_work.accept(body)
        assert "secret" not in str(refusal.value)


def test_heads_are_signed_chained_and_name_policy_and_release(at_work, rng):
    run_to_the_end(at_work, rng)
    heads = at_work.heads()
    assert [head["round"] for head in heads] == list(range(1, len(heads) + 1))
    for head in heads:
        check_head(head, at_work.declared.signing_key)
    assert [head["previous"] for head in heads] == ["", *(hashed(head) for head in heads[:-1])]
    with at_work.reading() as link:
        for row in rounds.rounds_from(link, 1, 100):
            assert row.signed["policy"] == hashed(json.loads(row.policy))
        released = [
            f"sha256:{json.loads(b)['release']}"
            for (b,) in link.rows("SELECT body FROM ledger_entries ORDER BY number")
            if json.loads(b).get("release")
        ]
    assert [head["released"] for head in heads] == ["", *released]
    forged = {**heads[0], "policy": hashed({"another": "policy"})}  # the last policy may be the first one again
    with pytest.raises(InvalidInput, match="signature"):
        check_head(forged, at_work.declared.signing_key)


def test_records_lie_sealed_in_the_database_and_keys_go_with_their_rounds(tmp_path, rng):
    file = declared(tmp_path, CENTRAL)
    at = coordinator(file)
    plain = [report(at, rng) for _ in range(2)]
    packed = [at.format.pack(at_report(body), at._rules_of(1)) for body in plain]
    for body in plain:
        at.accept(body)
    stored = [bytes(row[3]) for row in counted(at)]
    assert all(kept not in content for kept in packed for content in stored)
    assert len({len(content) for content in stored}) == 1
    assert [path.name for path in places_of(file).keys.iterdir()] == ["round-1.key"]
    while at.published.row.number == 1:
        at.accept(report(at, rng))
        at.close_if_full()
    assert [path.name for path in places_of(file).keys.iterdir()] == ["round-2.key"]


def at_report(body):
    """The report of a message, decoded."""
    from discreet.study.service.wire_messages import decode

    return decode(json.dumps(body).encode()).report


def test_a_fingerprint_of_a_record_needs_the_key(tmp_path, rng):
    """Whoever has the database alone cannot find a record by trying all of them."""
    import hashlib
    import hmac

    at = coordinator(declared(tmp_path, CENTRAL))
    body = report(at, rng)
    at.accept(body)
    content = at.format.pack(at_report(body), at._rules_of(1))
    with at.reading() as link:
        ((fingerprint,),) = link.rows("SELECT fingerprint FROM contents_1")
        ((public,),) = link.rows("SELECT public_key FROM rounds")
    guesses = [hashlib.sha256(content).hexdigest(), hmac.new(bytes(public), content, "sha256").hexdigest()]
    assert fingerprint not in guesses
    assert fingerprint == at.published.key.fingerprint(content)


def test_secret_state_is_sealed_to_the_next_key(tmp_path, rng):
    at = coordinator(declared(tmp_path, MATRIX))
    while at.published.row.number < 3:
        at.accept(report(at, rng))
        at.close_if_full()
    with at.reading() as link:
        states = link.rows("SELECT round, sealed FROM states")
    assert [number for number, _ in states] == [3]
    assert states[0][1] is not None
    again = coordinator(tmp_path / "small.toml")  # another process: it goes on from the sealed state
    run_to_the_end(again, rng)
    assert again.published.ended


def test_tokens_are_checked_counted_and_used_once_in_a_round(tmp_path, rng):
    at = coordinator(declared(tmp_path, TOKENS, {"reports_per_user = 1": "reports_per_user = 2"}))
    mine, hers = new_tokens(2)
    with at._link as link, link.writing():
        rounds.add_tokens(link, [token_digest(mine), token_digest(hers)])
    with refused("token"):
        at.accept(report(at, rng))
    with refused("token"):
        at.accept(report(at, rng), token="stranger")
    first = report(at, rng)
    assert at.accept(first, token=mine) == at.accept(first, token=mine)
    with refused("token"):
        at.accept(first, token=hers)  # a replay with another token
    with refused("token"):
        at.accept(report(at, rng), token=mine)  # again in the same round
    at.close_if_full()
    at.accept(report(at, rng), token=mine)
    at.close_if_full()
    with refused("token"):
        at.accept(report(at, rng), token=mine)  # used up
    at.accept(report(at, rng), token=hers)
    with at.reading() as link:
        stored = str(link.rows("SELECT digest, used FROM tokens"))
    assert mine not in stored
    assert len(counted(at)) == 3


def test_an_early_end_counts_what_has_arrived(at_work, rng):
    one, other = (report(at_work, rng) for _ in range(2))
    at_work.accept(one)
    at_work.end()
    assert at_work.published.ended == "ended by the operator"
    assert [row[2] for row in counted(at_work)] == [1]
    assert at_work.published.row.served == 1
    with refused("ended"):
        at_work.accept(other)


def test_another_study_is_refused_by_a_database_that_has_one(tmp_path):
    file = declared(tmp_path)
    coordinator(file).stop()
    file.write_text(file.read_text().replace("epsilon = 4.0", "epsilon = 3.0"))
    with pytest.raises(InvalidInput, match="another study"):
        coordinator(file)


def test_a_wrong_signing_key_is_refused_before_anything_is_opened(tmp_path):
    from discreet.ledger.keys import make_key

    file = declared(tmp_path)
    places_of(file).signing.unlink()
    make_key(places_of(file).signing)
    with pytest.raises(InvalidInput, match="not the key"):
        coordinator(file)
    assert not places_of(file).database.exists()


def test_a_database_of_a_later_release_is_refused(tmp_path):
    file = declared(tmp_path)
    coordinator(file).stop()
    raw = sqlite3.connect(places_of(file).database)
    raw.execute("UPDATE study_schema SET version = 99")
    raw.commit()
    raw.close()
    with pytest.raises(InvalidInput, match="later release"):
        coordinator(file)


def test_several_reports_compose_to_the_promise(tmp_path):
    at = coordinator(declared(tmp_path, {"reports_per_user = 1": "reports_per_user = 2"}))
    assert at.mechanism.part.epsilon <= 2.0
    assert 3.99 < at.mechanism.promise()["epsilon"] <= 4.0 + 1e-12
    assert at.declared.total == 24


def test_the_promise_to_participants_states_the_factor_and_calls_nothing_almost_the_same(tmp_path):
    words = coordinator(declared(tmp_path)).mechanism.promise()["words"]
    assert words == (
        "No outcome of everything that you send is more than 54.6 times as likely with your record as it would be with "
        "any other in its place."
    )


def test_stochastic_policies_are_reported_with_the_action_that_the_device_has_drawn(tmp_path, rng):
    at = coordinator(declared(tmp_path, SAMPLED, {'name = "ucbvi"': 'name = "ucbpo"'}))
    answer = at.policy()
    assert answer["policy"]["kind"] == "stochastic"
    device = read_for_device(at.study(), at.declared.hash)
    assert [items.size for items in read_round(answer, device).items] == [law["items"] for law in answer["laws"]]
    assert answer["laws"][1]["items"] == 2 * 2 * 2  # states, actions, reward bits at the last step
    run_to_the_end(at, rng)
    assert at.published.row.served == at.declared.total


def test_recipes_without_a_randomiser_for_devices_are_refused(tmp_path):
    file = declared(tmp_path, {'recipe = "auto"': 'recipe = "local/joint-histogram-laplace"'})
    with pytest.raises(Unsupported, match="local/sampled-step"):
        coordinator(file)
