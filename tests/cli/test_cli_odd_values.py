"""Odd values on the command line: exit code 2, a sentence on stderr, nothing on stdout, and never a traceback."""

from __future__ import annotations

import pytest

TEXTS = ("nan", "inf", "-inf", "0", "-1", "1e300", "1e-300", "1e-10", "1e400", "abc", "", "true", "1,5", "0x10", "١٢x")
NUMBERS = ("--epsilon", "--delta", "--rho")
COMMANDS = {
    "simulate": ("simulate", "--privacy", "central", "--episodes", "20", "--horizon", "2"),
    "calibrate": ("calibrate", "--privacy", "local", "--episodes", "20", "--horizon", "2"),
    "audit": ("audit", "--privacy", "shuffle", "--episodes", "20", "--horizon", "2", "--trials", "200"),
}


def refused(outcome):
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert outcome.err.startswith(("discreet: ", "Usage: "))  # the second is a text that is no number at all
    if outcome.err.startswith("discreet: "):
        assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_targets(discreet, command):
    fixed = {"--epsilon": ("--delta", "1e-5"), "--delta": ("--epsilon", "1"), "--rho": ("--delta", "1e-5")}
    for option in NUMBERS:
        for text in TEXTS:
            if (option == "--delta" and text in ("0", "1e-300", "1e-10")) or (option, text) == ("--rho", "1e-10"):
                continue  # small, and possible
            refused(discreet(*COMMANDS[command], *fixed[option], f"{option}={text}"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("calibrate", "--epsilon", "1", "--failure-probability"),
        ("audit", "--epsilon", "1", "--trials", "200", "--confidence"),
    ],
)
def test_probabilities(discreet, arguments):
    for text in TEXTS:
        if text not in ("1e-300", "1e-10"):
            refused(discreet(*arguments[:-1], f"{arguments[-1]}={text}"))


@pytest.mark.parametrize("option", ["--episodes", "--trials", "--seed", "--states", "--horizon"])
def test_counts(discreet, option):
    for text in ("-1", "1.5", "nan", "1e3", "", "abc", str(2**63), str(10**30)):
        refused(discreet("audit", "--privacy", "central", "--epsilon", "1", f"{option}={text}"))
