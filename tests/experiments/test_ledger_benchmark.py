"""The benchmark of ledgers: it charges and verifies as many entries as it was told; how fast is for people to read."""

from __future__ import annotations

import re

import pytest

from experiments import ledger


@pytest.mark.parametrize("entries", [2000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_all_entries_are_charged_and_verified(entries, capsys, monkeypatch):
    monkeypatch.setattr(ledger, "ALONE", 2)
    ledger.main(entries)
    counted = re.findall(
        r"^(charge in bulk|verify|charge alone) +([\d,]+) entries", capsys.readouterr().out, re.MULTILINE
    )
    assert counted == [("charge in bulk", f"{entries:,}"), ("verify", f"{entries:,}"), ("charge alone", "2")]
