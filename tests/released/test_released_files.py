"""Files of earlier releases, and what becomes of each today: one row a file.

A row says how a file is read and what comes of it; ``refused: `` begins the sentence of a refusal. Whoever changes a
format changes rows. ``make.py`` wrote the files; vectors of clients stand in ``tests/client``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tests.released.make import TABLE
from tests.study.service.small_studies import coordinator, run_to_the_end

import discreet
from discreet import ledger
from discreet.base.errors import DiscreetError
from discreet.base.policies import Mixture, Policy, StochasticPolicy
from discreet.cli import main
from discreet.simulation.result import load_result
from discreet.study.service.study_files import places_of

HERE = Path(__file__).parent


def policy(file: Path) -> str:
    """A policy, saved again as it was."""
    found = discreet.load_policy(file)
    found.save(again := file.with_name(f"again{file.suffix}"))
    assert discreet.load_policy(again) == found
    match found:
        case Policy(actions=actions):
            return f"actions {actions.tolist()}"
        case StochasticPolicy(probabilities=probabilities):
            return f"probabilities {probabilities.tolist()}"
        case Mixture(components=components, weights=weights):
            return f"{len(components)} policies, weights {weights.tolist()}"


def promise(file: Path) -> str:
    """A certificate, or whatever holds one."""
    verdict = discreet.verify(file)
    return f"{verdict.answer}: epsilon {float(verdict.epsilon):.4g}"


def pair(file: Path) -> str:
    """A receipt and the policy that it belongs to."""
    return discreet.verify(file, policy=file.with_name(file.name.replace("-receipt", ""))).answer


def command(*arguments: str) -> str:
    """What a command says that went well."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return f"exit code {ended.value.code or 0}"


def split(file: Path) -> str:
    """Who was held out: a policy is judged by them."""
    discreet.offline.load_split(file.name)
    data = ["--data", "table.csv", *TABLE]
    return command("evaluate", "judged.json", *data, "--epsilon", "1", "--split", file.name)


def paid(file: Path) -> str:
    """A ledger, carried over, and a release that it stores, which is closed: the same request pays again, once."""
    command("ledger", "upgrade", file.name)
    for _ in range(2):
        charged = ["--ledger", file.name, "--dataset", "people"]
        command("train", "table.csv", *TABLE, "--epsilon", "1", *charged, "--out", "again.json")
    with ledger.opened(file) as books:
        sound, left = ledger.verify(books).sound, ledger.balance(books, "people")
    return f"sound {sound}, entries {left.head.number}"


def result(file: Path) -> str:
    """A simulation that was saved."""
    found = load_result(file.parent.relative_to(Path.cwd()))
    return f"{found.guarantee['model']}, regret {found.regret.sum():.6g}"


def study(file: Path) -> str:
    """A study with half of its people: the other half takes part, and it ends."""
    shutil.unpack_archive(file, file.with_suffix(""))
    at = coordinator(file.with_suffix("") / "small.toml")
    sent = run_to_the_end(at, np.random.default_rng(1))
    return _ended(at.published.ended, sent, file.with_suffix("") / "small.toml")


def _ended(ended: object, sent: int, file: Path) -> str:
    with ledger.opened(places_of(file).database) as books:
        sound = ledger.verify(books).sound
    return f"ended {ended}, sent {sent}, sound {sound}"


class Row(NamedTuple):
    """A file, how it is read, and what comes of it."""

    file: str
    read: Callable[[Path], str]
    happens: str


_STUDY = (
    "format of a study is 2, got 1: it was written for another release, such as 0.2; end it with that one, or write a "
    "new one with  discreet study new"
)
_RECEIPT = (
    "refused: this cannot be read as a certificate: receipts of version 2 are read, and this one is of another: "
    "release again with this version of discreet, or check it with the one that wrote it"
)
ROWS = (
    Row(
        "0.2.0/policy.json",
        policy,
        "probabilities [[[0.0, 1.0], [1.0, 0.0]], [[0.5284974093264249, 0.47150259067357514], [0.0, 1.0]]]",
    ),
    Row("0.2.0/policy.npz", policy, "actions [[1, 0], [0, 1]]"),
    Row("0.2.0/stochastic.json", policy, "probabilities [[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.0, 1.0]]]"),
    Row("0.2.0/mixture.json", policy, "2 policies, weights [0.25, 0.75]"),
    Row(
        "0.2.0/certificate.json",
        promise,
        "refused: this cannot be read as a certificate: certificates of version 2 are known, and this says another: "
        "make it again",
    ),
    Row("0.2.0/receipt.json", promise, _RECEIPT),
    Row(
        "0.2.0/receipt.html",
        promise,
        "refused: 'receipt.html' is a page to be read: verify the receipt in JSON, which train writes as "
        "--receipt receipt.json",
    ),
    Row("0.2.0/judged-receipt.json", promise, _RECEIPT),
    Row("0.2.0/judged-receipt.json", pair, _RECEIPT),
    Row("0.2.0/evaluation.json", promise, _RECEIPT),
    Row(
        "0.2.0/split.json",
        split,
        "refused: 'split.json' is a split of version 1, and those of version 2 keep what was asked: train "
        "again with --holdout and another file for --split",
    ),
    Row("0.2.0/ledger.db", paid, "sound True, entries 3"),
    Row(
        "0.2.0/result/result.json",
        result,
        "refused: 'result/result.json' was saved by another release, such as 0.2, and this one reads version 1 of "
        "results: simulate again with --save",
    ),
    *(Row(f"0.2.0/{model}-study.zip", study, f"refused: {_STUDY}") for model in ("local", "central", "shuffle")),
)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.file} {row.read.__name__}")
def test_what_becomes_of_a_released_file(tmp_path, monkeypatch, row):
    release, _, name = row.file.partition("/")
    file = shutil.copytree(HERE / release, tmp_path / "copy") / name
    monkeypatch.chdir(tmp_path / "copy")
    try:
        found = row.read(file)
    except DiscreetError as error:
        found = f"refused: {error}".replace(f"{file.parent}/", "")
    assert found == row.happens


def test_every_released_file_has_a_row():
    beside = {"table.csv", "judged.json"}  # read together with others
    files = {str(path.relative_to(HERE)) for path in HERE.glob("*/**/*") if path.is_file() and path.suffix != ".pyc"}
    assert {file for file in files if Path(file).name not in beside} == {row.file for row in ROWS}
