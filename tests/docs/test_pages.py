"""What the documentation says is run: every Python block, every command; and its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.cli import main
from experiments.papers import FIGURES, Scale

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

# What a page takes for granted, and blocks that need a machine that is not here.
BEFORE = {
    "offline.md": (
        "import discreet, numpy as np\n"
        "_rng = np.random.default_rng(0)\n"
        "BENCHMARK = discreet.worlds.from_arrays(_rng.dirichlet(np.full(5, 0.3), size=(5, 5, 3)), "
        "_rng.random((5, 5, 3)), start=np.full(5, 0.2))\n"
    )
}
ELSEWHERE = ("spark_session", "discreet.client")  # a Spark cluster; a service, see test_real_users_page
SMALLER = {
    "simulate": ["--episodes", "50", "--runs", "1"],
    "rehearse": ["--episodes", "50", "--runs", "2"],
    "demo": ["--episodes", "50", "--runs", "1"],
    "audit": ["--trials", "2000", "--episodes", "20"],
    "reproduce": ["--executor", "threads:1"],
    "plan": ["--users", "100", "--epsilons", "1", "--runs", "1"],
}


OFFLINE = {"apvi", "vapvi", "pevi"}
NEW = {"open": "budget.db", "key": "key.pem"}


def smaller(options: list[str], sizes: list[str]) -> list[str]:
    """The options with these sizes in place of their own; each may be given once."""
    found = list(options)
    for name, size in zip(sizes[::2], sizes[1::2]):
        if name in found:
            found[found.index(name) + 1] = size
        else:
            found += [name, size]
    return found


def blocks(page: Path, language: str) -> list[str]:
    """Blocks of a page, but for commands to which the rows of a table add options (``test_printed`` runs these)."""
    text = re.sub(r"^```console\n[^`]*?\n```(?=\n\n\| and \|)", "", page.read_text(), flags=re.MULTILINE)
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[str]:
    lines = "\n".join(blocks(page, "console") + blocks(page, "")).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("discreet ")]


def named(page: Path) -> str:
    return str(page.relative_to(DOCS))


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
COMMANDS = sorted({(named(page), command) for page in PAGES for command in commands(page)})


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """A table of trajectories under the name that the pages use."""
    duckdb = pytest.importorskip("duckdb", reason="needs the extra 'data'")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [
        (user, day, int(rng.integers(50)), int(rng.integers(5)), float(rng.random()))
        for user in range(40)
        for day in range(20)
    ]
    connection = duckdb.connect()
    connection.execute("create table visits (patient int, day int, state int, drug int, outcome double)")
    connection.executemany("insert into visits values (?, ?, ?, ?, ?)", rows)
    connection.execute("copy visits to 'visits.parquet' (format parquet)")
    hospital = runpy.run_path(str(ROOT / "examples" / "hospital" / "patients.py"))
    hospital["make"](tmp_path / "patients.csv", 60, 0)
    for name, labels in hospital["LISTS"].items():
        (tmp_path / name).write_text("\n".join(labels))
    usual = np.broadcast_to(hospital["clinicians"](), (14, 12, 4))
    discreet.StochasticPolicy(usual, hospital["STATES"], hospital["TREATMENTS"]).save(tmp_path / "clinicians.json")
    treat = np.tile(hospital["BEST"], (14, 1))
    discreet.Policy(treat, hospital["STATES"], hospital["TREATMENTS"]).save(tmp_path / "policy.json")
    make_ledger(tmp_path)
    return tmp_path


def make_ledger(folder: Path) -> None:
    """A ledger, a key and a signed head under the names that the guide uses."""
    from discreet import ledger

    with ledger.opened(folder / "budget.db", new=True) as books:
        with ledger.transaction(books):
            ledger.open_data_set(books, "icu-2026", ledger.make_budget(epsilon=3.0, delta=1e-5))
        if find_spec("cryptography") is not None:
            ledger.make_key(folder / "key.pem")
            (folder / "head.json").write_text(json.dumps(ledger.sign_head(books, folder / "key.pem")))


def make_policy(folder: Path) -> None:
    """A policy that says how its table was read, and rows that it decides about."""
    rows = [f"{user},{day},{(user + day) % 2},{user % 2},1" for user in range(400) for day in range(2)]
    (folder / "NEW.csv").write_text("\n".join(["patient,day,state,drug,outcome", *rows]))
    named = {"user": "patient", "step": "day", "state": "state", "action": "drug", "reward": "outcome"}
    data = discreet.data.read(folder / "NEW.csv", **named, states=2, actions=2, horizon=2)
    discreet.offline.train(data, epsilon=8.0, delta=1e-6).policy.save(folder / "policy.json")


def make_study(folder: Path, options: list[str]) -> None:
    """The study that a command names, unless it makes it."""
    pytest.importorskip("cryptography", reason="needs the extra 'serve'")
    from tests.study.service.small_studies import said

    from discreet.study.service.study_files import new_study

    if options[0] == "new":
        return
    file = folder / Path(options[1]).with_suffix(".toml")
    new_study(file)
    said(file)
    if options[0] == "tokens":
        file.write_text(file.read_text().replace("tokens = false", "tokens = true"))
    if options[0] in ("restored", "end", "policy", "show", "verify"):  # these want one that has been opened
        from discreet.cli.study import open_coordinator

        open_coordinator(file, None).stop()


@pytest.mark.long
@pytest.mark.parametrize("page", WITH_PYTHON, ids=named)
def test_python_runs(page, visits, capsys, monkeypatch):
    """As one program from a file of its own; recipes that a page registers are forgotten afterwards."""
    monkeypatch.setattr("discreet.recipes.registry._REGISTERED", [])
    code = [block for block in blocks(page, "python") if not any(word in block for word in ELSEWHERE)]
    program = visits / "page.py"
    program.write_text("\n".join([BEFORE.get(named(page), ""), *code]))
    if any("implement(" in block for block in code):  # its classes must not enter the cache that all programs share
        apart = {**os.environ, "NUMBA_CACHE_DIR": str(visits / "cache")}
        subprocess.run([sys.executable, str(program)], env=apart, check=True, capture_output=True)
    else:
        runpy.run_path(str(program), run_name="page")


@pytest.mark.long
@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_commands_run(page, command, visits, capsys, monkeypatch):
    for name, figure in FIGURES.items():
        if not figure.jobs:
            monkeypatch.setitem(FIGURES, name, replace(figure, claims=(), measure=lambda scale: (), draw=None))
            continue
        first = "published" if "published" in figure.versions else "ours"  # of what no paper has
        few = tuple(job for job in figure.jobs if job.version == first)[:1]
        tiny = Scale(min(20, figure.scales["quick"].episodes), 2)
        monkeypatch.setitem(FIGURES, name, replace(figure, jobs=few, scales=dict.fromkeys(figure.scales, tiny)))
    _, name, *options = shlex.split(command, comments=True)
    if name in ("serve", "shuffler", "crowd") or (name == "reproduce" and "all" in options):
        options, SMALLER_NOW = ["--help"], []  # minutes; its parts are run by tests of their own
    else:
        SMALLER_NOW = [] if "--list" in options else SMALLER.get(name, [])
    if name == "simulate" and OFFLINE.intersection(options):  # learners of a table are given users, and no episodes
        SMALLER_NOW = ["--users", "50", "--runs", "1"]
    if name == "apply":
        make_policy(visits)
    if name == "study" or "reminders.db" in options:
        make_study(visits, options)
    if name == "ledger" and options[0] in NEW:  # what others find there, these make
        (visits / NEW[options[0]]).unlink(missing_ok=True)
    if name == "ledger" and (options[0] in ("key", "head") or "--head" in options):
        pytest.importorskip("cryptography", reason="needs the extra 'ledger'")
    expected = 1 if "# exit code 1" in command else 0  # said so on the page: a broken mechanism is convicted
    with pytest.raises(SystemExit) as stop:
        main([name, *(options if expected else smaller(options, SMALLER_NOW))])
    assert (stop.value.code or 0) == expected, capsys.readouterr().err


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=named)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text):
        assert (page.parent / target).exists(), f"{named(page)} links to {target}"


def named_in(text: str) -> tuple[set[str], set[str]]:
    """What a page writes as code between its blocks: names that start with ``discreet.``, and paths of files."""
    code = " ".join(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))
    files = re.findall(r"[\w./-]+/[\w-]+\.(?:py|md|json|toml|npy|csv)\b", code)
    return set(re.findall(r"\bdiscreet(?:\.[a-zA-Z_]\w*)+", code)), set(files)


def is_a_name(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        with suppress(ImportError):
            owner = import_module(".".join(parts[:length]))
            with suppress(AttributeError):
                reduce(getattr, parts[length:], owner)
                return True
            return False
    return False


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_names_and_files_that_pages_mention_are_there(page):
    names, files = named_in(page.read_text())
    assert {name for name in names if not is_a_name(name)} == set()
    places = (ROOT, ROOT / "src" / "discreet", DOCS, page.parent)
    assert {file for file in files if not any((place / file).exists() for place in places)} == set()


def test_a_name_that_is_gone_is_seen():
    assert named_in("`discreet.noise.gone` and `noise/gone.py`") == ({"discreet.noise.gone"}, {"noise/gone.py"})
    assert is_a_name("discreet.noise.DiscreteLaplace.kernel")
    assert not is_a_name("discreet.noise.gone")


def headings(page: Path) -> set[str]:
    """The names by which parts of a page can be linked to, as the site makes them from headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = [re.sub(r"[`*]|\]\([^)]*\)", "", title) for title in re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)]
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_to_parts_of_pages_lead_to_headings(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target, part in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", text):
        there = page.parent / target if target else page
        if there.suffix == ".md" and there.parent.name != "api":  # headings there come from the source
            assert part in headings(there.resolve()), f"{named(page)} links to {target}#{part}"


def test_parts_of_a_page_are_named_as_the_site_names_them(tmp_path):
    (tmp_path / "page.md").write_text("# A title\n```\n# no heading\n```\n## 1. What `x_y` is, and [why](z.md)\n")
    assert headings(tmp_path / "page.md") == {"a-title", "1-what-x_y-is-and-why"}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_nobody_is_sent_to_an_index_where_somebody_else_may_own_the_name(page):
    """discreet is not on PyPI: pages install it from a clone. Take this out when it is."""
    assert not re.search(r"pip install ['\"]?discreet", page.read_text())


def test_the_navigation_names_pages_that_exist():
    listed = re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text())
    assert len(listed) > 20
    assert not [page for page in listed if not (DOCS / page).exists()]


def test_every_page_is_in_the_navigation():
    hooks = runpy.run_path(str(DOCS / "hooks.py"))
    settings = (ROOT / "mkdocs.yml").read_text()
    assert f"  - {hooks['FIGURES']}:" in settings
    figures = {page for page, title in hooks["figure_pages"](DOCS) if title}
    listed = set(re.findall(r"[\w./-]+\.md", settings)) | figures
    assert len(figures) > 10
    assert [named(page) for page in PAGES if named(page) not in listed] == []


def test_every_learner_has_a_page():
    from discreet.learners.registry import LEARNERS

    overview = (DOCS / "algorithms" / "index.md").read_text()
    modules = {entry.make.__module__ for entry in LEARNERS.values()}
    shown = "\n".join(page.read_text() for page in (DOCS / "algorithms").glob("*.md"))
    assert all(module in shown for module in modules)
    assert sum(f"`{name}`" in overview for name in LEARNERS) >= len(LEARNERS) - 1  # UOB-REPS stands with UOB-LBPS
