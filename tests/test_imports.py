"""Imports point one way, and the slow libraries are loaded only when they are needed.

The rules of the layout, read from the source:

1. every file stands in a *room*, rooms have an order, and a room imports only itself and the rooms before it;
2. some parts keep to less than that (``ONLY``, ``NEVER_FROM``): a learner knows neither raw data nor mechanisms;
3. inside a problem the same rules hold by file: its learners may not import its encoders; no problem imports another;
4. a room that needs a later one names it as text, and the files that do so are listed (``REACH_FORWARD``);
5. ``client`` and ``checker`` import nothing of the rest, and few may import them;
6. nobody outside ``privacy/guarantee.py`` writes a derivation or changes a guarantee by hand;
7. nothing in ``src`` imports ``experiments``.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import discreet

PACKAGE = Path(discreet.__file__).parent

ROOMS = (
    "base", "privacy", "noise", "mechanisms", "recipes", "worlds", "learners", "simulation", "problems", "papers",
    "audit", "ledger", "tables", "study", "cli",
)  # fmt: skip
# Files beside the rooms: what each stands for. The package itself may name everything.
ROOT = {"data": "tables/read", "offline": "tables", "policies": "base/policies", "__main__": "cli"}
# They run without the rest, on a device or at whoever verifies; and who else may import them.
ALONE = {"client": ("study/service", "study/shuffler", "study/crowd", "cli"), "checker": ("tables",)}

# Where a part of the package keeps to less than the rooms before it: itself and these.
ONLY = {
    "noise": ("base", "privacy"),
    "mechanisms/trajectories": ("base",),
    "mechanisms/release": ("base", "privacy"),
    "mechanisms/counts": ("base", "privacy", "mechanisms/trajectories", "mechanisms/release"),
    "mechanisms/sums": ("base", "privacy", "noise"),
    "worlds": ("base",),
    "worlds/planning": ("base",),
    "learners": ("base", "privacy", "mechanisms/release", "worlds/planning"),
    # A ledger knows guarantees and nothing else: neither data nor learners, so that anything may charge it.
    "ledger": ("base", "privacy"),
    "tables/read": ("base", "privacy", "mechanisms", "worlds/planning"),
    "tables/evaluation": ("base", "privacy", "noise", "mechanisms", "recipes", "worlds/planning", "tables/read"),
    # The second party of the shuffle model: it holds no record and no learner, and opens nothing.
    "study/shuffler": ("base", "privacy", "noise", "ledger", "client", "study/service"),
    # Simulated people: they know a world and what a device knows.
    "study/crowd": ("base", "worlds", "simulation", "client"),
    # Pages are functions of plain data, which others gather; what an epsilon means in words is privacy's.
    "study/dashboard": ("base", "privacy"),
}
# And what a part never imports, though it stands in a room before.
NEVER_FROM = {
    "base/shape": ("base/policies",),
    "privacy": ("base/policies", "base/shape"),
    "noise": ("base/policies",),
    "mechanisms/sums": ("base/policies",),
    "papers": ("worlds", "learners", "simulation"),
    "audit": ("worlds", "learners", "simulation"),
    "ledger": ("base/policies", "base/shape"),
    "tables": ("problems", "audit"),
    "study": ("problems", "audit", "papers", "tables"),
    "study/service": ("study/shuffler", "study/crowd"),
    "study/dashboard": ("base/policies", "base/shape"),
}
# Files that name a later room as text: registries, and what waits for a better home.
REACH_FORWARD = {
    "base/policies": "who reads raw rows for a policy",
    "learners/registry": "registry",
    "recipes/registry": "registry",
    "simulation/data_sets": "features of a linear world",
    "worlds/__init__": "public names",
    "worlds/catalogue": "options of a world whose rewards are heavy-tailed",
    "worlds/registry": "registry",
    "worlds/tabular": "who simulates the users of a world",
}
# A problem says for each of its files which part of the flow it stands for, unless the name says it.
STATIONS = {
    path.parent.name: ast.literal_eval(node.value)
    for path in PACKAGE.glob("problems/*/__init__.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STATIONS"
}
NAMED = {"encoders": "mechanisms/counts", "simulator": "simulation"}


def imports(path: Path, *, typing_too: bool = False) -> set[tuple[str, ...]]:
    """The modules of the package that a file imports, also inside functions; not those for type checkers alone."""
    found = set()
    waiting = list(ast.parse(path.read_text()).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not typing_too:
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = []
        found |= {tuple(name.split(".")[1:]) for name in names if name.startswith("discreet.")}
        waiting += ast.iter_child_nodes(node)
    return found


def named_as_text(path: Path) -> set[tuple[str, ...]]:
    """The modules that a file names in strings, to be loaded later; text for readers does not count."""
    texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    names = [re.fullmatch(r"discreet\.([\w.]+)(:\w*)?", text) for text in texts if isinstance(text, str)]
    return {tuple(name[1].split(".")) for name in names if name}


def files() -> list[tuple[Path, tuple[str, ...]]]:
    return [(path, path.relative_to(PACKAGE).with_suffix("").parts) for path in sorted(PACKAGE.rglob("*.py"))]


def within(place: str, areas: Iterable[str]) -> bool:
    return any(place == area or place.startswith(f"{area}/") for area in areas)


def station(parts: tuple[str, ...]) -> str:
    """What a file of a problem stands for."""
    name = parts[2] if len(parts) > 2 else "__init__"
    return STATIONS[parts[1]].get(name, NAMED.get(name, name))


def allowed(parts: tuple[str, ...], module: tuple[str, ...]) -> bool:
    """Whether the file may import the module, or a name of it."""
    place, other = ROOT.get(parts[0], "/".join(parts)), ROOT.get(module[0], "/".join(module))
    if place == "__init__" or other.split("/")[0] == place.split("/")[0] in ALONE:
        return True
    if place.split("/")[0] in ALONE:
        return False
    if module[0] in ALONE:
        return within(place, ALONE[module[0]])
    if parts[0] == "problems":
        place = station(parts)
        if module[0] == "problems":
            if module[:2] != parts[:2]:
                return False
            other = station(module)
    if other.split("/")[0] not in ROOMS:
        return len(module) == 1  # a name of the package itself, such as its version
    order = ROOMS.index(other.split("/")[0]) <= ROOMS.index(place.split("/")[0])
    only = all(within(other, (area, *others)) for area, others in ONLY.items() if within(place, [area]))
    return order and only and not any(within(other, NEVER_FROM[area]) for area in NEVER_FROM if within(place, [area]))


def broken_rules(path: Path, parts: tuple[str, ...], **reading: bool) -> set[str]:
    """The modules that this file imports against a rule."""
    return {".".join(module) for module in imports(path, **reading) if not allowed(parts, module)}


def test_imports_keep_the_rules_of_the_layout():
    assert {("/".join(parts), name) for path, parts in files() for name in broken_rules(path, parts)} == set()


def test_nothing_imports_experiments():
    for path, _parts in files():
        assert not re.search(r"^\s*(from|import) \w*experiments", path.read_text(), re.MULTILINE), path


def test_even_type_annotations_keep_learners_away_from_raw_data():
    for path, parts in files():
        learner = parts[0] == "learners" or (parts[0] == "problems" and len(parts) > 2 and station(parts) == "learners")
        if learner and parts[-1] != "__init__":
            assert not broken_rules(path, parts, typing_too=True), path


def test_only_listed_files_name_a_later_room():
    found = set()
    for path, parts in files():
        if parts[0] in ROOMS:
            later = ROOMS[ROOMS.index(parts[0]) + 1 :]
            found |= {"/".join(parts) for module in named_as_text(path) if within(module[0], later)}
    assert found == set(REACH_FORWARD)


def test_every_file_stands_in_a_room():
    for _path, parts in files():
        assert parts[0] in (*ROOMS, *ALONE, *ROOT, "__init__"), f"{parts} has no room"
    parts_of_rooms = {"/".join(parts[:end]) for _path, parts in files() for end in range(1, len(parts) + 1)}
    for areas in (ONLY, NEVER_FROM):
        assert {*areas, *(other for others in areas.values() for other in others)} <= parts_of_rooms


def test_problems_say_what_their_files_are():
    assert set(STATIONS) == {"adversarial", "elimination", "heavy_tails", "linear"}
    for name, stations in STATIONS.items():
        there = {path.stem for path in (PACKAGE / "problems" / name).glob("*.py")} - {"__init__"}
        assert set(stations) <= there, f"{name} names files that are not there"
        for stem in there:
            assert station(("problems", name, stem)).split("/")[0] in ROOMS, f"{name}: what is {stem}?"


# Names that more than one file may have: the nouns of problems, a command and what it calls, the twin of the client in
# JavaScript, registries, and public names at the root.
OFTEN = ("__init__", "registry", *ROOT)
_APART = ("problems", "cli", "client")


def test_a_file_name_says_which_file():
    names = [parts[-1] for _path, parts in files() if parts[0] not in _APART and parts[-1] not in OFTEN]
    assert {name for name in names if names.count(name) > 1} == set()


def test_the_reader_of_imports_reads_them(tmp_path):
    source = tmp_path / "module.py"
    source.write_text(
        "from typing import TYPE_CHECKING\nimport discreet.worlds.tabular\nfrom discreet.mechanisms import counts\n"
        "def f():\n    from discreet.noise import laplace\n"
        "if TYPE_CHECKING:\n    from discreet.mechanisms.trajectories import Users\n"
    )
    seen = {"worlds.tabular", "mechanisms.counts", "noise.laplace"}
    users = "mechanisms.trajectories.Users"
    assert {".".join(module) for module in imports(source)} == seen
    assert {".".join(module) for module in imports(source, typing_too=True)} == {*seen, users}
    assert broken_rules(source, ("learners", "greedy")) == seen
    assert broken_rules(source, ("learners", "greedy"), typing_too=True) == {*seen, users}
    assert broken_rules(source, ("problems", "adversarial", "learners")) == seen
    assert broken_rules(source, ("mechanisms", "counts", "layouts")) == {"worlds.tabular", "noise.laplace"}
    assert broken_rules(source, ("simulation", "simulate")) == set()
    assert broken_rules(source, ("client", "device")) == seen
    source.write_text("from discreet.problems.adversarial import world, encoders\nfrom discreet.client import device\n")
    world, encoders, device = "problems.adversarial.world", "problems.adversarial.encoders", "client.device"
    assert broken_rules(source, ("simulation", "simulate")) == {world, encoders, device}
    assert broken_rules(source, ("problems", "adversarial", "learners")) == {world, encoders, device}
    assert broken_rules(source, ("problems", "adversarial", "recipes")) == {world, device}
    assert broken_rules(source, ("problems", "linear", "recipes")) == {world, encoders, device}
    assert broken_rules(source, ("study", "crowd", "people")) == {world, encoders}
    assert broken_rules(source, ("cli", "simulate")) == set()
    source.write_text('x = "discreet.problems.linear.world:benchmark"\ny = "see discreet.cli"\n')
    assert named_as_text(source) == {("problems", "linear", "world")}


_OWN_FIELDS = {"claimed", "derivation", "neighbours", "simulated"}  # of a guarantee, and of nothing else
_SHARED_FIELDS = {"unit", "public", "model", "profile"}  # of a guarantee, and of other things


def written_by_hand(path: Path) -> list[str]:
    """Derivations, guarantees, and changes of guarantees that a file writes itself instead of calling a rule."""
    tree = ast.parse(path.read_text())
    knows = any(isinstance(n, ast.ImportFrom) and n.module == "discreet.privacy.guarantee" for n in ast.walk(tree))
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).split(".")[-1]
        if name in ("Reason", "Guarantee") or (name == "Facts" and path.name != "certificate.py"):
            found.append(ast.unparse(node))
        if name == "replace" and isinstance(node.func, ast.Name | ast.Attribute) and node.args and node.keywords:
            given = {keyword.arg or "" for keyword in node.keywords}
            about_one = "guarantee" in ast.unparse(node.args[0]).split(".")[-1].lower()
            if about_one or given & _OWN_FIELDS or (knows and given <= _SHARED_FIELDS):
                found.append(ast.unparse(node))
    return found


def test_only_the_rules_write_derivations_and_change_guarantees():
    for path, parts in files():
        found = written_by_hand(path)
        if parts != ("privacy", "guarantee"):
            assert not found, f"{path}: add a rule to privacy/guarantee.py instead"


@pytest.mark.parametrize(
    "call",
    [
        'Reason("law", "none")',
        'Facts("mechanism", (("law", law),))',
        'guarantee.Guarantee("local", 1.0, 0.0, profile, reason)',
        "replace(guarantee, epsilon=0.1)",
        "replace(privatizer.guarantee, delta=0.0)",
        "dataclasses.replace(whole, claimed=claim)",
        'replace(local, model="shuffle", derivation=reason)',
        'replace(whole, public=("the tables",))',
        "replace(whole, unit=unit)",
    ],
)
def test_the_reader_of_guarantees_finds_what_is_written_by_hand(tmp_path, call):
    source = tmp_path / "module.py"
    source.write_text(f"from discreet.privacy.guarantee import compose\nx = {call}\n")
    assert len(written_by_hand(source)) == 1
    source.write_text(
        "from discreet.privacy.guarantee import about\nx = about(whole, unit=unit)\ny = text.replace('a', 'b')\n"
    )
    assert written_by_hand(source) == []
    source.write_text(
        "x = replace(moves, shifts=None, unit=False), replace(asked, delta=0.05), replace(release, public=p)\n"
    )
    assert written_by_hand(source) == []


SLOW = ("numba", "scipy", "opendp", "dp_accounting", "matplotlib", "gymnasium")


def loaded(code: str, names: tuple[str, ...] = SLOW) -> list[str]:
    script = f"{code}\nimport sys\nprint('loaded', [name for name in {names} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return ast.literal_eval(output.splitlines()[-1].removeprefix("loaded "))


def test_importing_discreet_is_instant():
    assert loaded("import discreet; discreet.__version__; dir(discreet); discreet.Shape, discreet.Central") == []
    assert loaded("import discreet; discreet.simulate; discreet.learners.UCBVI; discreet.worlds.river_swim()") == []


# What a list on the command line has no use for: the parser's validation, what draws help pages, what only other
# commands import, and the stations that the list does not name.
_HELP = ("pydantic", "markdown_it", "pygments")
_OTHERS = ("asyncio", "concurrent.futures", "email", "importlib.metadata", "socket", "sqlite3", "numpy.typing")
_COMMANDS = ("discreet.cli.demo", "discreet.cli.doctor", "discreet.cli.ledger", "discreet.cli.train")
_STATIONS = tuple(f"discreet.{name}" for name in ("audit", "ledger", "simulation", "study", "tables"))
UNUSED = (*SLOW, *_HELP, *_OTHERS, *_COMMANDS, *_STATIONS)
NEVER = {
    "--help": (*SLOW, "numpy", "pydantic", "email", "importlib.metadata", *_STATIONS),
    "simulate --help": (*SLOW, "numpy", *_COMMANDS, *_STATIONS),
    "worlds": (*UNUSED, "discreet.learners", "discreet.mechanisms"),
    "learners": (*UNUSED, "discreet.worlds.tabular", "discreet.worlds.catalogue", "discreet.mechanisms.mechanism"),
    "recipes": (*UNUSED, "discreet.worlds", "discreet.learners", "discreet.worlds.planning", "discreet.base.registry"),
}


@pytest.mark.skipif(importlib.util.find_spec("discreet.cli") is None, reason="there is no command line")
@pytest.mark.parametrize("typed", NEVER)
def test_help_and_lists_are_instant(typed):
    code = (
        f"import sys; sys.argv = ['discreet', *{typed.split()}]\n"
        "from discreet.cli import main\n"
        "try:\n    main()\nexcept SystemExit as leave:\n    assert not leave.code, leave.code\n"
    )
    assert loaded(code, NEVER[typed]) == []


def test_the_reader_of_loaded_modules_finds_them():
    assert loaded("import email, concurrent.futures", UNUSED) == ["concurrent.futures", "email"]


def test_public_names_are_where_they_are_said_to_be():
    for name in discreet.__all__:
        assert getattr(discreet, name) is not None
    assert set(discreet.__all__) <= set(dir(discreet))
    with pytest.raises(AttributeError, match="nonsense"):
        discreet.nonsense  # noqa: B018


def test_heavy_libraries_are_imported_where_they_are_used():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
                heavy = [
                    n
                    for n in names
                    if n.split(".")[0] in ("opendp", "dp_accounting", "matplotlib", "gymnasium", "duckdb")
                ]
                assert not heavy, f"{path} imports {heavy} when it is loaded"
