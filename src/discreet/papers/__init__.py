"""The noise that five papers print, what they say it promises, and what it really gives. All of it is data.

An entry lists the streams that are released, each with its law as printed and with what replacing one user moves in
all of its releases. The truth is computed from those two and from nothing else; the claim stands beside it. Sizes mean:
states S, actions A, horizon H of the shape, K episodes. The adversarial paper's layered problems have S states in all
layers together and d = S A pairs. A tree over K - 1 users shows one user L = floor(log2(K-1)) + 1 times.

Where one factor is wrong everywhere: these papers define neighbours by *replacing* a user, which takes one unit out of
a cell and puts one into another at every step, but count H moves, as if a user were only added or removed.
"""

from __future__ import annotations

from collections.abc import Mapping

from discreet.audit.cases import Setting
from discreet.errors import unknown_name
from discreet.papers import adversarial, heavy_tailed, local, offline, shuffle
from discreet.papers.heavy_tailed import raw_count_loss
from discreet.papers.mechanism import AnsweredBits, Part, Published
from discreet.papers.shuffle import integer_message_delta, shuffle_noise_bits
from discreet.shape import Shape

__all__ = [
    "PUBLISHED",
    "AnsweredBits",
    "Part",
    "Published",
    "example",
    "integer_message_delta",
    "published",
    "raw_count_loss",
    "shuffle_noise_bits",
]

PUBLISHED: Mapping[str, Published] = {
    entry.name: entry for paper in (heavy_tailed, adversarial, local, offline, shuffle) for entry in paper.ENTRIES
}


def published(name: str) -> Published:
    """The entry of that name."""
    if name not in PUBLISHED:
        raise unknown_name("published recipe", name, PUBLISHED)
    return PUBLISHED[name]


def example(name: str) -> Setting:
    """Sizes at which the entry of that name is usually quoted: those of its own paper, where it gives them."""
    family = next(prefix for prefix in _EXAMPLES if name.startswith(f"published/{prefix}"))
    return _EXAMPLES[family]


# The first prefix that fits counts.
_EXAMPLES = {
    "heavy-tailed": Setting(Shape(6, 2, 20), 20_000, epsilon=1.0),
    "adversarial": Setting(Shape(16, 3, 4), 4_096, epsilon=1.0),
    "ldp-obi-gaussian": Setting(Shape(2, 2, 2, homogeneous=True), 20_000, epsilon=20.0, delta=0.1),
    "ldp-obi-bounded": Setting(Shape(2, 2, 2, homogeneous=True), 20_000, epsilon=20.0, delta=0.1),
    "ldp-shuffle-appendix-batch": Setting(Shape(4, 2, 6), 20_000, epsilon=1.0, delta=1e-5),
    "ldp": Setting(Shape(2, 2, 2, homogeneous=True), 20_000, epsilon=1.0),
    "offline-vapvi": Setting(Shape(2, 100, 20), 1_000, rho=1.0, delta=1e-5),
    "offline-apvi-laplace": Setting(Shape(5, 3, 5), 1_000, epsilon=1.0),
    "offline": Setting(Shape(5, 3, 5), 1_000, rho=1.0, delta=1e-5),
    "sdp-pe-split": Setting(Shape(4, 2, 6), 20_000, epsilon=1.0),
    "sdp-pe": Setting(Shape(4, 2, 6), 20_000, epsilon=1.0, delta=1e-5),
}
