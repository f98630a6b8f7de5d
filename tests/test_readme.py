"""The README says what is true: its code runs, its commands exist, its numbers follow from their formulas."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path

import pytest
from scipy.stats import norm

from discreet.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ERRATA = (ROOT / "docs" / "errata.md").read_text()
PEERS = (ROOT / "docs" / "peers.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


COMMANDS = [line for block in blocks("console") for line in block.splitlines() if line.startswith("discreet ")]


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    assert len(blocks("python")) >= 2
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert "joint differential privacy, epsilon 1" in capsys.readouterr().out
    assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, name, *options = shlex.split(command)
    smaller = {"simulate": ["--episodes", "50", "--runs", "1"], "demo": ["--episodes", "50", "--runs", "1"]}
    with pytest.raises(SystemExit) as stop:
        main([name, *options, *smaller.get(name, [])])
    assert not stop.value.code, capsys.readouterr().err


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_links_lead_somewhere(target):
    assert (ROOT / target).exists()


def tree_levels(users: int) -> int:
    return int(math.log2(users)) + 1


def gaussian_delta(epsilon: float, shift: float) -> float:
    upper, lower = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
    return float(norm.cdf(upper) - math.exp(epsilon + norm.logcdf(lower)))


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ((2 / 3 + 2 / 3 + 1 / 3) * tree_levels(20_000) / math.log2(20_000), "epsilon 1.75 |"),
        (4 / 3 + 48 / (3 * 4), "epsilon 5.333 |"),
        (gaussian_delta(20, math.sqrt(4 * 2**2 + 2 * (2 - 1) ** 2) / 0.468), "delta 0.986 |"),
        (0.1 * math.sqrt(4 * math.log(24 / 0.1)), None),  # that deviation: c H / epsilon
        ((2 * 1 + 1 * 2) / 5, "at most 0.8 |"),
        ((3 * 9 / 4 + 2 * 57) / 5, "at most 24.15 |"),
        (0.9 * 6 / 3, "epsilon 1.8 |"),
        (1 - (1 - 2**-4) ** 3, "delta at least 0.176 |"),
    ],
)
def test_numbers_of_the_errata_follow_from_their_formulas(value, printed):
    if printed is None:
        assert value == pytest.approx(0.468, abs=5e-4)
        return
    number = re.search(r"\d+(\.\d+)?", printed)
    assert number
    assert printed in ERRATA
    decimals = len(number[1] or ".") - 1
    assert f"{value:.{decimals}f}" == number[0]


def test_it_is_short_and_the_first_screen_says_what_it_is_not_for():
    assert len(README.split()) <= 700
    first = " ".join(README[: README.index("<picture>")].split())
    for words in ("neural networks", "continuous states", "finite", "thousands", "alpha", "no external review"):
        assert words in first


def test_how_much_faster_it_is_stands_on_the_page_of_peers():
    """The README rounds the ratios of docs/peers.md down, to two digits, and the page says when and with what."""
    ratios = [
        float(number.replace(",", "")) for number in re.findall(r"rlberry-scool \|(?:[^|]*\|){3} ([\d,.]+)x", PEERS)
    ]
    said = [float(number.replace(",", "")) for number in re.findall(r"([\d,]+) times", README)]
    assert len(ratios) == len(said) == 2
    for ratio, words in zip(ratios, said, strict=True):
        unit = 10 ** (math.floor(math.log10(ratio)) - 1)
        assert words == math.floor(ratio / unit) * unit
    assert re.search(r"\(commit [0-9a-f]{7}, \d+ \w+ 20\d\d\)", PEERS)
