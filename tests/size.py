"""How large the project is: ``make lint`` prints it, and refuses more than ``MOST``.

Lines of code: no docstrings, blank lines, comments or imports, of every Python file that git tracks outside of tests,
docs and examples. Modules: Python files below ``src``. ``--rooms`` prints every room.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

# 45,065 when modules moved into rooms; tables as people have them, a second learner and studies that read added 3,800.
MOST = 49_100
APART = ("tests", "docs", "examples")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def lines_of_code(text: str) -> int:
    """The lines of a file that do something."""
    skipped = set[int]()
    for node in ast.walk(ast.parse(text)):
        said = node.body[0] if isinstance(node, _DOCUMENTED) and node.body else None
        if isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant) and isinstance(said.value.value, str):
            skipped |= {*range(said.lineno, (said.end_lineno or said.lineno) + 1)}
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return sum(
        number not in skipped and not line.strip().startswith("#") and bool(line.strip())
        for number, line in enumerate(text.splitlines(), 1)
    )


def room_of(path: str) -> str:
    """The room of ``src`` that a file stands in, or the folder beside it."""
    first, *rest = path.split("/")
    return first if first != "src" else rest[1] if len(rest) > 2 else "root"


def main() -> int:
    """Print the size; 1 if it is more than there may be."""
    listed = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()
    found = [path for path in listed if path.split("/")[0] not in APART and Path(path).exists()]
    lines, modules = Counter[str](), Counter[str]()
    for path in found:
        lines[room_of(path)] += lines_of_code(Path(path).read_text(encoding="utf-8"))
        modules[room_of(path)] += path.startswith("src/")
    for room, number in lines.most_common() if "--rooms" in sys.argv else []:
        print(f"{room:12s} {number:6,d} lines of code")
    print(f"{lines.total():,} lines of code of at most {MOST:,}, {modules.total()} modules")
    if lines.total() > MOST:
        print(f"{lines.total() - MOST:,} lines too many: take something out, or say in tests/size.py why not")
    return int(lines.total() > MOST)


if __name__ == "__main__":
    sys.exit(main())
