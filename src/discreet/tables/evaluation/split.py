"""Who is learned from and who is held out: a random permutation of positions with public sizes, kept with the data.

Users have positions 0 .. n - 1 in the source (:mod:`discreet.tables.read.user_subsets`). A key of 256 bits from the
operating system gives every position a random word (SHAKE-256), and the users with the smallest words are the first
part. Sizes depend on n and the declared share alone, so they are public; the key is a secret of the data's owner, like
the data.

**Why the whole costs what one part costs.** Let D and D' be neighbours: they have n users each, and n - 1 of them in
common. Write p(u) for the position of a user, and let pi be the permutation that a key stands for. The releases are a
random function of the pair (users in part one, users in part two).

1. *Replaced in place*: the new user has the old one's position and everybody else keeps hers. Then, for every key,
   everybody else is in the same part in D as in D', and the replaced user is in the same part as before. Only one
   part's release sees a change, so for every key the privacy loss is that of this part, and the profile of the whole is
   the larger of the two. This holds even if the key is published.
2. *Replaced anywhere*: the new rows stand elsewhere, so positions of others shift: p'(u) = s(p(u)) for a bijection s of
   positions. For the permutation pi o s^-1, which is as likely as pi, everybody has the part in D' that she has in D
   under pi. So D' under a random key is distributed as D with one user replaced in place, and 1 applies to each pair of
   keys; the mixture over keys is no worse than its worst member. This needs the key to be secret, and uniform whatever
   the data are. So the neighbours are those of every other release of this library: any user may be replaced by any
   other.

A split is recorded in a file that belongs with the data. It holds the key, the sizes, and a keyed digest of the users'
identifiers in order: a later evaluation uses the same split on the same users in the same order, or refuses. What may
be published is the receipt's line: the sizes and the SHA-256 of the key.

The file also keeps **what was asked of it**: ``remember`` writes each request, with its epsilon, delta or rho, under a
lock and before noise is drawn, so the sum is never less than what was spent through this file. A copy of it forgets
what was asked of the other: only a ledger (:mod:`discreet.ledger`) does not. An interrupted write leaves the old file.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.files import as_path, shortened, write_atomically
from discreet.base.system import alone_with
from discreet.base.types import Integers, Mask
from discreet.base.validation import check_open_unit
from discreet.privacy.words import rounded_up
from discreet.tables.read.user_subsets import Ordered

_FORMAT, VERSION = "discreet-split", 2  # version 1, of 0.2.0, did not keep what was asked
_WORDS = 16  # bytes for each position: two are equal with probability 2^-128


class Asked(NamedTuple):
    """A request to the users of a split: what it was, when, and what it may have cost."""

    what: str
    time: str
    epsilon: float | None
    delta: float
    rho: float | None


@dataclass(frozen=True)
class Split:
    """A recorded split: how many users there are, how many are held out, the secret key and whom it was made for.

    Args:
        users: How many there are.
        held_out: How many of them judge.
        key: The secret that says who.
        identity: A keyed digest of the users that it was made for.
        asked: What was asked of them, as far as this file knows.

    Examples:
        >>> from discreet.offline import Split
        >>> Split(users=100, held_out=35, key=bytes(32), identity="patient").held_out
        35
    """

    users: int
    held_out: int
    key: bytes = field(repr=False)
    identity: str = field(repr=False)
    asked: tuple[Asked, ...] = field(default=(), repr=False, compare=False)

    @property
    def learned_from(self) -> int:
        """How many users the first part has."""
        return self.users - self.held_out

    def held_out_mask(self) -> Mask:
        """Which positions are held out."""
        mask = np.zeros(self.users, np.bool_)
        mask[permutation(self.key, "parts", self.users)[self.learned_from :]] = True
        return mask

    def halves_of_held_out(self, share: float) -> tuple[Mask, Mask]:
        """The held-out positions in two parts, a table's and an evaluation's; ``share`` of them are the latter."""
        held = np.flatnonzero(self.held_out_mask())
        size = part_size(len(held), share)
        order = held[permutation(self.key, "halves", len(held))]
        first, second = np.zeros(self.users, np.bool_), np.zeros(self.users, np.bool_)
        first[order[: len(held) - size]] = True
        second[order[len(held) - size :]] = True
        return first, second

    def facts(self) -> dict[str, Any]:
        """What may be published of a split: sizes, and the digest of its key."""
        return {
            "users": self.users,
            "learned_from": self.learned_from,
            "held_out": self.held_out,
            "by": "a random permutation of positions (order of first appearance), with a secret key",
            "key_sha256": hashlib.sha256(self.key).hexdigest(),
        }

    def text(self) -> str:
        """The split as its file holds it."""
        facts = {
            "format": _FORMAT,
            "version": VERSION,
            "private": "keep this file with the data: it says who was held out; a copy forgets what is asked later",
            "users": self.users,
            "held_out": self.held_out,
            "key": self.key.hex(),
            "identity": self.identity,
            "asked": [each._asdict() for each in self.asked],
        }
        return json.dumps(facts, indent=1) + "\n"

    def total(self) -> dict[str, float]:
        """What all requests may have cost together: epsilons, deltas and rhos, added up."""
        columns = {name: [getattr(each, name) for each in self.asked] for name in ("epsilon", "delta", "rho")}
        return {name: math.fsum(cost for cost in costs if cost) for name, costs in columns.items()}

    def sum_words(self) -> str:
        """The sum in a sentence."""
        spent = [f"{name} {rounded_up(cost)}" for name, cost in self.total().items() if cost]
        times = "once" if len(self.asked) == 1 else f"{len(self.asked):,} times"
        return (
            f"The people of this split were asked {times}, as far as its file knows: {' and '.join(spent)} in all. A "
            "copied file forgets, and so does a new split of the same people; only a ledger does not."
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the split to a file, which belongs with the data."""
        write_atomically(as_path(path), self.text(), private=True)

    def check(self, ordered: Ordered) -> None:
        """Refuse a source that does not hold the same users in the same order."""
        if ordered.users != self.users or not hmac.compare_digest(identity(ordered, self.key), self.identity):
            raise InvalidInput(
                "the recorded split was made for other users, or for the same in another order: read the source that "
                "the policy was learned from, as it was then"
            )


def draw_split(ordered: Ordered, holdout: float) -> Split:
    """A fresh split of the users of a source, ``holdout`` of whom are held out; the key comes from the system."""
    size, key = part_size(ordered.users, holdout), secrets.token_bytes(32)
    return Split(ordered.users, size, key, identity(ordered, key))


def part_size(users: int, share: float) -> int:
    """How many of the users a share is: public, because it depends on their number alone."""
    check_open_unit("holdout", share)
    size = int(users * share + 0.5)
    if not 1 <= size < users:
        raise InvalidInput(f"a share of {share:g} of {users} users leaves a part without users: give another share")
    return size


def permutation(key: bytes, purpose: str, size: int) -> Integers:
    """Positions in the order of their random words; every order is as likely as any other.

    >>> sorted(permutation(bytes(32), "parts", 4).tolist())
    [0, 1, 2, 3]
    """
    words = hashlib.shake_256(purpose.encode() + b"\0" + key).digest(_WORDS * size)
    high, low = np.frombuffer(words, "<u8").reshape(size, 2).T
    return np.lexsort((low, high))


def identity(ordered: Ordered, key: bytes) -> str:
    """A keyed digest of the users' identifiers, in order."""
    digest = hashlib.blake2b(key=key[:32], digest_size=32)
    for piece in ordered.identifiers():
        digest.update(piece)
    return digest.hexdigest()


def load_split(path: str | os.PathLike[str]) -> Split:
    """Read a recorded split.

    Args:
        path: The file that ``train(..., split=)`` or ``discreet train --holdout`` wrote.

    Examples:
        >>> import discreet.offline
        >>> discreet.offline.load_split("nobody.split.json")
        Traceback (most recent call last):
        discreet.base.errors.InvalidInput: ...
    """
    file = as_path(path)
    try:
        found = json.loads(file.read_text())
        version = found["version"] if found["format"] == _FORMAT else None
        if version == VERSION and type(version) is int:
            asked = tuple(Asked(**each) for each in found["asked"])
            key = bytes.fromhex(found["key"])
            split = Split(int(found["users"]), int(found["held_out"]), key, found["identity"], asked)
            split.total()
            if 1 <= split.held_out < split.users and len(split.key) == 32 and isinstance(split.identity, str):
                return split
    except (OSError, ValueError, KeyError, TypeError):
        version = None
    if type(version) is int and version != VERSION:
        raise InvalidInput(
            f"{shortened(file)} is a split of version {version}, and those of version {VERSION} keep what was asked: "
            "train again with --holdout and another file for --split"
        )
    raise InvalidInput(f"{shortened(file)} is not a recorded split: give the file that train --holdout wrote")


def remember(
    split: Split, path: str | os.PathLike[str] | None, what: str, epsilon: float | None, delta: float,
    rho: float | None,
) -> Split:  # fmt: skip
    """The split with one more request, written to its file if it has one: before the noise of the answer is drawn.

    A file that is not there yet is made; one of another split is refused.
    """
    time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    asked = Asked(what, time, epsilon, delta, rho)
    if path is None or not as_path(path).exists():
        split = replace(split, asked=(*split.asked, asked))
        if path is not None:
            split.save(path)
        return split
    with _alone(as_path(path)) as file:
        now = load_split(file)
        if now != split:
            raise InvalidInput(f"{shortened(file)} has become another split meanwhile: run the command again")
        now = replace(now, asked=(*now.asked, asked))
        now.save(file)
    return now


@contextmanager
def _alone(file: Path) -> Iterator[Path]:
    """One process at a time."""
    try:
        with alone_with(file):
            yield file
    except OSError as error:
        raise InvalidInput(f"cannot read {shortened(file)}: {error.strerror or 'the system refused'}") from None
