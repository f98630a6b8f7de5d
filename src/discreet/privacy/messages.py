"""Messages that are randomised as a whole, as a certificate describes them: by the fractions that are really used.

Additive noise is described by its law; what is answered bit by bit or item by item is described by one of these. They
promise nothing: a rule (``from_reports``) takes one beside the profile that belongs to it, and whoever checks the
certificate computes that profile anew from the fractions here.
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
class BitPerItem:
    """``reports`` reports of a bit per item: one with probability 1/2 for her item, with ``lie`` for every other."""

    reports: int
    lie: Fraction


@dataclass(frozen=True)
class BoundedReports:
    """``reports`` reports whose loss is at most ``epsilon`` each, which the message's own rounding rule ensures."""

    reports: int
    epsilon: float


Message = AnsweredBits | SampledItems | BitPerItem | BoundedReports
