"""Imports point one way, and the slow libraries are loaded only when they are needed.

The rules of the layout, read from the source:

1. every file belongs to a *station* of the flow, and a station may not import those behind it;
2. the core never imports a slice (one problem whole, in a folder of its own): registries name slices as text;
3. inside a slice the rule of stations holds by file: a slice's learners may not import its encoders;
4. nothing imports the audit but the command line, the reproduction of papers and the documentation;
5. nobody outside ``privacy/guarantee.py`` writes a derivation or changes a guarantee by hand.
"""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import discreet

PACKAGE = Path(discreet.__file__).parent

GROUND = {
    "errors",
    "validation",
    "files",
    "streams",
    "compiled",
    "types",
    "packages",
    "moved",
    "pictures",
    "scientific",
    "registry",
    "policy_files",
    "saved_arrays",
    "checker",
    "notebook",
}
# A slice is a package that says which station each of its files stands for.
STATIONS = {
    path.parent.name: ast.literal_eval(node.value)
    for path in PACKAGE.glob("*/__init__.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STATIONS"
}
SLICES = set(STATIONS)

_RAW = {"trajectories", "encoders"}
_MECHANISM = {"noise", "accumulators", "channels", "recipes", "papers"}
_STUDY = {"service", "shuffler", "crowd"}
_TOP = {"simulation", "offline", "evaluation", "data", "cli", "reproduce", "audit", "ledger", "dashboard"} | _STUDY
_PROBLEM = {"worlds", "planning", "learners"}
FORBIDDEN = {
    "shape": _RAW | _MECHANISM | _PROBLEM | _TOP | {"privacy", "release", "policies"},
    "policies": _RAW | _MECHANISM | _PROBLEM | _TOP | {"privacy", "release"},
    "trajectories": _MECHANISM | _PROBLEM | _TOP | {"release", "privacy"},
    "release": _RAW | _MECHANISM | _PROBLEM | _TOP,
    "privacy": _RAW | _MECHANISM | _PROBLEM | _TOP | {"release", "policies", "shape"},
    "noise": _RAW | (_MECHANISM - {"noise"}) | _PROBLEM | _TOP | {"release", "policies"},
    "encoders": _MECHANISM | _PROBLEM | _TOP,
    "accumulators": _RAW | {"channels", "recipes", "papers"} | _PROBLEM | _TOP | {"policies", "release"},
    "channels": {"recipes", "papers"} | _PROBLEM | _TOP,
    "recipes": _PROBLEM | _TOP,
    "papers": _PROBLEM | _TOP,
    "worlds": _RAW | _MECHANISM | _TOP | {"privacy", "release", "learners"},
    "planning": _RAW | _MECHANISM | _TOP | {"privacy", "release", "worlds", "learners"},
    "learners": _RAW | _MECHANISM | _TOP | {"worlds"},
    "simulation": {"cli", "reproduce", "offline", "evaluation", "data", "audit", "ledger"} | _STUDY,
    "audit": {"worlds", "planning", "learners", "cli", "reproduce", "offline", "data", "simulation"} | _STUDY,
    "offline": {"cli", "reproduce", "audit"} | _STUDY,
    "data": _PROBLEM - {"planning"} | (_TOP - {"data"}),
    "evaluation": {"worlds", "learners", "papers"} | (_TOP - {"evaluation", "data"}),
    # A ledger knows guarantees and nothing else: neither data nor learners, so that anything may charge it.
    "ledger": _RAW | _MECHANISM | _PROBLEM | (_TOP - {"ledger"}) | {"release", "policies", "shape"},
    "reproduce": {"cli"} | _STUDY,
    # A study uses what there is; nothing but the shuffler, the crowd and the command line knows of it.
    "service": {"cli", "reproduce", "audit", "papers", "offline", "evaluation", "data", "shuffler", "crowd"},
    # The second party of the shuffle model: it holds no record and no learner, and opens nothing.
    "shuffler": _RAW | _PROBLEM | (_TOP - {"service", "shuffler", "ledger"}) | {"papers", "release"},
    # Simulated people: they know a world and what a device knows.
    "crowd": _RAW | _MECHANISM | {"learners"} | (_TOP - {"crowd", "simulation"}) | {"release", "privacy"},
    # Pages are functions of plain data, which others gather; what an epsilon means in words is privacy's.
    "dashboard": _RAW | _MECHANISM | _PROBLEM | (_TOP - {"dashboard"}) | {"release", "policies", "shape", "client"},
    "cli": set(),
    # A device runs it alone: it imports nothing of the rest, not even errors.
    "client": _RAW | _MECHANISM | _PROBLEM | _TOP | {"release", "policies", "shape", "privacy"} | GROUND,
}


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


def station(parts: tuple[str, ...]) -> str:
    """The station of a module: its folder, or in a slice what its file stands for."""
    if parts[0] in SLICES and len(parts) > 1:
        return STATIONS[parts[0]].get(parts[1], parts[1])
    return parts[0]


def files() -> list[tuple[Path, tuple[str, ...]]]:
    return [(path, path.relative_to(PACKAGE).with_suffix("").parts) for path in sorted(PACKAGE.rglob("*.py"))]


def broken_rules(path: Path, parts: tuple[str, ...], **reading: bool) -> set[str]:
    """The parts of the package that this file imports against a rule."""
    found = set()
    root = parts[-1] == "__init__" and parts[0] in ("learners", "worlds", "__init__")
    for module in imports(path, **reading):
        if parts[0] in GROUND and module[0] not in GROUND:
            found.add(module[0])
        to_slice = module[0] in SLICES and module[0] != parts[0]
        if to_slice and not root and parts[0] not in ("cli", "reproduce", "audit", "papers"):
            found.add(module[0])
        if station(module) in FORBIDDEN.get(station(parts), set()):
            found.add(station(module))
    return found


def test_imports_keep_the_rules_of_the_layout():
    wrong = {("/".join(parts), part) for path, parts in files() for part in broken_rules(path, parts)}
    assert wrong == set()


def test_even_type_annotations_keep_learners_away_from_raw_data():
    for path, parts in files():
        if station(parts) == "learners" and parts[-1] != "__init__":
            assert not broken_rules(path, parts, typing_too=True), path


def test_every_file_has_a_station_and_every_station_a_rule():
    for _path, parts in files():
        if parts[-1] in ("__init__", "__main__"):
            continue
        assert parts[0] in GROUND or station(parts) in FORBIDDEN, f"{parts} has no rule"


def test_slices_say_what_their_files_are():
    assert {"adversarial", "elimination", "heavy_tails", "linear"} <= SLICES
    for name, stations in STATIONS.items():
        files_there = {path.stem for path in (PACKAGE / name).glob("*.py")}
        assert set(stations) <= files_there, f"{name} names files that are not there"


def test_the_reader_of_imports_reads_them(tmp_path):
    source = tmp_path / "module.py"
    source.write_text(
        "from typing import TYPE_CHECKING\nimport discreet.worlds.tabular\nfrom discreet import encoders\n"
        "def f():\n    from discreet.noise import laplace\n"
        "if TYPE_CHECKING:\n    from discreet.mechanisms.trajectories import Users\n"
    )
    assert {module[0] for module in imports(source)} == {"worlds", "encoders", "noise"}
    assert {module[0] for module in imports(source, typing_too=True)} == {"worlds", "encoders", "noise", "trajectories"}
    assert broken_rules(source, ("learners", "greedy")) == {"worlds", "encoders", "noise"}
    assert broken_rules(source, ("learners", "greedy"), typing_too=True) >= {"trajectories"}
    source.write_text("from discreet.problems.adversarial.world import layered\n")
    assert broken_rules(source, ("simulation", "run")) == {"adversarial"}
    assert broken_rules(source, ("adversarial", "learners")) == {"worlds"}


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
_STATIONS = tuple(f"discreet.{name}" for name in ("audit", "data", "ledger", "offline", "service", "simulation"))
UNUSED = (*SLOW, *_HELP, *_OTHERS, *_COMMANDS, *_STATIONS)
NEVER = {
    "--help": (*SLOW, "numpy", "pydantic", "email", "importlib.metadata", *_STATIONS),
    "simulate --help": (*SLOW, "numpy", *_COMMANDS, *_STATIONS),
    "worlds": (*UNUSED, "discreet.learners", "discreet.mechanisms"),
    "learners": (*UNUSED, "discreet.worlds", "discreet.mechanisms"),
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
