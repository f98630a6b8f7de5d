"""Policy files: labels read back, old files load, and what is wrong with one is a sentence, before it is unpacked."""

from __future__ import annotations

import io
import json
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.base.policies import Mixture, Policy, StochasticPolicy, labelled, load_policy
from discreet.base.policy_files import LARGEST

STATES, ACTIONS = ("mild", "severe"), ("wait", "treat")
NAMED = Policy([[0, 1], [1, 1]], STATES, ACTIONS)
DRAWN = StochasticPolicy(np.full((1, 2, 2), 0.5), STATES, ACTIONS)
MIXED = Mixture((NAMED, Policy([[0, 0], [0, 0]], STATES, ACTIONS)), [0.25, 0.75])


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("policy", [NAMED, DRAWN, MIXED], ids=["deterministic", "stochastic", "mixture"])
def test_labels_read_back(policy, suffix, tmp_path):
    policy.save(tmp_path / f"p{suffix}")
    again = load_policy(tmp_path / f"p{suffix}")
    assert again == policy
    assert (again.state_labels, again.action_labels) == (STATES, ACTIONS)
    assert again != labelled(policy, STATES[::-1], ACTIONS)
    assert hash(again) == hash(policy)


def test_labels_are_taken_and_given():
    rng = np.random.default_rng(0)
    assert NAMED.act(0, "severe") == "treat"
    assert NAMED.act(0, 1) == 1
    assert DRAWN.act(0, "mild", rng) in ACTIONS
    assert Mixture((NAMED,), [1.0]).act(1, "mild") == "treat"
    assert Policy([[1, 0]], STATES).act(0, "mild") == 1  # actions without labels stay numbers
    with pytest.raises(InvalidInput, match=r"^unknown state 'sever': did you mean severe\?$"):
        NAMED.act(0, "sever")
    with pytest.raises(InvalidInput, match=r"has no labels of states: give a number in 0\.\.1"):
        Policy([[0, 1]]).act(0, "mild")
    assert NAMED.stochastic(2).act(0, "severe", rng) == "treat"


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        (("a",), None, "state_labels must have 2 words for this policy, got 1"),
        (("a", "a"), None, "state_labels must be different words"),
        ("ab", None, "state_labels must be a list of words"),
        ((1, 2), None, "state_labels must be a list of words"),
        (None, ("a",), "action_labels must have at least 2 words"),
    ],
)
def test_labels_are_checked(states, actions, message):
    with pytest.raises(InvalidInput, match=message):
        Policy([[0, 1]], states, actions)


def test_components_share_their_labels():
    with pytest.raises(InvalidInput, match="agree in the labels"):
        Mixture((NAMED, Policy(NAMED.actions)), [0.5, 0.5])


def test_files_without_labels_are_written_as_before_and_old_ones_load(tmp_path):
    Policy([[0, 1]]).save(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text()) == {
        "format": "discreet-policy", "version": 1, "kind": "deterministic", "actions": [[0, 1]],
    }  # fmt: skip
    np.savez_compressed(tmp_path / "old.npz", **RIGHT)
    assert load_policy(tmp_path / "old.npz") == Policy([[0, 1]])
    NAMED.save(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text())["version"] == 2


def archive(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            if not isinstance(content, bytes):
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, np.asarray(content), allow_pickle=True)
                content = buffer.getvalue()
            file.writestr(f"{name}.npy", content)
    return path


RIGHT = {"format": "discreet-policy", "version": 1, "kind": "deterministic", "actions": [[0, 1]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": ["discreet-policy", "x"]}, "does not hold a policy"),
        ({"version": [1, 1]}, "version of type ndarray"),
        ({"kind": ["deterministic", "x"]}, "its kind is not a word"),
        ({"state_labels": "word"}, "its labels are not words"),
        ({"state_labels": [[["a"]]]}, "labels are not words"),
        ({"actions": np.array([[2**64 - 1]], np.uint64)}, "must be numbers of actions, got 18446744073709551615"),
        ({"actions": [[{}]]}, "is damaged"),
        ({"other": [1]}, "does not hold a policy"),
        ({"actions": b"no array"}, "is damaged"),
    ],
    ids=str,
)
def test_odd_members_of_an_archive(tmp_path, change, message):
    with pytest.raises(InvalidInput, match=message) as error:
        load_policy(archive(tmp_path / "p.npz", **{**RIGHT, **change}))
    assert "\n" not in str(error.value)


def header(shape, kind="<i8"):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def test_nothing_is_unpacked_before_its_size_is_known(tmp_path, monkeypatch):
    """A header that claims more than there is, and an archive that inflates to more than a policy may have."""
    monkeypatch.setattr("discreet.base.policy_files.LARGEST", 2**22)
    bomb = header((10**14, 1)) + b"x" * 100
    much = archive(tmp_path / "much.npz", **{**RIGHT, "actions": header((1, 2**21)) + bytes(2**24)})
    assert much.stat().st_size < 2**16
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="is damaged"):
            load_policy(archive(tmp_path / "claims.npz", **{**RIGHT, "actions": bomb}))
        with pytest.raises(InvalidInput, match="unpacks to more than 4 MiB"):
            load_policy(much)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**24
    assert LARGEST < 2**29


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 200_000,
        b'{"format": "discreet-policy", "version": 1, "kind": "mixture", "actions": ' + 9000 * b"[" + b"]" * 9000,
        b'{"format": "discreet-policy", "version": 1, "kind": "deterministic", "actions": [[18446744073709551615]]}',
        b'{"format": "discreet-policy", "version": 1, "kind": "deterministic", "actions": [[1e400]]}',
        b'{"format": "discreet-policy", "version": 1, "kind": "deterministic", "actions": [[' + b"9" * 5000 + b"]]}",
        b'{"format": "discreet-policy", "version": true, "kind": "deterministic", "actions": [[0]]}',
        b'{"format": "discreet-policy", "version": 1, "kind": {}, "actions": [[0]]}',
        b'{"format": "discreet-policy", "version": 1, "kind": "stochastic", "probabilities": [[["a"]]]}',
    ],
    ids=range(8),
)  # fmt: skip
def test_odd_text(tmp_path, text):
    (tmp_path / "p.json").write_bytes(text)
    with pytest.raises(InvalidInput) as error:
        load_policy(tmp_path / "p.json")
    assert len(str(error.value)) < 600
    assert "\n" not in str(error.value)


def test_many_threads_may_save_to_one_name(tmp_path):
    failed = []

    def save():
        for _ in range(30):
            try:
                NAMED.save(tmp_path / "p.json")
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert load_policy(tmp_path / "p.json") == NAMED
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
