"""Arrays as bytes: one way to write them, everything else is refused."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from discreet.base.errors import InvalidInput
from discreet.base.saved_arrays import (
    Saved,
    check_form,
    copies,
    from_bytes,
    nothing_secret,
    taken_from,
    to_bytes,
    under,
)

KINDS = st.sampled_from(["float64", "int64", "uint64", "uint8", "bool"])
ARRAYS = KINDS.flatmap(
    lambda kind: arrays_of.arrays(np.dtype(kind), arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
SOME = {"values": np.arange(6.0).reshape(2, 3), "clock": np.array(7), "ended": np.array([True, False])}


@given(st.dictionaries(st.text(max_size=20), ARRAYS, max_size=5))
@settings(max_examples=60, deadline=None)
def test_arrays_come_back_bit_for_bit_whatever_their_order(named):
    content = to_bytes(named)
    found = from_bytes(content)
    assert found.keys() == named.keys()
    for name, array in named.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()  # NaN and minus zero included
        assert found[name].flags.writeable
    assert to_bytes(dict(reversed(named.items()))) == content
    assert to_bytes({name: np.array(array, order="F") for name, array in named.items()}) == content


def test_damaged_bytes_are_refused():
    content = to_bytes(SOME)
    for at in range(len(content)):
        for damaged in (content[:at], content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]):
            with pytest.raises(InvalidInput, match="saved state is damaged"):
                from_bytes(damaged)
    with pytest.raises(InvalidInput, match="saved state is damaged"):
        from_bytes(content + b"\0")
    assert from_bytes(content)["clock"] == 7


def sealed(listed: object, entries: bytes) -> bytes:
    """Bytes with a right checksum around a header and entries of one's own."""
    header = json.dumps(listed, separators=(",", ":")).encode()
    content = len(header).to_bytes(8, "little") + header + entries
    return b"discreet-arrays 1\n" + hashlib.sha256(content).digest() + content


@pytest.mark.parametrize(
    ("listed", "entries"),
    [
        ([["a", "float64", [1]], ["a", "float64", [1]]], bytes(16)),
        ([["b", "float64", [1]], ["a", "float64", [1]]], bytes(16)),
        ([["a", "object", [1]]], bytes(8)),
        ([["a", "float64", [2]]], bytes(8)),
        ([["a", "float64", [-1]]], b""),
        ([["a", "float64", [True]]], bytes(8)),
        ([["a", "float64", 1]], bytes(8)),
        ([["a", "float64"]], bytes(8)),
        ([[1, "float64", [1]]], bytes(8)),
        ({"a": 1}, b""),
        (3, b""),
        ([["a", "float64", [2**47, 2**47]]], b""),
    ],
)
def test_a_right_checksum_does_not_help_a_wrong_header(listed, entries):
    assert from_bytes(sealed([["a", "float64", [1]]], bytes(8)))["a"] == 0
    with pytest.raises(InvalidInput, match="saved state is damaged"):
        from_bytes(sealed(listed, entries))


def test_other_kinds_of_arrays_are_not_written():
    for array in (np.array(["text"]), np.array([None]), np.zeros(2, np.float32)):
        with pytest.raises(InvalidInput, match="are not saved"):
            to_bytes({"x": array})


def test_a_form_is_names_types_and_shapes_and_finite_numbers():
    form = Saved(copies(values=np.zeros(3), time=0), copies(past=np.zeros(2, np.int64)))
    check_form(form, Saved(copies(values=np.ones(3), time=5), copies(past=np.ones(2, np.int64))))
    for wrong in (
        Saved(copies(values=np.zeros(4), time=0), form.secret),
        Saved(copies(values=np.zeros(3)), form.secret),
        Saved(copies(values=np.zeros(3, np.int64), time=0), form.secret),
        Saved(form.public | form.secret, {}),
    ):
        with pytest.raises(InvalidInput, match="another recipe, shape or version"):
            check_form(form, wrong)
    with pytest.raises(InvalidInput, match="damaged"):
        check_form(form, Saved(copies(values=np.full(3, np.nan), time=0), form.secret))


def test_states_lie_side_by_side():
    one, two = nothing_secret(values=np.zeros(2)), Saved({}, copies(values=np.ones(2)))
    both = Saved(under("one", one).public, under("two", two).secret)
    assert list(taken_from("one", both).public) == ["values"]
    assert taken_from("one", both).secret == {}
    assert taken_from("two", both).secret["values"].sum() == 2
