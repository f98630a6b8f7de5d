"""Policies: validation, acting, equality, and files that read back exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, StochasticPolicy, load_policy, uniform_policy
from discreet.base.shape import Shape

STAY = Policy([[0, 1, 2], [2, 1, 0]])
GO = Policy([[1, 1, 1], [0, 0, 0]])


def awkward_probabilities() -> np.ndarray:
    # Rows that sum to one up to rounding, and that would change if they were divided by their sum once more.
    rows = np.random.default_rng(5).dirichlet(np.full(7, 0.3), size=(40, 3))
    rows /= rows.sum(axis=-1, keepdims=True)
    assert (rows / rows.sum(axis=-1, keepdims=True) != rows).any()
    return rows


EVERY_KIND = [STAY, StochasticPolicy(awkward_probabilities()), Mixture((STAY, GO), np.array([0.1, 0.9]))]


@pytest.mark.parametrize("policy", EVERY_KIND, ids=["deterministic", "stochastic", "mixture"])
@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_files_read_back_exactly(policy, suffix, tmp_path):
    path = tmp_path / f"policy{suffix}"
    policy.save(path)
    again = load_policy(path)
    assert again == policy
    assert type(again) is type(policy)
    assert hash(again) == hash(policy)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_failed_save_leaves_the_old_file_and_no_debris(tmp_path, monkeypatch):
    path = tmp_path / "policy.json"
    STAY.save(path)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("discreet.base.policies.os.replace", fail)
    with pytest.raises(InvalidInput, match="No space left"):
        GO.save(path)
    assert load_policy(path) == STAY
    assert [file.name for file in tmp_path.iterdir()] == ["policy.json"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.json", None, "cannot be read"),
        ("policy.pickle", b"", "end in .json or .npz"),
        ("half.json", b'{"format": "discreet-po', "damaged"),
        ("half.npz", b"PK\x03\x04 and no more", "damaged"),
        ("empty.npz", b"", "damaged"),
        ("list.json", b"[1, 2]", "does not hold a policy"),
        ("other.json", b'{"actions": [[0]]}', "does not hold a policy"),
        ("new.json", {"version": 99, "kind": "deterministic", "actions": [[0]]}, "version 99"),
        ("kind.json", {"version": 1, "kind": "neural"}, "unknown kind of policy 'neural'"),
        ("bare.json", {"version": 1, "kind": "stochastic"}, "a table is missing"),
        ("scalar.json", {"version": 1, "kind": "mixture", "actions": 3, "weights": [1.0]}, "a table is missing"),
        ("bad.json", {"version": 1, "kind": "deterministic", "actions": [[-1]]}, "must not be negative"),
    ],
)
def test_bad_files_are_refused(name, content, message, tmp_path):
    path = tmp_path / name
    if isinstance(content, dict):
        content = json.dumps({"format": "discreet-policy"} | content).encode()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        load_policy(path)


def test_files_never_unpickle(tmp_path):
    path = tmp_path / "policy.npz"
    np.savez(path, format="discreet-policy", version=1, kind="deterministic", actions=np.array([[{}]], dtype=object))
    with pytest.raises(InvalidInput, match="damaged"):
        load_policy(path)


def test_saving_refuses_other_suffixes(tmp_path):
    with pytest.raises(InvalidInput, match=r"end in \.json or \.npz, got 'policy\.txt'"):
        STAY.save(tmp_path / "policy.txt")


def test_acting():
    rng = np.random.default_rng(0)
    assert [STAY.act(1, s) for s in range(3)] == [2, 1, 0]
    sure = StochasticPolicy([[[0, 1, 0], [0, 0, 1]]])
    assert [sure.act(0, s, rng) for s in (0, 1)] == [1, 2]
    thirds = StochasticPolicy([[[0.25, 0.75]]])
    drawn = sum(thirds.act(0, 0, rng) for _ in range(2000))
    assert abs(drawn - 1500) < 5 * np.sqrt(2000 * 0.25 * 0.75)  # five standard deviations
    assert STAY.draw() is STAY
    assert sure.draw() is sure


def test_a_mixture_draws_one_component_per_episode():
    rng = np.random.default_rng(0)
    mixture = Mixture((STAY, GO), [0.25, 0.75])
    drawn = sum(mixture.draw(rng) == GO for _ in range(2000))
    assert abs(drawn - 1500) < 5 * np.sqrt(2000 * 0.25 * 0.75)
    with pytest.raises(Unsupported, match="call draw"):
        mixture.act(0, 0, rng)
    assert Mixture((GO,), [1.0]).act(0, 2) == 1


@pytest.mark.parametrize("policy", EVERY_KIND[:2], ids=["deterministic", "stochastic"])
def test_acting_outside_the_domain_is_refused(policy):
    rng = np.random.default_rng(0)
    for step, state, name in [(-1, 0, "step"), (policy.horizon, 0, "step"), (0, -1, "state"), (0, 3, "state")]:
        with pytest.raises(InvalidInput, match=f"{name} must lie in"):
            policy.act(step, state, rng)


def test_random_policies_ask_for_a_generator():
    with pytest.raises(InvalidInput, match="pass rng="):
        EVERY_KIND[1].act(0, 0)
    with pytest.raises(InvalidInput, match="pass rng="):
        EVERY_KIND[2].draw()


def test_equality_is_by_value():
    assert Policy([[0, 1, 2], [2, 1, 0]]) == STAY
    assert STAY != GO
    assert Policy([[0, 1, 2]]) != STAY
    assert STAY.stochastic(3) != STAY
    assert Mixture((STAY, GO), [0.5, 0.5]) != Mixture((GO, STAY), [0.5, 0.5])
    assert Mixture((STAY, GO), [0.5, 0.5]) != Mixture((STAY, GO), [0.4, 0.6])
    assert len({STAY, Policy(STAY.actions), GO}) == 2


def test_policies_cannot_be_changed_through_their_arrays():
    table = np.array([[0, 1]])
    policy = Policy(table)
    table[0, 0] = 1
    assert policy.act(0, 0) == 0
    with pytest.raises(ValueError, match="read-only"):
        policy.actions[0, 0] = 1


def test_stochastic_form_and_uniform():
    table = STAY.stochastic(4)
    assert table.probabilities.shape == (2, 3, 4)
    assert (table.probabilities.argmax(axis=-1) == STAY.actions).all()
    with pytest.raises(InvalidInput, match="at least 3"):
        STAY.stochastic(2)
    uniform = uniform_policy(Shape(3, 4, 2))
    assert (uniform.probabilities == 0.25).all()
    assert uniform.probabilities.shape == (2, 3, 4)


def test_rows_that_do_not_quite_sum_to_one_are_normalised():
    policy = StochasticPolicy([[[0.5, 0.5 + 1e-9]]])
    assert abs(policy.probabilities.sum() - 1) < 1e-15


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Policy([0, 1]), "with 2 axes"),
        (lambda: Policy([[0.0, 1.0]]), "whole numbers"),
        (lambda: Policy([[True, False]]), "whole numbers"),
        (lambda: Policy(np.empty((0, 3), dtype=np.int64)), "non-empty"),
        (lambda: Policy([[0, 1], [0]]), "rectangular"),
        (lambda: Policy([[0, -1]]), "must not be negative, got -1"),
        (lambda: StochasticPolicy([[0.5, 0.5]]), "must have 3 axes"),
        (lambda: StochasticPolicy([[[0.5, 0.6]]]), "sum to one"),
        (lambda: StochasticPolicy([[[1.5, -0.5]]]), "negative"),
        (lambda: StochasticPolicy([[[np.nan, 1.0]]]), "finite"),
        (lambda: Mixture((), np.array([])), "one or more deterministic policies"),
        (lambda: Mixture((STAY.stochastic(3),), [1.0]), "deterministic policies"),
        (lambda: Mixture((STAY, Policy([[0]])), [0.5, 0.5]), "agree in horizon and states"),
        (lambda: Mixture((STAY, GO), [1.0]), r"one entry per component \(2\), got 1"),
        (lambda: Mixture((STAY, GO), [0.9, 0.2]), "sum to one"),
    ],
)
def test_bad_policies_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
