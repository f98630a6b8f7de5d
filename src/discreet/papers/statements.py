"""Where the five papers say what they say: place, sentence and condition of every statement that is computed here.

A statement is read in favour of its paper. ``says`` is the sentence, in a few words of the paper or in ours;
``condition`` is what the paper demands for it, and what we had to read into it; ``computed`` is how our number is
found. ``standing`` is one of three:

* ``FAILS``: the statement does not hold at the sizes named, with all its conditions met;
* ``BEYOND``: something runs, or is listed in a table, outside the conditions under which the paper proves it;
* ``HOLDS``: the statement is true at the sizes named.

The page of errata is made from these by :mod:`discreet.papers.errata`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

FAILS, BEYOND, HOLDS = "does not hold", "beyond its conditions", "holds"

_LAPLACE = "the L1 norm of each stream over the scale of its noise, added up: one pair of users attains all of them"
_MULTIPLES = "the L2 norm of each statistic over its noise, added up as zero-concentrated budgets"


class Statement(NamedTuple):
    """One statement of a paper, and how it is checked."""

    where: str
    says: str
    condition: str
    computed: str
    standing: str
    reading: bool = False  # whether the verdict hinges on a reading of ours
    below: float = math.inf  # it is proved for epsilons below this one


STATEMENTS: Mapping[str, Statement] = {
    "published/heavy-tailed-central": Statement(
        "Lemma 1, proof in appendix C.2, with Algorithm 2",
        "the central privatizer with Lap(6 B_k H log K / epsilon) on rewards and Lap(3 H log K / epsilon) on both "
        "kinds "
        'of counts "is epsilon-DP"',
        "any epsilon > 0, neighbours differ in one user (Definition 1), thresholds B_k that do not decrease; the "
        "number "
        "is for one threshold, which the text after Lemma 13 calls the standard case, and log is read as log2",
        _LAPLACE,
        FAILS,
    ),
    "published/heavy-tailed-central-raw-counts": Statement(
        "equations (1) and (3) and the argument after (3), for Theorem 1",
        "a reward is kept if it is within B_N, where N is the raw number of earlier visits; the proof compares streams "
        "of kept rewards that differ in one entry",
        "any epsilon > 0, B_n not decreasing; the number is for B_n proportional to the square root of n, as in "
        "Theorem 2 with v = 1",
        "the loss of one pair of data sets in the printed tree: `raw_count_loss(K)`, with noise for L levels",
        FAILS,
    ),
    "published/heavy-tailed-local": Statement(
        "Lemma 2 and the paragraph before it",
        "with Lap(3 H / epsilon) on counts and Lap(6 H B / epsilon) on rewards the local privatizer "
        '"is epsilon-LDP", because at most H pairs are met in an episode',
        "0 < epsilon <= 1, any two users",
        _LAPLACE,
        FAILS,
    ),
    "published/adversarial-full-information": Statement(
        "Lemma 5.1, proof in appendix F.2; section 5.1, (1) and (2)",
        'the central privatizer "is epsilon-DP"; each of three streams is said to cost epsilon / 3',
        "any epsilon > 0, users differ in one (Definition 2.1), and a user's data are her path and her whole table of "
        "losses (section 2.2); counters for all (x, a, x'), those of the last step included; log is read as log2, as "
        "in "
        "Algorithm 4",
        _LAPLACE,
        FAILS,
    ),
    "published/adversarial-bandit": Statement(
        "Lemmas 5.1 and 5.6, proofs in appendix F.2; section 5.1, (1) and (3)",
        'the central privatizer "is epsilon-DP"; losses are said to cost epsilon / 3, because an episode has at most H',
        "any epsilon > 0, users differ in one (Definition 2.1); counters for all (x, a, x'), those of the last step "
        "included; log is read as log2",
        _LAPLACE,
        FAILS,
    ),
    "published/adversarial-full-information-local": Statement(
        "Lemma 5.7; section 5.2, (1) and (2)",
        'the local privatizer "is epsilon-LDP"',
        "any epsilon > 0, any two trajectories, the table of losses included (section 2.2)",
        _LAPLACE,
        FAILS,
    ),
    "published/adversarial-bandit-local": Statement(
        "Lemmas 5.6 and 5.7; section 5.2, (1) and (3)",
        'the local privatizer "is epsilon-LDP"',
        "any epsilon > 0, any two trajectories",
        _LAPLACE,
        FAILS,
    ),
    "published/ldp-obi-laplace": Statement(
        "Table 1; appendix F, Algorithm 3 with parameter epsilon / (6 H)",
        "Lap(6 H / epsilon) gives (epsilon, 0)-LDP",
        "any epsilon > 0",
        _LAPLACE,
        HOLDS,
    ),
    "published/ldp-obi-randomised-response": Statement(
        "Proposition 12 with Algorithm 5",
        "randomised response with epsilon / (6 H) a bit is (epsilon, 0)-LDP",
        "any epsilon > 0",
        "the number of bits that flip, times the loss of a bit",
        HOLDS,
    ),
    "published/ldp-psrl": Statement(
        "appendix G, before (103)",
        "Lap(8 H / epsilon) on four tables is (epsilon, 0)-LDP",
        "any epsilon > 0",
        _LAPLACE,
        HOLDS,
    ),
    "published/ldp-obi-gaussian-large": Statement(
        "Proposition 10 with Algorithm 4",
        "Gaussian noise of deviation c H / epsilon is (epsilon, delta)-LDP",
        "0 < epsilon <= 1 and c > 4 ln(24 / delta); the number is for c equal to that bound, also at an "
        "epsilon of 20, which Proposition 10 does not speak of",
        "the exact Gaussian profile at the L2 norm of the three tables",
        HOLDS,
    ),
    "published/ldp-obi-gaussian": Statement(
        "Proposition 11; Table 1; Figure 2",
        "Proposition 11 admits c^2 >= 4 ln(24 / delta) and any epsilon > 0 for a list of properties (Assumption 3) "
        "that "
        "starts with (epsilon, delta)-LDP; Table 1 lists (epsilon, delta) for epsilon > 0",
        "Proposition 11 proves the error bounds in that list; privacy is proved in Proposition 10, for epsilon <= 1 "
        "and "
        "c > 4 ln(24 / delta). Figure 2 has epsilon up to 20 with delta 0.1, and no c is printed: the number is for "
        "the "
        "smallest c that Proposition 11 admits",
        "the exact Gaussian profile at the L2 norm of the three tables",
        BEYOND,
    ),
    "published/ldp-obi-bounded": Statement(
        "Proposition 14 with Algorithm 6; Table 1; Figure 2",
        "Table 1 lists (epsilon, delta) for epsilon > 0; Figure 2 runs with delta 0.1",
        "Proposition 14 proves (3 H e, delta') for a step's epsilon e < 1, delta >= exp(-S A / ln(S A)^8), which is "
        "0.745 for S = A = 2, and a constant C that is not named. The number hinges on our reading: C = 1, as "
        "Proposition 15 prints the radii, and e = epsilon / (3 H)",
        "the exact law of the noise, at the worst shift of the three tables",
        BEYOND,
        reading=True,
    ),
    "published/ldp-shuffle-appendix": Statement(
        "appendix I.1, after (109), with Algorithms 8 to 10",
        'bits answered with e each are "roughly" H e-LDP',
        "any e > 0; an order of magnitude, and no more is said; one reward bit",
        "the number of bits that flip, times the loss of a bit",
        HOLDS,
    ),
    "published/ldp-shuffle-appendix-batch": Statement(
        "appendix I.1, formula (113)",
        "at the beginning of episode k the counts of visits and of transitions are (epsilon_kc, delta)-DP",
        "p from 14 ln(4 / delta) / ((k - 1) H) to 1; one bag, of users who are shuffled once. The number is for bags "
        "that also show the step of each bit and the rewards, which is more than the formula speaks of",
        "the worst of all crowds, all flipped bits composed: an upper bound",
        HOLDS,
    ),
    "published/offline-apvi": Statement(
        "Theorem 3.4 and Lemma D.1",
        "DP-APVI with N(0, 2 H / rho) on all counts satisfies rho-zCDP",
        "any rho > 0, replacing one trajectory",
        _MULTIPLES,
        HOLDS,
    ),
    "published/offline-apvi-laplace": Statement(
        "the paragraph on pure DP after Theorem 3.4",
        "the L1 sensitivity of both tables is 4 H, so Lap(4 H / epsilon) gives epsilon-DP",
        "any epsilon > 0, replacing one trajectory",
        _LAPLACE,
        HOLDS,
    ),
    "published/offline-vapvi": Statement(
        "Theorem 4.1 and Lemma E.1, with Algorithm 2",
        "DP-VAPVI satisfies rho-zCDP",
        "features of norm at most one; the data are divided into two halves, D' for variances and D for values, so a "
        "trajectory is in one of them; the number is for one in D'",
        f"{_MULTIPLES}: `linear_costs(split=True)`",
        HOLDS,
    ),
    "published/offline-vapvi-experiment": Statement(
        "section 5 and appendix G, Figure 1",
        "DP-VAPVI is run with different privacy budgets",
        "the run does not split the data, as section 5 says, and its features have squared norms up to 7: Theorem 4.1 "
        "is not about it",
        f"{_MULTIPLES}, at the largest moves over the 200 pairs of appendix G: `linear_costs(split=False, "
        "features='experiment')`; an upper bound",
        BEYOND,
    ),
    "published/sdp-pe": Statement(
        "Lemma 10, proof in appendix B-D",
        "the shuffle privatizer satisfies (epsilon, beta)-SDP",
        "0 < epsilon < 1 (the experiments have 0.1 and 1), and tau of the order log(1 / beta') / epsilon'^2; the "
        "number is for the tau of the proof, "
        "96 ln(2 / beta') / epsilon'^2, for a batch that shows sums only, as the proof has it, and for all steps of a "
        "fine exploration",
        "the exact profile of binomial noise at all 6 H moves",
        HOLDS,
        below=1.0,
    ),
    "published/sdp-pe-split": Statement(
        "proof of Lemma 10, appendix B-D, the step on one batch",
        "counters that are each (epsilon / (3 H), beta / (H X A))-private give epsilon / 3 for each of three tables, "
        "because one user changes at most H of its counters",
        "0 < epsilon < 1, one user replaced (section II-B), all H steps as in a fine exploration. A gap of the proof "
        "and not of the mechanism: with the tau of the proof Lemma 10 holds, see `published/sdp-pe`",
        "the number of counters that change, times the loss of a counter that has no room",
        FAILS,
        below=1.0,
    ),
    "published/sdp-pe-integer-messages": Statement(
        "section V, the encoder; proof of Lemma 10, appendix B-D",
        "a user sends z = bit + sum of noise bits as one message; the proof takes the bag of messages for their sum",
        "0 < epsilon < 1 (the experiments have 0.1 and 1), the tau of the proof, and batches of n = 2 L_b users by "
        "Algorithm 1 with K users (its sum "
        "read as that of the stages before, at most 5,144 for K = 20,000). It depends on n / tau, so both cases are "
        "listed",
        "at least: `integer_message_delta`, the probability that a message proves a true bit; at most: "
        "`integer_message_bound`, a Chernoff bound over the bag",
        FAILS,
        below=1.0,
    ),
}
