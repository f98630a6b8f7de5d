"""What the browser computes anew, run by Node: sound chains of heads and entries, and each way to break them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import discreet.study.dashboard
from discreet.ledger.chain import canonical, chained, first_hash
from discreet.ledger.keys import make_key
from discreet.study.service.chain_heads import Signer, hashed

STATIC = Path(discreet.study.dashboard.__file__).parent / "static"
SCRIPT = """
import { readFileSync } from "node:fs";
import { Entries, Heads, canonical } from "./chain.mjs";
const { study, key, chains, first, ledgers, texts } = JSON.parse(readFileSync("cases.json", "utf8"));
const told = { heads: {}, ledgers: {}, texts: texts.map(canonical) };
for (const [name, heads] of Object.entries(chains)) {
  const chain = new Heads(study, heads[0].key.length < 64 ? heads[0].key : key);
  const sound = [];
  for (const head of heads) sound.push(await chain.follow(head));
  told.heads[name] = [sound, chain.problem, chain.signatures];
}
for (const [name, entries] of Object.entries(ledgers)) {
  const chain = new Entries(first);
  const sound = [];
  for (const entry of entries) sound.push(await chain.follow(entry));
  told.ledgers[name] = [sound, chain.problem];
}
console.log(JSON.stringify(told));
"""
TEXTS = ["plain", 'quoted "x"\\', "é\u05e9\U0001f30a\u2028\x7f\x1f", {"b": [1, -2, "é"], "a": {}}, []]


def heads_of(folder: Path) -> tuple[str, str, dict[str, list[dict]]]:
    """Three sound heads, and chains with one thing wrong; all are signed by the right key unless they say otherwise."""
    public, other = make_key(folder / "key.pem"), make_key(folder / "other.pem")
    signer, stranger = Signer(folder / "key.pem", public), Signer(folder / "other.pem", other)
    study, sound = "sha256:study", list[dict]()
    for number in (1, 2, 3):
        previous = hashed(sound[-1]) if sound else ""
        sound.append(signer.sign(study, number, {"kind": "x", "é": number}, previous, ""))
    one, two, three = sound
    return study, public, {
        "sound": sound,
        "another head before": [one, two, signer.sign(study, 3, {}, hashed(one), "")],
        "a head is missing": [one, three],
        "another study": [one, signer.sign("sha256:other", 2, {}, hashed(one), "")],
        "changed after it was signed": [one, two, {**three, "policy": two["policy"]}],
        "signed by somebody else": [one, two, {**stranger.sign(study, 3, {}, hashed(two), ""), "key": public}],
        "a key that is none": [{**one, "key": "00"}],
        "signed with another key": [one, two, stranger.sign(study, 3, {}, hashed(two), "")],
    }  # fmt: skip


def ledgers_of(name: str) -> dict[str, list[dict]]:
    """Three sound entries, and ledgers with one thing wrong."""
    hash_, sound = first_hash(name), []
    for number in range(3):
        entry = chained(hash_, {"dataset": name, "number": number, "what": f"é {number}"})
        sound.append({"number": number, "body": entry.body, "hash": entry.hash})
        hash_ = entry.hash
    changed = [sound[0], {**sound[1], "body": sound[1]["body"].replace("1", "7")}, sound[2]]
    return {"sound": sound, "changed": changed, "missing": [sound[0], sound[2]], "cut off at the start": sound[1:]}


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed: on Debian  apt-get install -y nodejs")
def test_sound_chains_pass_and_broken_ones_are_named(tmp_path):
    study, key, chains = heads_of(tmp_path)
    cases = {"study": study, "key": key, "chains": chains, "first": first_hash("small"), "texts": TEXTS}
    (tmp_path / "cases.json").write_text(json.dumps({**cases, "ledgers": ledgers_of("small")}))
    shutil.copyfile(STATIC / "chain.js", tmp_path / "chain.mjs")
    (tmp_path / "check.mjs").write_text(SCRIPT)
    done = subprocess.run(["node", "check.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["texts"] == [canonical(each) for each in TEXTS]
    assert told["heads"].pop("sound") == [[True, True, True], "", True]
    assert {name: (found[0][-1], bool(found[1])) for name, found in told["heads"].items()} == {
        name: (False, True) for name in chains if name != "sound"
    }
    assert "missing" in told["heads"]["a head is missing"][1]
    assert "not signed" in told["heads"]["signed by somebody else"][1]
    assert told["ledgers"]["sound"] == [[True, True, True], ""]
    assert told["ledgers"]["changed"] == [[True, False, True], "entry 1 does not follow from the one before it"]
    assert told["ledgers"]["missing"] == [[True, False], "entry 2 does not follow from the one before it"]
    assert told["ledgers"]["cut off at the start"][0][0] is False
