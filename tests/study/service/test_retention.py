"""What a stolen database still says about reports that were counted: that they were there, not what they said.

Every report that a device can send is tried: its bytes as they are kept, and its plain hashes, in all files of the
study. While reports wait they are found, so the search works.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from pathlib import Path

import pytest
from tests.study.service.small_studies import ASKED, SAMPLED, TOKENS, coordinator, declared, report

from discreet.cli import main
from discreet.ledger.chain import canonical
from discreet.study.service import rounds
from discreet.study.service.purging import purge
from discreet.study.service.reports import token_digest
from discreet.study.service.study_files import places_of
from discreet.study.service.wire_messages import Refused


def possible(at) -> list[bytes]:
    """Everything that some report of this study is kept as."""
    kind, laws = at.mechanism.report_kind(), at.policy()["laws"]
    if kind["kind"] == "asked-first-visit":
        rows = at.declared.shape.states * at.declared.shape.actions
        sent = [{"question": q, "answer": k} for q in range(2 * rows) for k in range(laws[q % 2]["items"])]
    else:
        sent = [{"steps": [h], "items": [i]} for h, law in enumerate(laws) for i in range(law["items"])]
    return [canonical(each).encode() for each in sent]


def found(folder: Path, contents: list[bytes]) -> set[bytes]:
    """Which of these, or of their hashes, lie in any file of the study."""
    files = b"\n".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    hashes = {each: hashlib.sha256(each) for each in contents}
    return {
        each for each in contents
        if any(look in files for look in (each, hashes[each].digest(), hashes[each].hexdigest().encode()))
    }  # fmt: skip


@pytest.mark.parametrize("recipe", [SAMPLED, ASKED])
def test_counted_reports_cannot_be_read_back(tmp_path, rng, recipe):
    at = coordinator(declared(tmp_path, recipe))
    tried = possible(at)
    while at.published.ended is None:
        sent = [report(at, rng) for _ in range(at.published.row.wanted)]
        kept = {canonical({k: v for k, v in each["report"].items() if k != "kind"}).encode() for each in sent}
        for each in sent:
            at.accept(each)
        assert kept <= found(tmp_path, tried)
        assert at.close_if_full()
        assert not found(tmp_path, tried)
        for each in sent:  # they come again, and are still known by their ids
            assert at.accept(each).round == each["round"]
    at.stop()
    assert not found(tmp_path, tried)


def test_a_counted_id_is_not_counted_again_whatever_comes_under_it(tmp_path, rng):
    at = coordinator(declared(tmp_path, SAMPLED, TOKENS))
    tokens = [secrets.token_hex(8) for _ in range(12)]
    link = at.database.connect()
    with link.writing():
        rounds.add_tokens(link, [token_digest(token) for token in tokens])
    sent = [report(at, rng) for _ in range(at.published.row.wanted)]
    for each, token in zip(sent, tokens, strict=False):
        at.accept(json.dumps(each).encode(), token)
    assert at.close_if_full()
    other = sent[0] | {"report": sent[0]["report"] | {"items": [1 - sent[0]["report"]["items"][0] % 2]}}
    assert at.accept(json.dumps(other).encode(), tokens[0]).round == 1
    assert rounds.waiting(link) == 0
    with pytest.raises(Refused, match="another report has this id"):
        at.accept(json.dumps(report(at, rng) | {"id": sent[0]["id"]}).encode(), tokens[0])  # of another round
    with pytest.raises(Refused, match="not one of the study's"):
        at.accept(json.dumps(sent[0]).encode(), tokens[1])
    link.close()
    at.stop()


def test_a_purge_erases_what_a_closing_could_not_and_forgets_who_sent_what(tmp_path, rng, monkeypatch, capsys):
    """A process that dies after it has published leaves contents behind, and so does whoever reads on."""
    at = coordinator(file := declared(tmp_path, SAMPLED, TOKENS))
    tokens, tried = [secrets.token_hex(8) for _ in range(12)], possible(at)
    link = at.database.connect()
    with link.writing():
        rounds.add_tokens(link, [token_digest(token) for token in tokens])
    link.close()
    monkeypatch.setattr(at, "_erase", lambda: None)
    sent = []
    for token in tokens[:3]:
        sent.append((report(at, rng), token))
        at.accept(json.dumps(sent[-1][0]).encode(), token)
    at._close(None)
    assert found(tmp_path, tried)
    done = purge(at.declared, at.database)
    assert (done.erased, done.unlinked) == (at.published.row.served, 0)
    assert not found(tmp_path, tried)
    monkeypatch.undo()
    at.end()
    at.stop()
    stored = [token_digest(token).encode() for token in tokens[:3]]
    assert who(tmp_path) == {token_digest(token) for token in tokens[:3]}
    with pytest.raises(SystemExit) as stop:
        main(["study", "purge", str(file)])
    assert not stop.value.code
    assert "forgotten for 3 reports" in capsys.readouterr().out
    assert who(tmp_path) == set()
    assert not found(tmp_path, tried)
    files = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert all(files.count(digest) <= 2 for digest in stored)  # in the list of the invited and its index
    again = coordinator(file)
    for body, token in sent:
        assert again.accept(json.dumps(body).encode(), token).round == body["round"]  # known by its id
    with pytest.raises(Refused, match="not one of the study's"):
        again.accept(json.dumps(sent[0][0]).encode(), "nobody's")
    again.stop()


def who(folder: Path) -> set[str]:
    """Whose tokens stand with a report."""
    with sqlite3.connect(places_of(folder / "small.toml").database) as raw:
        return {token for (token,) in raw.execute("SELECT token FROM reports WHERE token IS NOT NULL")}


def test_a_purge_of_another_study_or_of_none_is_refused(tmp_path, capsys):
    file = declared(tmp_path, SAMPLED)
    for say in ("is not there", "does not hold this study"):
        with pytest.raises(SystemExit) as stop:
            main(["study", "purge", str(file)])
        assert stop.value.code == 2
        assert say in " ".join(capsys.readouterr().err.split())
        if say == "is not there":
            coordinator(file).stop()
        file.write_text(file.read_text().replace("number = 12", "number = 13"))
