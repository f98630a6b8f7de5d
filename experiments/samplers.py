"""Exact noise of real releases: our own sampler and OpenDP's, in turns in one process.

    python -m experiments.samplers [--draws 2000000] [--theirs 40000] [--rounds 5]

Draws per processor second on one core, entropy of the operating system included, tables of a law prepared before:
medians over rounds, and the median of the ratio within a round. Randomised response has no counterpart there. Both
samplers have exactly the stated law; ``tests/statistical/test_exact_noise.py`` compares them with it and with each
other.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from discreet.noise import DiscreteGaussian, DiscreteLaplace, KaryRandomizedResponse, RandomizedResponse
from discreet.noise.exact_sampler import OPENDP, OWN
from discreet.simulation.experiments import in_turns

AIM = 5e6
SCALES = (0.3, 6.0, 41.3, 1e4, 1e9)


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
            sizes = (OWN, given.draws), (OPENDP, given.theirs)
            works = [(lambda by=by, n=n, law=law: law.secure_by(by, n), n) for by, n in sizes]
            rates = in_turns(*works, rounds=given.rounds, clock=time.thread_time)
            (first, second), ratio = np.median(rates, axis=0), np.median(rates[:, 0] / rates[:, 1])
            print(f"{family.__name__ + f', {scale:g}':>30} {first:14,.0f} {second:12,.0f} {ratio:7.0f}x")
    for name, response, items in (
        ("one bit", RandomizedResponse(1.0), 2),
        ("five items", KaryRandomizedResponse(1.0, 5), 5),
    ):
        values = np.arange(given.draws) % items
        work = (lambda r=response, v=values: r.randomize_securely(v), given.draws)
        print(
            f"{'randomised response, ' + name:>30} {np.median(in_turns(work, rounds=5, clock=time.thread_time)):14,.0f}"
        )


if __name__ == "__main__":
    main()
