"""Imports point one way, and the slow libraries are loaded only when they are needed."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import discreet

PACKAGE = Path(discreet.__file__).parent

# What each part of the package may never import, from the flow: worlds know nothing of privacy, learners see releases
# and nothing else, only privatizers bring encoders, noise and accumulators together, only simulation sees everything.
_DRIVERS = {"simulation", "offline", "calibration", "data", "demo", "demo_page", "cli", "reproduce", "service"}
_RAW = {"trajectories", "encoders"}
_MECHANISM = {"noise", "accumulators", "privatizers"}
_LEARNING = {"learners"}
FORBIDDEN = {
    "worlds": _RAW | _MECHANISM | {"privacy", "release"} | _LEARNING | _DRIVERS,
    "planning": _RAW | _MECHANISM | {"privacy", "release", "worlds"} | _LEARNING | _DRIVERS,
    "policies": _RAW | _MECHANISM | {"privacy", "release", "worlds", "planning"} | _LEARNING | _DRIVERS,
    "shape": _RAW | _MECHANISM | {"privacy", "release", "worlds", "planning", "policies"} | _LEARNING | _DRIVERS,
    "privacy": _RAW
    | _MECHANISM - {"noise"}
    | {"release", "worlds", "planning", "policies", "shape"}
    | _LEARNING
    | _DRIVERS,
    "noise": _RAW | {"accumulators", "privatizers", "release", "worlds", "planning", "policies"} | _LEARNING | _DRIVERS,
    "encoders": {"noise", "accumulators", "privatizers", "worlds", "planning"} | _LEARNING | _DRIVERS,
    "accumulators": _RAW | {"privatizers", "worlds", "planning", "policies", "release"} | _LEARNING | _DRIVERS,
    "release": _RAW | _MECHANISM | {"worlds", "planning"} | _LEARNING | _DRIVERS,
    "trajectories": _MECHANISM | {"worlds", "planning", "release"} | _LEARNING | _DRIVERS,
    "privatizers": {"worlds", "planning"} | _LEARNING | _DRIVERS,
    "learners": _RAW | _MECHANISM | {"worlds"} | _DRIVERS,
    "calibration": {"worlds", "simulation", "demo", "cli", "reproduce"},
    "simulation": {"demo", "cli", "reproduce", "service", "offline", "data"},
}
FORBIDDEN["layered_shape"] = FORBIDDEN["shape"]


def imports(path: Path, *, typing_too: bool = False) -> set[str]:
    """The parts of the package that a file imports, also inside functions; not those for type checkers alone."""
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
        found |= {name.split(".")[1] for name in names if name.startswith("discreet.")}
        waiting += ast.iter_child_nodes(node)
    return found


def files_of(part: str) -> list[Path]:
    folder, file = PACKAGE / part, PACKAGE / f"{part}.py"
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [file] if file.exists() else []


@pytest.mark.parametrize("part", [part for part in FORBIDDEN if files_of(part)])
def test_imports_point_one_way(part):
    files = files_of(part)
    wrong = {str(path.relative_to(PACKAGE)): imports(path) & FORBIDDEN[part] for path in files}
    assert not {path: names for path, names in wrong.items() if names}


def test_even_type_annotations_keep_learners_away_from_raw_data():
    for path in files_of("learners"):
        assert not imports(path, typing_too=True) & FORBIDDEN["learners"], path


def test_privacy_looks_laws_up_by_name_only():
    """The one way back, from a name to a law, is taken inside a function; nothing else in privacy knows noise."""
    assert [path.name for path in files_of("privacy") if "noise" in imports(path)] == ["calibration.py"]
    top = ast.parse((PACKAGE / "privacy" / "calibration.py").read_text()).body
    assert not [node for node in top if isinstance(node, ast.Import | ast.ImportFrom) and "noise" in ast.unparse(node)]


def test_every_part_of_the_package_has_a_rule():
    parts = {
        path.stem for path in PACKAGE.iterdir() if not path.name.startswith(("_", ".")) and path.suffix in ("", ".py")
    }
    plumbing = {"compiled", "streams", "validation", "errors", "files"}  # used by all, knowing none
    top = {"cli", "reproduce", "service", "offline", "data", "demo", "demo_page"}  # may import everything below them
    populated = {part for part in parts if files_of(part)}
    assert len(populated) > 15
    assert populated <= set(FORBIDDEN) | plumbing | top
    for part in plumbing:
        assert imports(PACKAGE / f"{part}.py") <= plumbing


def test_the_reader_of_imports_reads_them(tmp_path):
    source = tmp_path / "module.py"
    source.write_text(
        "from typing import TYPE_CHECKING\nimport discreet.worlds.tabular\nfrom discreet import encoders\n"
        "def f():\n    from discreet.noise import laplace\n"
        "if TYPE_CHECKING:\n    from discreet.trajectories import Users\n"
    )
    assert imports(source) == {"worlds", "encoders", "noise"}
    assert imports(source, typing_too=True) == {"worlds", "encoders", "noise", "trajectories"}


SLOW = ("numba", "scipy", "opendp", "dp_accounting", "matplotlib", "gymnasium")


def loaded(code: str) -> list[str]:
    script = f"{code}\nimport sys\nprint('loaded', [name for name in {SLOW} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return ast.literal_eval(output.splitlines()[-1].removeprefix("loaded "))


def test_importing_discreet_is_instant():
    assert loaded("import discreet; discreet.__version__; dir(discreet); discreet.Shape, discreet.Central") == []
    assert "numba" in loaded("import discreet; discreet.simulate")


@pytest.mark.skipif(importlib.util.find_spec("discreet.cli") is None, reason="there is no command line")
@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--help"]])
def test_help_is_instant(arguments):
    code = (
        f"import sys; sys.argv = ['discreet', *{arguments}]\n"
        "from discreet.cli import main\n"
        "try:\n    main()\nexcept SystemExit as leave:\n    assert not leave.code, leave.code\n"
    )
    assert loaded(code) == []


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
