"""The state of a learner as bytes, so that another process can go on with it bit for bit.

What a learner remembers is a function of releases and public coins, so none of it is secret. It is saved without the
last release, which the privatizer's own state holds already: ``load_state`` is given that release again.

Two kinds of learners can be saved: those that plan anew from every release (``ucbvi``, ``obi``, ``psrl``), whose state
is a plan and coins, and those that move one policy along (``ucbpo``), whose state is a table of log-weights. Others are
refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import StochasticPolicy, policy_of, policy_tables
from discreet.base.saved_arrays import Saved, copies, from_bytes, taken_from, to_bytes, under
from discreet.base.types import NDArray
from discreet.learners.base import Learner, PlannedState, Problem, Replans, WeighsBlocks, all_told
from discreet.learners.block_history import COUNTS, EXPECTED, Books, weighed
from discreet.learners.effective_sample_size import believed
from discreet.learners.ucbpo import PolicyOptimiser, PolicyState
from discreet.mechanisms.release import Estimate, Release


def save_state(learner: Learner, state: Any) -> bytes:
    """What the learner remembers, but for the last release."""
    check_savable(learner)
    arrays = copies(learner=_identity(learner, state.problem), coins=state.coins, released=state.release is not None)
    arrays |= under("policy", Saved(policy_tables(state.policy), {})).public
    if isinstance(state, PolicyState):
        return to_bytes(arrays | copies(log_weights=state.log_weights, users=state.users))
    return to_bytes(arrays | copies(values=state.values) | _tables(state.books))


def load_state(learner: Learner, problem: Problem, release: Release | None, content: bytes) -> Any:
    """The state that was saved, for the same learner and problem; ``release`` is the last one that it had seen.

    Before the first release there is none; a release of no users is as good as that.
    """
    check_savable(learner)
    arrays = from_bytes(content)
    try:
        if not np.array_equal(arrays["learner"], _identity(learner, problem)):
            raise InvalidInput(
                f"the saved state is that of another learner or problem, not of {learner.name}: give the same learner "
                "with the same options, shape and number of users"
            )
        if arrays["released"] and release is None:
            raise InvalidInput(f"{learner.name} had seen a release when it was saved: give it that release again")
        seen = release if arrays["released"] else None
        policy = policy_of(taken_from("policy", Saved(arrays, {})).public)
        if isinstance(learner, PolicyOptimiser):
            if not isinstance(policy, StochasticPolicy):
                raise KeyError("probabilities")
            users = int(arrays["users"])
            return PolicyState(problem, policy, arrays["log_weights"], users, arrays["coins"], seen)
        if seen is not None and isinstance(learner, WeighsBlocks):
            seen = believed(seen)  # as it took it in
        books = _books(arrays, seen)
        known = seen if books is None else all_told(problem.shape, weighed(books), books)
        return PlannedState(problem, arrays["coins"], policy, arrays["values"], known, books=books)
    except KeyError:
        raise InvalidInput(f"the saved state is not one of {learner.name}: restore it from a whole copy") from None


def _tables(books: Books | None) -> dict[str, NDArray[Any]]:
    """The weighted sums of a learner that weighs blocks; nothing for others."""
    if books is None:
        return {}
    return copies(
        told=books.told,
        expected=books.expected,
        **{name: sums.values for name, sums in books.sums.items()},
        **{f"{name}_noise": sums.variance for name, sums in books.sums.items()},
        **{f"{name}_past": past for name, past in books.past.items()},
    )


def _books(arrays: Mapping[str, NDArray[Any]], release: Release | None) -> Books | None:
    if "told" not in arrays or release is None:
        return None
    sums = {name: Estimate(arrays[name], arrays[f"{name}_noise"]) for name in COUNTS}
    past = {name: arrays[f"{name}_past"] for name in (*COUNTS, EXPECTED)}
    return Books(release, sums, arrays["expected"], arrays["told"], past)


def check_savable(learner: Learner) -> None:
    """Refuse a learner whose state cannot be saved yet."""
    if not isinstance(learner, Replans | PolicyOptimiser):
        raise Unsupported(
            f"the state of {learner.name} cannot be saved between rounds yet, because it remembers more than its last "
            "release and a policy: take ucbvi, obi, psrl or ucbpo"
        )


def _identity(learner: Learner, problem: Problem) -> NDArray[Any]:
    """A hash of the learner with its options, and of the problem."""
    return np.frombuffer(hashlib.sha256(f"{learner!r} {problem!r}".encode()).digest(), np.uint8)
