"""Every module, and every public class, function and method, says what it is.

Read from the source, so that code which is loaded late is seen too. A placeholder does not count as a description.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import discreet

PACKAGE = Path(discreet.__file__).parent
PLACEHOLDERS = ("to be described", "to do", "todo", "tbd", "fixme", "docstring")


def says_something(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    text = (ast.get_docstring(node) or "").strip()
    return len(text.split()) > 1 and not text.lower().startswith(PLACEHOLDERS)


def _registers(node: ast.AST) -> bool:
    """Implementations of a dispatched function are described where it is declared (``@f.register(...)``)."""
    return any(
        "register" in ast.unparse(d) or "overload" in ast.unparse(d) for d in getattr(node, "decorator_list", [])
    )


def silent(tree: ast.Module) -> Iterator[str]:
    """The public classes, functions and methods of a file that have no docstring; none that are inside a function."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            if not says_something(node) and not _registers(node):
                yield node.name
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if (
                        isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
                        and not method.name.startswith("_")
                        and not _registers(method)
                        and not says_something(method)
                    ):
                        yield f"{node.name}.{method.name}"


FILES = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def test_every_module_opens_with_its_idea():
    assert [name for name, tree in FILES.items() if not says_something(tree)] == []


def test_public_names_are_described():
    assert {name: found for name, tree in FILES.items() if (found := list(silent(tree)))} == {}


def test_what_says_nothing_is_found():
    """The reader itself: a silent function, method and class are seen; private ones and registrations are not."""
    source = '''
class Told:
    """A thing that is described."""
    def silent(self): ...
    def described(self):
        """What it does."""
    def _private(self): ...
class Silent: ...
def placeholder():
    """To be described."""
def _hidden(): ...
@draw.register(int)
def _(x): ...
@Told.register(int)
def draw_int(x): ...
'''
    assert list(silent(ast.parse(source))) == ["Told.silent", "Silent", "placeholder"]
    assert not says_something(ast.parse('"""To be described."""'))
    assert says_something(ast.parse('"""What a thing is."""'))
