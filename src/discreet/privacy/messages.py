"""What certificates say beyond laws and moves: messages that are randomised as a whole, and mixtures of releases.

Additive noise is described by its law; what is answered bit by bit or item by item is described by one of the messages
here, by the fractions that are really used. They promise nothing: a rule (``from_reports``) takes one beside the
profile that belongs to it, and whoever checks the certificate computes that profile anew from the fractions.

``MixedReleases`` says how far one user shows in many releases that are mixed before noise is added: from its numbers
the length of her move can be computed anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class AnsweredBits:
    """``bits`` bits change with the user, each answered falsely with probability ``lie``.

    ``others`` users answer the same counters and only the numbers of ones are seen; 0: her answers are seen.
    """

    lie: Fraction
    bits: int
    others: int = 0


@dataclass(frozen=True)
class SampledItems:
    """``reports`` reports of one item each; ``laws``: numbers of items, and the probability of each wrong one."""

    reports: int
    laws: tuple[tuple[int, Fraction], ...]


@dataclass(frozen=True)
class ShuffledItem:
    """One of ``items`` items, each wrong one with probability ``lie``.

    ``others`` users send one of the same items by the same law, and only how often each was sent is seen.
    """

    items: int
    lie: Fraction
    others: int


@dataclass(frozen=True)
class BitPerItem:
    """``reports`` reports of a bit per item: one with probability 1/2 for her item, with ``lie`` for every other."""

    reports: int
    lie: Fraction


@dataclass(frozen=True)
class BoundedReports:
    """``reports`` reports whose loss is at most ``epsilon`` each, which the message's own rounding rule ensures."""

    reports: int
    epsilon: float


@dataclass(frozen=True)
class MixedReleases:
    """Counts of ``releases`` releases, mixed by a lower-triangular Toeplitz matrix, in steps of 2^-bits.

    Its first column is c_0 = 1 and c_j = sum of w l^j over ``terms`` (b, W, p): l = 1 - 2^-b, w = W 2^-p. A user moves
    the counts of one release by vectors of norms ``own_l1`` and ``own_l2``.
    """

    releases: int
    bits: int
    terms: tuple[tuple[int, int, int], ...]
    own_l1: float
    own_l2: float


Message = AnsweredBits | SampledItems | ShuffledItem | BitPerItem | BoundedReports
