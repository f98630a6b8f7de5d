"""The noise that five papers print, what they say it promises, and what it really gives. One file per paper.

An entry (:class:`~discreet.papers.published_mechanism.Published`) lists the streams that are released, each with its
law as printed and with what replacing one user moves in it. The truth is computed from those and from nothing else; the
claim stands beside it. Recipes that run an entry stand in the same file, take their encoders and noise from its
streams, and state what the same function computes. The letters in all files:

=========  ==========================================================================================================
S, A, H    states, actions and steps of the shape; in layered problems S counts the states of all layers together
d          pairs of a state and an action: d = S A
K          episodes of a run, which are users
L          floor(log2 K) + 1: how many noisy sums show one user where a tree releases after each of K users
eps, rho   the target that a paper scales its noise by: pure or approximate, or zero-concentrated
=========  ==========================================================================================================

All five papers define neighbours by *replacing* a user, which takes one unit out of a cell and puts one into another
at every step. Three proofs count H moves of a table, as if a user were only added or removed: those of the heavy-tailed
rewards, of the adversarial losses and of SDP-PE. LDP-OBI counts 6 H in three tables and DP-APVI 4 H in two, and both
are right; DP-VAPVI's bound for one matrix is that of adding a user, and its theorem has room for replacing one.

What each paper says, where, and under which condition is in :mod:`discreet.papers.statements`; the page of errata is
made from it by :mod:`discreet.papers.errata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from discreet.base.errors import unknown_name
from discreet.base.packages import lazily, load
from discreet.base.shape import Shape
from discreet.papers.published_mechanism import Part, Published, Setting

if TYPE_CHECKING:
    from discreet.papers.dp_apvi import linear_costs
    from discreet.papers.heavy_ucbvi import raw_count_loss
    from discreet.papers.sdp_pe import integer_message_bound, integer_message_delta, shuffle_noise_bits

    PUBLISHED: Mapping[str, Published]

__all__ = [
    "PUBLISHED",
    "Part",
    "Published",
    "Setting",
    "entries",
    "example",
    "integer_message_bound",
    "integer_message_delta",
    "linear_costs",
    "published",
    "raw_count_loss",
    "shuffle_noise_bits",
]

_PAPERS = ("heavy_ucbvi", "uc_o_reps", "ldp_obi", "dp_apvi", "sdp_pe")
_HOMES = {
    "integer_message_bound": "discreet.papers.sdp_pe",
    "integer_message_delta": "discreet.papers.sdp_pe",
    "linear_costs": "discreet.papers.dp_apvi",
    "raw_count_loss": "discreet.papers.heavy_ucbvi",
    "shuffle_noise_bits": "discreet.papers.sdp_pe",
}
_find, _ = lazily(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    # Papers about one problem load its slice: nobody else should.
    return entries() if name == "PUBLISHED" else _find(name)


@cache
def entries() -> Mapping[str, Published]:
    """All entries by name; also known as ``PUBLISHED``."""
    return {entry.name: entry for paper in _PAPERS for entry in load(f"discreet.papers.{paper}:ENTRIES")}


def published(name: str) -> Published:
    """The entry of that name."""
    if name not in entries():
        raise unknown_name("published recipe", name, entries())
    return entries()[name]


def example(name: str) -> Setting:
    """Sizes at which the entry of that name is usually quoted: those of its own paper, where it gives them."""
    family = next(prefix for prefix in _EXAMPLES if name.startswith(f"published/{prefix}"))
    return _EXAMPLES[family]


# The first prefix that fits counts.
_EXAMPLES = {
    "heavy-tailed": Setting(Shape(6, 2, 20), 20_000, epsilon=1.0),
    "adversarial": Setting(Shape(16, 3, 4), 4_095, epsilon=1.0),
    "ldp-obi-gaussian": Setting(Shape(2, 2, 2, homogeneous=True), 20_000, epsilon=20.0, delta=0.1),
    "ldp-obi-bounded": Setting(Shape(2, 2, 2, homogeneous=True), 20_000, epsilon=20.0, delta=0.1),
    "ldp-shuffle-appendix-batch": Setting(Shape(4, 2, 6), 20_000, epsilon=1.0, delta=1e-5),
    "ldp": Setting(Shape(2, 2, 2, homogeneous=True), 20_000, epsilon=1.0),
    "offline-vapvi": Setting(Shape(2, 100, 20), 1_000, rho=1.0, delta=1e-5),
    "offline-apvi-laplace": Setting(Shape(5, 3, 5), 1_000, epsilon=1.0),
    "offline": Setting(Shape(5, 3, 5), 1_000, rho=1.0, delta=1e-5),
    "sdp-pe-integer-messages": Setting(Shape(1, 20, 1), 20_000, epsilon=0.9, delta=1e-5),
    "sdp-pe-split": Setting(Shape(4, 2, 6), 20_000, epsilon=0.9),
    "sdp-pe": Setting(Shape(4, 2, 6), 20_000, epsilon=1.0, delta=1e-5),
}
