"""How things look where they are looked at: one line at a prompt, a small table in a notebook.

A line stays below 120 characters, whatever it is about. A table is plain HTML without scripts or files of its own: it
takes the colours of the page that it stands on, so it can be read on a light ground and on a dark one. Every text is
escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_LONGEST = 119
_LINE = "border-bottom:1px solid rgba(128,128,128,.35)"
_CELL = "padding:.15em .8em .15em 0;text-align:{};vertical-align:top;background:transparent"
_TABLE = "border-collapse:collapse;font-size:90%;color:inherit;background:transparent"


def one_line(kind: str, *parts: str) -> str:
    """``<Kind: part, part>``, cut at the end where it would be too long.

    >>> one_line("Policy", "6 steps", "", "4 states")
    '<Policy: 6 steps, 4 states>'
    """
    text = " ".join(f"<{kind}: {', '.join(filter(None, parts))}>".split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]}...>"


def facts_html(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """What, and its value, one row each."""
    return _table(title, "", [_row(["left", "left"], fact, head=1) for fact in facts])


def table_html(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """A table with a header; the first column is text and stands left, the others right."""
    sides = ["left", *("right" for _ in columns[1:])]
    header = _row(sides, columns, head=len(columns))
    return _table(title, header, [_row(sides, row) for row in rows], note)


def counted(number: int, thing: str) -> str:
    """A number of things: ``1 run``, ``2 runs``, ``20,000 episodes``."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _row(sides: Sequence[str], cells: Iterable[str], head: int = 0) -> str:
    """One row; the first ``head`` cells name things."""
    made = []
    for index, (side, cell) in enumerate(zip(sides, cells, strict=True)):
        tag = "th" if index < head else "td"
        weight = ";font-weight:600" if tag == "th" else ""
        made.append(f'<{tag} style="{_CELL.format(side)}{weight};{_LINE}">{escape(cell)}</{tag}>')
    return f"<tr>{''.join(made)}</tr>"


def _table(title: str, header: str, rows: Sequence[str], note: str = "") -> str:
    caption = f'<div style="font-weight:600;margin:.2em 0">{escape(title)}</div>' if title else ""
    below = f'<div style="font-size:85%;opacity:.8;margin:.2em 0">{escape(note)}</div>' if note else ""
    head = f"<thead>{header}</thead>" if header else ""
    return f'<div>{caption}<table style="{_TABLE}">{head}<tbody>{"".join(rows)}</tbody></table>{below}</div>'
