"""What an intake keeps between two releases, so that another process can go on bit for bit: what of it is secret.

=====================  ==============================================  ==========================================
channel                public                                          secret, and why
=====================  ==============================================  ==========================================
blocks, totals         released sums, draws of noise in each row       nothing: the noise of a block is forgotten
focused blocks         released tables, draws of each law, how many    nothing: which rows come next follows from
                       blocks there were, whether the last one taught  releases
rewards of arms        users told to play each arm, and what the       nothing, with blocks
                       channel of rewards has
matrix mechanism       releases, clocks, what was published            mixed raw counts of the whole study
binary trees           releases, the clock                             nodes: they are noise, and a release less its
                                                                       noise is a raw count
reports of devices     decoded counts and their variances              nothing: devices have randomised their reports
=====================  ==============================================  ==========================================

The books of the intake (users served, users of each policy where blocks depend on that) are public: policies and the
sizes of blocks are. Where noise comes from is not saved: the operating system's entropy has no state to keep, and the
generator of a simulation belongs to whoever made it.

A saved state names the mechanism that it belongs to, by a hash of the recipe, the numbers of users and everything that
the guarantee rests on. It is resumed with that one or not at all: another mechanism would add other noise to the same
users than was promised to them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.policies import AnyPolicy, policy_of, policy_tables
from discreet.base.saved_arrays import Saved, copies, taken_from, under
from discreet.base.saved_arrays import from_bytes as from_bytes
from discreet.base.saved_arrays import to_bytes as to_bytes
from discreet.base.types import NDArray
from discreet.privacy.certificate import steps_of

if TYPE_CHECKING:
    from discreet.mechanisms.session import Privatizer

SavedIntake: TypeAlias = Saved


def identity(privatizer: Privatizer, total_users: int) -> NDArray[Any]:
    """A hash of what users were promised and how it is kept: a state is resumed only where it is the same."""
    guarantee, options = privatizer.guarantee, sorted(privatizer.options.items())
    about = [
        privatizer.recipe, repr(privatizer.shape), repr(options), total_users, privatizer.users, privatizer.masked,
        privatizer.schedule.describe(), guarantee.model, guarantee.epsilon, guarantee.delta,
        steps_of(guarantee.derivation),
    ]  # fmt: skip
    content = json.dumps(about, sort_keys=True, separators=(",", ":"))
    return np.frombuffer(hashlib.sha256(content.encode()).digest(), np.uint8)


def save_books(mechanism: NDArray[Any], served: int, followed: Counter[AnyPolicy]) -> Saved:
    """The books of an intake: which mechanism it runs, how many users it has served, and under which policies."""
    books = copies(mechanism=mechanism, served=served)
    for number, (policy, users) in enumerate(followed.items()):
        tables = copies(users=users) | {name: np.array(table) for name, table in policy_tables(policy).items()}
        books |= under(f"policy{number:06}", Saved(tables, {})).public
    return under("books", Saved(books, {}))


def load_books(saved: Saved, mechanism: NDArray[Any], total_users: int) -> tuple[int, Counter[AnyPolicy]]:
    """The users served and the users of each policy; refused for another mechanism or other numbers of users."""
    books = taken_from("books", saved).public
    wanted = copies(mechanism=mechanism, served=0)
    for name, array in wanted.items():
        if name not in books or books[name].shape != array.shape or books[name].dtype != array.dtype:
            raise InvalidInput("the saved state has no books, so it is not one of an intake: restore a whole copy")
    if not np.array_equal(books["mechanism"], wanted["mechanism"]):
        raise InvalidInput(
            "the saved state belongs to another mechanism, guarantee or number of users: resume it with the recipe and "
            "the version that it was saved with"
        )
    served, followed = int(books["served"]), Counter[AnyPolicy]()
    for prefix in sorted({name.split(".")[0] for name in books} - wanted.keys()):
        tables = taken_from(prefix, Saved(books, {})).public
        users = int(tables.pop("users"))
        followed[policy_of(tables)] = users
    if not 0 <= served <= total_users or sum(followed.values()) not in (0, served):
        raise InvalidInput("the books of the saved state do not add up: restore it from a whole copy")
    return served, followed
