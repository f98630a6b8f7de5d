"""Bytes to records: RFC 4180 as Python's own writer makes it, the written rule for everything else."""

from __future__ import annotations

import csv
import gzip
import io
import random

import pytest

import discreet.data as data
from discreet.base.errors import InvalidInput
from discreet.data import Csv
from discreet.tables.read import csv_records
from discreet.tables.read.csv_dialect import csv_form
from discreet.tables.read.csv_records import CsvFile

ALPHABET = ["a", ",", '"', "\n", "\r", "#", "é", "\0", ";", "\t", " ", "1", "\\", "\r\n", '""']
NAMES = {"user": "u", "step": "t", "state": "s", "action": "a"}
DOMAIN = {"states": 3, "actions": 2, "horizon": 4}


def records(path, form=None, columns=None):
    """The records of a file as tuples of bytes."""
    file = CsvFile(path, form or Csv())
    out = []
    for some in file.fields(columns or file.names()):
        cells = [[c[o[i] : o[i + 1]].tobytes() for i in range(some.rows)] for c, o in zip(some.bytes, some.offsets)]
        out += list(zip(*cells, strict=True))
    return out


def cells(rng, rows, columns=3, longest=6):
    return [["".join(rng.choices(ALPHABET, k=rng.randrange(longest))) for _ in range(columns)] for _ in range(rows)]


@pytest.fixture(params=[2**22, 64, 16], ids=["one block", "small blocks", "tiny blocks"])
def block(request, monkeypatch):
    """Files are read in blocks; where these end must not matter. (The header has to fit into the first one.)"""
    monkeypatch.setattr(csv_records, "_BLOCK", request.param)
    return request.param


@pytest.mark.parametrize("written", [{}, {"quoting": csv.QUOTE_ALL, "lineterminator": "\n"}, {"delimiter": ";"}])
def test_what_a_writer_of_rfc_4180_wrote_is_read_back(tmp_path, block, written):
    rng, path = random.Random(block), tmp_path / "rows.csv"
    form = Csv(delimiter=written.get("delimiter"))
    for _ in range(40):
        rows, text = cells(rng, rng.randrange(25)), io.StringIO(newline="")
        writer = csv.writer(text, **written)
        writer.writerows([["x", "y", "z"], *rows])
        path.write_bytes(text.getvalue().encode())
        assert records(path, form) == [tuple(cell.encode() for cell in row) for row in rows]
        assert records(path, form, ("z", "x")) == [(row[2].encode(), row[0].encode()) for row in rows]


def test_other_escapes_and_files_without_quotes(tmp_path, block):
    rng, path = random.Random(block), tmp_path / "rows.csv"
    for options, form in (
        ({"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL}, Csv(escape="\\")),
        ({"quoting": csv.QUOTE_NONE, "escapechar": "\\", "quotechar": None}, Csv(quote=None, escape="\\")),
    ):
        for _ in range(40):
            rows, text = cells(rng, rng.randrange(25)), io.StringIO(newline="")
            csv.writer(text, **options).writerows([["x", "y"], *[row[:2] for row in rows]])
            path.write_bytes(text.getvalue().encode())
            assert records(path, form) == [tuple(cell.encode() for cell in row[:2]) for row in rows]


RECORDS = {
    "plain": (b"1,2\n", [(b"1", b"2")]),
    "returns before feeds": (b"1,2\r\n", [(b"1", b"2")]),
    "a lone return is a byte": (b"1\r,2\r3\n", [(b"1\r", b"2\r3")]),
    "NUL, hash, semicolon": (b"\0,#;\n", [(b"\0", b"#;")]),
    "bytes that are no text": (b"\xff\xfe,\xc3\n", [(b"\xff\xfe", b"\xc3")]),
    "quotes inside a field": (b'a"b,c""\n', [(b'a"b', b'c""')]),
    "quotes after a blank": (b' "a,b"\n', [(b' "a', b'b"')]),
    "an empty line": (b"\n\r\n1,2\n", [(b"1", b"2")]),
    "text behind a quote": (b'"a"b,c\n1,2\n', [(b"1", b"2")]),
    "text behind a quote, with quotes": (b'"a"b"c\n1,2\n', [(b"1", b"2")]),
    "too few fields": (b"1\n1,2\n", [(b"1", b"2")]),
    "too many fields": (b"1,2,3\n1,2\n", [(b"1", b"2")]),
    "no end of line at the end": (b"1,2\n3,4", [(b"1", b"2"), (b"3", b"4")]),
    "quoted at the end": (b'1,"2"', [(b"1", b"2")]),
    "a return at the end": (b"1,2\r", [(b"1", b"2\r")]),
    "a return behind a quote at the end": (b'1,2\n1,"2"\r', [(b"1", b"2")]),
    "the file ends in quotes": (b'1,2\n1,"2\n3,4\n', [(b"1", b"2")]),
    "empty quotes": (b'"",""\n', [(b"", b"")]),
    "a quoted line that looks like a record": (b'1,"\n9,9\n"\n', [(b"1", b"\n9,9\n")]),
}


@pytest.mark.parametrize("name", RECORDS)
def test_every_rule_of_the_form(tmp_path, block, name):
    content, expected = RECORDS[name]
    path = tmp_path / "rows.csv"
    for header in (b"x,y\n", b'\xef\xbb\xbf"x",y\r\n'):
        if len(header) < block:
            path.write_bytes(header + content)
            assert records(path) == expected
    path.write_bytes(content)
    assert records(path, Csv(names=("x", "y"))) == expected


@pytest.mark.parametrize(("form", "count"), [(Csv(line_breaks=False), 2), (Csv(quote=None), 3), (Csv(), 0)])
def test_how_far_an_open_quote_reaches_is_declared(tmp_path, block, form, count):
    """By default as far as quotes go; no further than its line, or nowhere at all, if that is declared."""
    path = tmp_path / "rows.csv"
    path.write_bytes(b'x,y\n1,"2\n3,4\n5,6\n')
    assert len(records(path, form)) == count


def test_replacing_whole_records_never_touches_others(tmp_path, block):
    """Any bytes are records by the rule; put together in another order or company they are read as before."""
    rng, path = random.Random(1), tmp_path / "rows.csv"
    form = Csv(names=("x", "y"))

    def read(content):
        path.write_bytes(content)
        return records(path, form)

    pieces = []
    while len(pieces) < 60:
        content = "".join(rng.choices([*ALPHABET, ",", "\n", "\n"], k=rng.randrange(1, 12))).encode() + b"\n"
        probe = read(content + b"end,end\n")
        if probe and probe[-1] == (b"end", b"end"):  # whole: the next record is read as itself
            pieces.append((content, probe[:-1]))
    for _ in range(40):
        chosen = rng.choices(pieces, k=rng.randrange(12))
        assert read(b"".join(content for content, _ in chosen)) == [row for _, found in chosen for row in found]


def test_a_record_that_is_too_long_is_dropped_and_nothing_else(tmp_path, block, monkeypatch):
    monkeypatch.setattr(csv_records, "_BLOCK", min(block, 64))
    for split in ("_split", "_skip"):  # kernels keep the constants that they were compiled with
        monkeypatch.setattr(csv_records, split, getattr(csv_records, split).py_func)
    monkeypatch.setattr(csv_records, "_LONGEST", 200)
    path = tmp_path / "rows.csv"
    for size in (150, 195, 196, 197, 198, 400, 5000):
        for form in (b"%s", b'"%s"', b'"\n,""%s"'):
            field = form % (b"q" * size)
            record = b"1," + field + b"\n"
            path.write_bytes(b"x,y\n0,0\n" + record + b"2,2\n" + record + b"3,3\n")
            kept = 2 * (len(record) <= 200)
            found = records(path)
            assert [row for row in found if row[0] != b"1"] == [(b"0", b"0"), (b"2", b"2"), (b"3", b"3")]
            assert len(found) == 3 + kept


def test_compressed_files_and_tabs(tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b'x,y\n1,"2\n3"\n'))
    assert records(tmp_path / "rows.csv.gz") == [(b"1", b"2\n3")]
    (tmp_path / "rows.tsv").write_bytes(b"x\ty\n1,1\t2\n")
    assert records(tmp_path / "rows.tsv") == [(b"1,1", b"2")]


class TestHeaders:
    def test_a_first_line_that_is_a_record_is_not_repeated(self, tmp_path):
        """Without a header the first line is somebody's: an error must not quote it."""
        path = tmp_path / "rows.csv"
        path.write_bytes(b"secret-id,0,1,1\nu2,0,1,1\n")
        with pytest.raises(InvalidInput, match=r"has no column 'u': its first line must name it") as caught:
            data.read(path, **NAMES, **DOMAIN)
        assert "secret" not in str(caught.value)
        named = data.read(path, **NAMES, **DOMAIN, csv=Csv(names=("u", "t", "s", "a")))
        assert named.users() == 2

    def test_an_empty_file_is_called_so(self, tmp_path):
        path = tmp_path / "rows.csv"
        for content in (b"", b"\xef\xbb\xbf"):
            path.write_bytes(content)
            with pytest.raises(InvalidInput, match="is empty"):
                data.read(path, **NAMES, **DOMAIN)

    @pytest.mark.parametrize("content", [b'"a', b'"a"b,c\n', b"\xff,\n"])
    def test_what_names_no_columns(self, tmp_path, content):
        path = tmp_path / "rows.csv"
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="first line of"):
            data.read(path, **NAMES, **DOMAIN)

    def test_two_columns_of_one_name(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_bytes(b"u,t,s,a,s\n")
        with pytest.raises(InvalidInput, match="more than one column 's'"):
            data.read(path, **NAMES, **DOMAIN)

    def test_names_and_labels_have_the_encoding_of_the_file(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_bytes("é,t,s,a\nx,0,krank,0\nx,1,genesen,0\nÿ,0,über,0\n".encode("latin-1"))
        names = {**NAMES, "user": "é"}
        table = data.read(
            path, **names, states=["krank", "genesen", "über"], actions=2, horizon=4, csv=Csv(encoding="latin-1")
        )
        assert table.users() == 2
        assert table.joint_counts().counts.sum() == 3

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"delimiter": ",,"}, "delimiter of a CSV file must be one ASCII character"),
            ({"quote": "é"}, "quote of a CSV file"),
            ({"delimiter": '"'}, "must not be its quote"),
            ({"encoding": "utf-16"}, "convert the file"),
        ],
    )
    def test_forms_that_are_none(self, given, message):
        with pytest.raises(InvalidInput, match=message):
            Csv(**given)

    @pytest.mark.parametrize("text", ["delimiter", "delimiter=", "form=x", "line_breaks=maybe", "quote=ab"])
    def test_forms_on_the_command_line_that_are_none(self, text):
        with pytest.raises(InvalidInput, match=r"--csv takes|yes or no|one ASCII character"):
            csv_form([text])

    def test_forms_on_the_command_line(self):
        given = csv_form(["delimiter=tab", "names=a,b", "line_breaks=no", "escape=\\", "encoding=latin-1"])
        assert given == Csv("\t", '"', "\\", "latin-1", ("a", "b"), False)
