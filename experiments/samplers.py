"""Exact noise of real releases: our own sampler and OpenDP's, in turns in one process.

    python -m experiments.samplers [--draws 2000000] [--theirs 40000] [--rounds 5]

Draws per processor second on one core, entropy of the operating system included, tables of a law prepared before:
medians over rounds, and the median of the ratio within a round. Randomised response has no counterpart there. Both
samplers have exactly the stated law; ``tests/statistical/test_exact_noise.py`` compares them with it and with each
other.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from discreet.noise import DiscreteGaussian, DiscreteLaplace, KaryRandomizedResponse, RandomizedResponse
from discreet.noise.exact_sampler import OPENDP, OWN

AIM = 5e6
SCALES = (0.3, 6.0, 41.3, 1e4, 1e9)


def speed(draw: Callable[[int], object], n: int) -> float:
    """Draws per processor second of this one thread."""
    began = time.thread_time()
    draw(n)
    return n / (time.thread_time() - began)


def main() -> None:
    """Measure in turns, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2_000_000)
    parser.add_argument("--theirs", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{'':>30} {'discreet':>14} {'OpenDP':>12} {'ratio':>8}   (draws per second; aim {AIM:,.0f})")
    for family in (DiscreteLaplace, DiscreteGaussian):
        for scale in SCALES:
            law = family(scale)
            ours, theirs = ((lambda n, by=by, law=law: law.secure_by(by, n)) for by in (OWN, OPENDP))
            ours(10), theirs(10)
            pairs = [(speed(ours, given.draws), speed(theirs, given.theirs)) for _ in range(given.rounds)]
            first, second = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"{family.__name__ + f', {scale:g}':>30} {first:14,.0f} {second:12,.0f} {ratio:7.0f}x")
    for name, response, items in (
        ("one bit", RandomizedResponse(1.0), 2),
        ("five items", KaryRandomizedResponse(1.0, 5), 5),
    ):
        values = np.arange(given.draws) % items
        fastest = [speed(lambda n, r=response, v=values: r.randomize_securely(v[:n]), given.draws) for _ in range(5)]
        print(f"{'randomised response, ' + name:>30} {statistics.median(fastest):14,.0f}")


if __name__ == "__main__":
    main()
