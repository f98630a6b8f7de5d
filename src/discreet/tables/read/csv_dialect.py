"""How a CSV file is read: declared or fixed, never guessed from its content.

**Records.** The bytes of a file are cut into records by one rule, whatever they are:

* a field that starts with the quote character goes on to the next single one; a doubled one stands for itself (or the
  escape character, where another one is declared, takes the next byte as it is). Delimiters and line breaks inside are
  part of the field. Text between the closing quote and the next delimiter makes the record unreadable;
* any other field goes on to the next delimiter or line feed; quotes inside are ordinary characters;
* a line feed outside quotes ends the record, with or without a carriage return before it. A carriage return anywhere
  else, a NUL, a ``#`` are ordinary bytes; there are no comments;
* a record that is unreadable, has more or fewer fields than there are columns, is longer than 64 MiB, or is cut by the
  end of the file inside quotes is dropped. Each of these is decided from the record alone.

So every file is a sequence of records, and replacing some of them by other whole records changes nothing about how the
rest is read: that is the sense in which *one user's records are replaced*. For files that follow RFC 4180 it is that.

**What the owner must know.** A record belongs to the user whose name it holds. Whether it is also one row of the table
that was exported is a matter of the program that wrote the file. One that follows RFC 4180 (a spreadsheet, pandas, R,
PostgreSQL, DuckDB) writes every row as a whole record, whatever its cells hold. A program that does not quote at all
must be declared with ``quote=None``: then every line is a record, and a quote in a cell is a character like others.
Where cells are quoted but never hold a line break, ``line_breaks=False`` ends every record with its line, so that a
quote that somebody forgot to close cannot reach the next one. ``discreet check`` counts for the owner what was dropped,
and records of more than one line: where there should be none, the declared form is not the one of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.base.errors import InvalidInput

_KNOBS = ("delimiter", "quote", "escape", "encoding", "names", "line_breaks")
_ENCODINGS = ("utf-8", "ascii", "latin-1", "cp1252")  # one byte is never part of a delimiter and of a letter


@dataclass(frozen=True)
class Csv:
    """The form of a CSV file. Without ``names`` its first record names the columns.

    ``delimiter`` is a comma unless the name of the file ends in .tsv; ``quote=None`` is for files without quotes;
    ``escape`` is the quote itself (doubled) unless given; ``line_breaks`` says whether quoted fields may hold some.

    Args:
        delimiter: Between fields.
        quote: Around fields; None for files without quotes.
        escape: Before a quote inside of a field.
        encoding: Of the file.
        names: Of the columns, for files without a header.
        line_breaks: Whether quoted fields may hold some.

    Examples:
        >>> import discreet.data
        >>> discreet.data.Csv(delimiter=";").quote
        '"'
    """

    delimiter: str | None = None
    quote: str | None = '"'
    escape: str | None = None
    encoding: str = "utf-8"
    names: tuple[str, ...] | None = None
    line_breaks: bool = True

    def __post_init__(self) -> None:
        given = {"delimiter": self.delimiter, "quote": self.quote, "escape": self.escape}
        for name, value in given.items():
            one = isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n\0"
            if value is not None and not one:
                raise InvalidInput(f"{name} of a CSV file must be one ASCII character, got {value!r}")
        if self.delimiter is not None and self.delimiter in (self.quote, self.escape):
            raise InvalidInput(f"delimiter of a CSV file must not be its quote or escape, got {self.delimiter!r}")
        if self.encoding not in _ENCODINGS:
            raise InvalidInput(
                f"encoding of a CSV file must be {' or '.join(_ENCODINGS)}, got {self.encoding!r}: convert the file"
            )
        if self.names is not None:
            object.__setattr__(self, "names", tuple(str(name) for name in self.names))

    def form(self, tab: bool) -> tuple[int, int, int, bool]:
        """Delimiter, quote and escape as bytes, -1 where there is none, and whether quotes may span lines."""
        delimiter = self.delimiter or ("\t" if tab else ",")
        quote = -1 if self.quote is None else ord(self.quote)
        escape = quote if self.escape is None else ord(self.escape)
        return ord(delimiter), quote, escape, self.line_breaks


def csv_form(given: Sequence[str]) -> Csv:
    """The form that texts such as ``delimiter=;`` describe.

    >>> csv_form(["delimiter=;", "quote=none"])
    Csv(delimiter=';', quote=None, escape=None, encoding='utf-8', names=None, line_breaks=True)
    """
    form: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in _KNOBS or not value:
            raise InvalidInput(f"--csv takes {', '.join(_KNOBS)} as NAME=VALUE, got {text!r}")
        form[name] = value
    if "line_breaks" in form and form["line_breaks"] not in ("yes", "no"):
        raise InvalidInput(f"line_breaks of a CSV file must be yes or no, got {form['line_breaks']!r}")
    changed: dict[str, Any] = {}
    if form.get("quote") == "none":
        changed["quote"] = None
    if form.get("delimiter") == "tab":
        changed["delimiter"] = "\t"
    if "names" in form:
        changed["names"] = tuple(form["names"].split(","))
    if "line_breaks" in form:
        changed["line_breaks"] = form["line_breaks"] == "yes"
    return Csv(**{**form, **changed})
