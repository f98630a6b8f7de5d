"""What pages show as printed is what their commands and programs print today.

A block without a language, or of ``text``, after a command or a program shows its output, word for word but for what
is drawn anew every time (``DRAWN``) and for lines after "...". A table whose first column is headed "and" follows a
command ``discreet simulate``: every row adds options to it. ``python -m tests.docs.test_printed docs/PAGE`` writes the
tables of a page anew. Whoever changes a learner sees here which pages to change.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import statistics
import sys
from pathlib import Path

import pytest
from tests.docs.test_pages import DOCS, PAGES, named

from discreet.cli import main

TABLE = re.compile(r"```console\n(discreet simulate [^`]*?)\n```\n\n(\| and \|[^\n]*\n\|[-|]+\n)((?:\|[^\n]*\n)+)")
SHOWN = re.compile(
    r"```(console|python)\n((?:(?!```).)*)```\n(?:(?!```).)*?\n```(?:text)?\n((?:(?!```).)*)```\n", re.DOTALL
)
DRAWN = ("seconds ", "a device pays", "sha256:")  # how long it took, and what depends on a key
# The page and the command or program whose output it shows; tables are found by themselves.
OUTPUTS = (
    ("tutorials/simulate.md", "sweep.summary()"),
    ("tutorials/teach.md", "broken/noise-halved"),
    ("guides/choose-epsilon.md", "discreet plan"),
    ("guides/real-users.md", "discreet simulate"),
    ("guides/real-users.md", "discreet rehearse"),
)


def run(command: str, *more: str) -> str:
    """What a command prints, in this process."""
    _, *words = shlex.split(command.replace("\\\n", " "), comments=True)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words, *more])
    return out.getvalue()


def measured(command: str, options: str) -> str:
    """The row of a table: mean regret and its standard error, the worst run, the gap of what is recommended.

    Learners of a table have no regret but a gap: mean, error and worst. Adversaries leave no gap.
    """
    found = json.loads(run(f"{command} {options}", "--quiet", "--json", "-"))
    gaps, regret = found["final_gap"], found["regret"]
    runs, form = (gaps["per_run"], ",.3f") if regret is None else (regret["per_run"], ",.0f")
    error = statistics.stdev(runs) / len(runs) ** 0.5
    row = f"| `{options}` | {statistics.fmean(runs):{form}} ± {error:{form}} | {max(runs):{form}} |"
    return row if regret is None or gaps["mean"] is None else f"{row} {gaps['mean']:.3f} |"


def tables(text: str) -> list[tuple[str, str]]:
    """Every row of every such table, with its command."""
    return [(match[1], line) for match in TABLE.finditer(text) for line in match[3].splitlines()]


def option(line: str) -> str:
    return line.split("`")[1]


ROWS = [(named(page), command, line) for page in PAGES for command, line in tables(page.read_text())]


@pytest.mark.long
@pytest.mark.parametrize(("page", "command", "line"), ROWS, ids=[f"{page}:{option(line)}" for page, _, line in ROWS])
def test_a_row_of_a_table_is_what_its_command_measures(page, command, line):
    assert measured(command, option(line)) == line, f"python -m tests.docs.test_printed docs/{page}"


def said(text: str) -> list[str]:
    """Lines to be compared: without rules and blanks at their ends, without what is drawn anew, up to "..."."""
    lines = [re.sub(r"\s+", " ", line).strip(" ─") for line in text.splitlines()]
    kept = [line for line in lines if line and not line.startswith(DRAWN)]
    return kept[: kept.index("...")] if "..." in kept else kept


def shown(page: str, words: str) -> tuple[str, list[str]]:
    """The command, or all programs up to the one, whose output a page shows, and the lines."""
    text = (DOCS / page).read_text()
    for match in SHOWN.finditer(text):
        if words in match[2]:
            if match[1] == "console":
                (command,) = [line for line in match[2].replace("\\\n", " ").splitlines() if words in line]
                return command, said(match[3])
            before = re.findall(r"^```python\n(.*?)^```", text[: match.end()], re.DOTALL | re.MULTILINE)
            return "\n".join(before), said(match[3])
    raise AssertionError(f"{page} shows no output of {words}")


@pytest.mark.slow
@pytest.mark.parametrize(("page", "words"), OUTPUTS)
def test_what_a_page_shows_is_printed(page, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")  # tables are as wide as they are on pages
    source, lines = shown(page, words)
    if source.startswith("discreet "):
        printed = said(run(source))
    else:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(source, page, "exec"), {})
        printed = said(out.getvalue())
    assert len(lines) > 0
    assert any(printed[start : start + len(lines)] == lines for start in range(len(printed))), "\n".join(printed)


REMINDERS = re.search(r"^```toml\n(.*?)^```", (DOCS / "guides/real-users.md").read_text(), re.DOTALL | re.MULTILINE)
WALKS = 'recipe = "shuffle/sampled-item"\nepsilon = 1.0'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model", "changed", "wide"),
    [("reminders", "local", REMINDERS and REMINDERS[1], "160"), ("walks", "shuffle", WALKS, "80")],
)
def test_the_checks_of_the_guides_studies_are_printed(name, model, changed, wide, tmp_path, monkeypatch):
    """Of studies made from the template by the lines that the guide shows."""
    pytest.importorskip("cryptography", reason="needs the extra 'serve'")
    from discreet.study.service.study_files import new_study

    monkeypatch.setenv("COLUMNS", wide)
    study = tmp_path / f"{name}.toml"
    new_study(study, model)
    text = study.read_text()
    for line in re.findall(r"^\w+ = .*$", changed, re.MULTILINE):
        text = re.sub(rf"^{line.split()[0]} = .*$", line.replace("\\", ""), text, flags=re.MULTILINE)
    study.write_text(text)
    lines = shown("guides/real-users.md", f"discreet study check {name}")[1]
    printed = said(run(f"discreet study check {study}"))
    assert len(lines) > 4
    assert [line for line in lines if line not in printed and not line.startswith("sent, ")] == []


def test_a_wrong_number_is_seen():
    """The reader itself: one digit off is another line, and a table that nobody can run is no table."""
    assert said("world   arms-3\nregret 1.0 ± 0.1\nseconds 3\n...\nmore") == ["world arms-3", "regret 1.0 ± 0.1"]
    assert said("regret 1.0 ± 0.1") != said("regret 1.1 ± 0.1")
    text = "```console\ndiscreet simulate --runs 2\n```\n\n| and | regret |\n|---|---|\n| `--seed 1` | 5 ± 1 |\n"
    assert tables(text) == [("discreet simulate --runs 2", "| `--seed 1` | 5 ± 1 |")]
    assert tables(text.replace("| and |", "| or |")) == []


MARK = "are not measured again with every version"
GENERATED = ("gauntlet.md", "reproduction/")  # with the date of their own run


@pytest.mark.parametrize("page", [page for page in PAGES if "±" in page.read_text()], ids=named)
def test_numbers_are_compared_or_say_that_they_are_not(page):
    """Tutorials and guides show nothing that is not compared; other pages say with what their numbers were measured."""
    rows = {line for _, line in tables(page.read_text())}
    loose = [line for line in page.read_text().splitlines() if re.search(r"\d ± \d", line) and line not in rows]
    if named(page).startswith(("tutorials/", "guides/", "quickstart", "concepts", "index")):
        compared = [line for where, words in OUTPUTS if where == named(page) for line in shown(where, words)[1]]
        assert [line for line in loose if re.sub(r"\s+", " ", line).strip() not in compared] == []
    elif loose and not named(page).startswith(GENERATED):
        assert MARK in " ".join(page.read_text().split()), (
            f"{named(page)} has numbers that no test compares, and does not say so"
        )


def write(page: Path) -> None:
    """All tables of a page, anew."""
    for command, line in tables(page.read_text()):
        now = measured(command, option(line))
        print(now, flush=True)
        page.write_text(page.read_text().replace(line, now))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name))
