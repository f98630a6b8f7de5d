"""An audit of two samplers: how much privacy is lost for certain, up to a stated error probability.

A mechanism that is (epsilon, delta) private on neighbouring inputs P and Q satisfies, for every event,

    P(event) <= exp(epsilon) Q(event) + delta,     so     epsilon >= ln((P(event) - delta) / Q(event)).

The audit chooses an event with some draws and counts it in fresh ones. With Clopper and Pearson's exact limits for both
counts (one-sided, half of the error probability each) the right-hand side becomes a lower bound on epsilon that holds
with the stated confidence whatever the mechanism is. The best events are thresholds of the log-likelihood ratio
(Neyman and Pearson): a pair whose law is known gives that ratio as its score. A pair whose law is not known gives
features, and a score is trained: each feature alone, and the linear combination that best separates the two sides
(Fisher's discriminant).

Nothing here knows about decision problems. Several pairs may be offered, because a mechanism that takes any setting can
be put on trial in the one where it is easiest to catch; a quarter of the draws chooses pair, a quarter the event, and
half are counted, so the bound is one test and needs no correction for the choice.

A promise is a whole curve of points (epsilon, delta), and a mechanism that breaks it does so at some of them more
visibly than at others. A charge may list further points of its promise; the draws that choose the event choose the
point as well, by how many standard deviations P(event) - delta - exp(epsilon) Q(event) is above zero. ``power`` says
what the counted draws would have shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.scientific import special
from discreet.base.streams import Stream, stream
from discreet.base.types import ArrayLike, Floats
from discreet.base.validation import check_count, check_delta, check_open_unit

_CUTS = 256  # thresholds tried per score
_SHOWN = 40  # bins of the picture
_DECIMALS = 8
_DEVIATIONS = 2.5  # by which a further point of a promise must look broken before it is counted instead of the first
_CLEARLY = 6.0  # deviations by which the first point looks broken, so that no other is needed
_IMAGINED = 2000  # counts that the power is computed from
_SURE = 0.95
FEWEST_TRIALS = 400  # trials below which no bound says anything


class Pair(Protocol):
    """A mechanism on two neighbouring inputs, 0 and 1."""

    @property
    def known(self) -> bool:
        """Whether the one column of a sample is the exact log-likelihood ratio of side 0 against side 1."""

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Independent runs on one of the inputs: (trials, features)."""


@dataclass(frozen=True)
class Charge:
    """A pair and the promise that it must keep; ``points`` are further (epsilon, delta) that it implies."""

    pair: Pair
    epsilon: float
    delta: float
    points: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Finding:
    """What fresh draws say about the event that was chosen before.

    ``charge`` is the index of the pair that was tried, at the point (``epsilon``, ``delta``) of its promise; the event
    is ``score >= cut`` (or ``<= cut`` if ``below``).
    ``high`` counts it on the side where it should be likely, ``low`` on the other, in ``counted`` draws each.
    ``edges``, ``first`` and ``second`` are a histogram of the score on both sides.
    """

    charge: int
    epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    high: int
    low: int
    counted: int
    trials: int
    cut: float
    below: bool
    known: bool
    edges: tuple[float, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]


def clopper_pearson(hits: ArrayLike, trials: int, error: float) -> tuple[Floats, Floats]:
    """Exact one-sided limits of a binomial probability: each is wrong with probability at most ``error``."""
    k = np.asarray(hits, dtype=np.float64)
    low = np.where(k > 0, special.betaincinv(np.maximum(k, 0.5), trials - k + 1, error), 0.0)
    high = np.where(k < trials, special.betaincinv(k + 1, np.maximum(trials - k, 0.5), 1 - error), 1.0)
    return low, high


def epsilon_lower_bound(high: ArrayLike, low: ArrayLike, trials: int, *, delta: float, confidence: float) -> Floats:
    """ln((P - delta) / Q) with exact limits for both probabilities, at least 0; ``trials`` draws of each side."""
    error = (1 - confidence) / 2
    at_least, _ = clopper_pearson(high, trials, error)
    _, at_most = clopper_pearson(low, trials, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(at_least > delta, np.maximum(np.log((at_least - delta) / at_most), 0.0), 0.0))


def audit_pairs(charges: Sequence[Charge], *, trials: int, seed: int, confidence: float = 0.99) -> Finding:
    """One lower bound on epsilon, for the pair on which the promise looks weakest, from ``trials`` runs in all.

    Earlier charges are preferred: a later one is tried only if it looks broken and the earlier ones do not.
    """
    trials = check_count("trials", trials, at_least=FEWEST_TRIALS)
    seed = check_count("seed", seed, at_least=0)
    check_open_unit("confidence", confidence)
    if not charges:
        raise InvalidInput("nothing to audit: give at least one pair of samplers")
    for charge in charges:
        check_delta("delta", charge.delta)
    counted = trials // 4  # per side
    pilots = [_both(c.pair, max(32, trials // (8 * len(charges))), seed, i) for i, c in enumerate(charges)]
    events = [_train(*pilot, c.delta, confidence) for c, pilot in zip(charges, pilots)]
    chosen = _weakest(charges, events)
    if _clearest(*pilots[chosen], charges[chosen], ()).predicted < _CLEARLY:
        elsewhere = [_clearest(*pilot, c, c.points) for c, pilot in zip(charges, pilots)]
        clearest = max(range(len(charges)), key=lambda i: elsewhere[i].predicted)
        chosen = clearest if elsewhere[clearest].predicted > _DEVIATIONS else chosen
    charge = charges[chosen]
    more = _both(charge.pair, trials // 8, seed, len(charges))
    first, second = (np.concatenate(both) for both in zip(pilots[chosen], more))
    event, point = _event(first, second, charge, confidence)
    first, second = (_score(x, event.weights) for x in _both(charge.pair, counted, seed, len(charges) + 1))
    return _count(event, first, second, chosen, charge.pair.known, point, confidence, trials)


def power(finding: Finding) -> float | None:
    """The smallest r such that a loss of r times the promise, in the event that was counted, is convicted at 95%.

    The event is taken to be as likely on the unlikely side as it was seen to be, and on the other side what a true
    epsilon of r times the promise makes it. None if the draws cannot show any.
    """
    if not 0 < finding.epsilon < np.inf:
        return None
    n, rng = finding.counted, np.random.default_rng(0)
    unlikely = (finding.low + 1) / (n + 2)
    low = rng.binomial(n, unlikely, _IMAGINED)

    def convicted(r: float) -> float:
        likely = min(1.0, np.exp(min(r * finding.epsilon, 700.0)) * unlikely + finding.delta)
        high = rng.binomial(n, likely, _IMAGINED)
        bounds = epsilon_lower_bound(high, low, n, delta=finding.delta, confidence=finding.confidence)
        return float(np.mean(bounds > finding.epsilon))

    least, most = 1.0, 64.0
    if convicted(most) < _SURE:
        return None
    while most - least > 0.005 * least:
        middle = float(np.sqrt(least * most))
        least, most = (least, middle) if convicted(middle) >= _SURE else (middle, most)
    return most


def _event(first: Floats, second: Floats, charge: Charge, confidence: float) -> tuple[_Event, tuple[float, float]]:
    """The event and the point to count it at: the first promise, unless another one looks broken and it does not."""
    if _clearest(first, second, charge, ()).predicted < _CLEARLY:
        other = _clearest(first, second, charge, charge.points)
        if other.predicted > _DEVIATIONS:
            return other, other.point
    return _train(first, second, charge.delta, confidence), (charge.epsilon, charge.delta)


@dataclass(frozen=True)
class _Event:
    weights: Floats
    cut: float
    below: bool
    predicted: float  # a lower bound on epsilon, or deviations above zero
    point: tuple[float, float] = (0.0, 0.0)


def _both(pair: Pair, trials: int, seed: int, phase: int) -> tuple[Floats, Floats]:
    # Laws are on trial, not floating point: the last bits of continuous noise tell more than its law does, which is why
    # such noise is never shipped. Rounding also gathers the atoms that a log-likelihood ratio has.
    first, second = (np.round(pair.sample(side, trials, stream(seed, phase, side)), _DECIMALS) for side in (0, 1))
    return first, second


def _weakest(charges: Sequence[Charge], events: Sequence[_Event]) -> int:
    """The pair that is predicted to break its promise by most; if none is, the one that comes nearest to its own."""
    excess = [event.predicted / max(charge.epsilon, 1e-12) for charge, event in zip(charges, events)]
    asked = [i for i, charge in enumerate(charges) if (charge.epsilon, charge.delta) == _promise(charges[0])]
    best_asked = max(asked, key=lambda i: excess[i])
    best = max(range(len(charges)), key=lambda i: excess[i])
    return best if excess[best] > 1 >= excess[best_asked] else best_asked


def _promise(charge: Charge) -> tuple[float, float]:
    return charge.epsilon, charge.delta


def _train(first: Floats, second: Floats, delta: float, confidence: float) -> _Event:
    """The score, cut and direction with the best lower bound in these draws."""
    best: _Event | None = None
    for weights in _directions(first, second):
        x, y = np.sort(_score(first, weights)), np.sort(_score(second, weights))
        cuts = _cuts(np.concatenate([x, y]))
        above = [(len(s) - np.searchsorted(s, cuts, side="left")) / len(s) for s in (x, y)]
        under = [np.searchsorted(s, cuts, side="right") / len(s) for s in (x, y)]
        for below, (high, low) in ((False, (above[0], above[1])), (True, (under[1], under[0]))):
            # Judged by its own lower bound, so that an event which is rare by luck does not look perfect.
            hits, misses = np.round(high * len(x)), np.round(low * len(x))
            bounds = epsilon_lower_bound(hits, misses, len(x), delta=delta, confidence=confidence)
            i = int(np.argmax(bounds))
            if best is None or bounds[i] > best.predicted:
                best = _Event(weights, float(cuts[i]), below, float(bounds[i]))
    assert best is not None
    return best


def _clearest(first: Floats, second: Floats, charge: Charge, points: Sequence[tuple[float, float]]) -> _Event:
    """The event and the point at which the promise is broken by most standard deviations in these draws."""
    points = [point for point in (_promise(charge), *points) if point[0] < np.inf]
    best = _Event(np.ones(first.shape[1]), 0.0, False, -np.inf)
    n = len(first)
    for weights in _directions(first, second) if points else []:
        x, y = np.sort(_score(first, weights)), np.sort(_score(second, weights))
        cuts = _cuts(np.concatenate([x, y]))
        above = [(n - np.searchsorted(s, cuts, side="left")) for s in (x, y)]
        under = [np.searchsorted(s, cuts, side="right") for s in (x, y)]
        for below, (high, low) in ((False, (above[0], above[1])), (True, (under[1], under[0]))):
            # Counted as if there had been one more of each kind, so that nothing is certain.
            p, q = (high + 1) / (n + 2), (low + 1) / (n + 2)
            for epsilon, delta in points:
                odds = np.exp(epsilon)
                spread = np.sqrt((p * (1 - p) + odds**2 * q * (1 - q)) / n)
                deviations = (p - delta - odds * q) / spread
                i = int(np.argmax(deviations))
                if deviations[i] > best.predicted:
                    best = _Event(weights, float(cuts[i]), below, float(deviations[i]), (epsilon, delta))
    return best


def _directions(first: Floats, second: Floats) -> list[Floats]:
    k = first.shape[1]
    directions = [np.eye(k)[i] for i in range(k)]
    if k > 1:
        difference = first.mean(axis=0) - second.mean(axis=0)
        spread = (np.cov(first, rowvar=False) + np.cov(second, rowvar=False)) / 2
        # A feature without noise has no spread: a tiny ridge keeps the equations solvable and its weight enormous.
        ridge = 1e-9 * (1.0 + float(np.trace(spread)) / k)
        directions.append(np.linalg.solve(spread + ridge * np.eye(k), difference))
    return directions


def _score(sample: Floats, weights: Floats) -> Floats:
    return sample[:, 0] if sample.shape[1] == 1 else sample @ weights


def _cuts(scores: Floats) -> Floats:
    """Thresholds to try: all values if they are few, else quantiles that crowd towards both ends."""
    values = np.unique(scores)
    if len(values) <= _CUTS:
        return values
    tails = np.geomspace(4 / len(scores), 0.5, _CUTS // 2)
    return np.unique(np.quantile(scores, np.concatenate([tails, 1 - tails]), method="nearest"))


def _count(
    event: _Event,
    first: Floats,
    second: Floats,
    index: int,
    known: bool,
    point: tuple[float, float],
    confidence: float,
    trials: int,
) -> Finding:
    likely, unlikely = (second, first) if event.below else (first, second)
    high, low = (int(np.count_nonzero(s <= event.cut if event.below else s >= event.cut)) for s in (likely, unlikely))
    bound = float(epsilon_lower_bound(high, low, len(first), delta=point[1], confidence=confidence))
    edges = _edges(np.concatenate([first, second]))
    bins = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])
    shown = [tuple(int(n) for n in np.histogram(s, bins)[0]) for s in (first, second)]
    return Finding(
        charge=index,
        epsilon=point[0],
        delta=point[1],
        lower_bound=bound,
        confidence=confidence,
        high=high,
        low=low,
        counted=len(first),
        trials=trials,
        cut=event.cut,
        below=event.below,
        known=known,
        edges=tuple(float(e) for e in edges),
        first=shown[0],
        second=shown[1],
    )


def _edges(scores: Floats) -> Floats:
    """Bins for the picture; what lies outside the central 99.8% goes into the outermost ones."""
    finite = scores[np.isfinite(scores)]
    low, high = (float(q) for q in np.quantile(finite, [0.001, 0.999])) if len(finite) else (0.0, 0.0)
    if not low < high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, _SHOWN + 1)


def text_picture(finding: Finding, width: int = 50) -> str:
    """The two distributions of the score, one line per bin: '#' for the first input, 'o' for the second."""
    top = max(1, *finding.first, *finding.second)
    lines = []
    step = 2
    for i in range(0, len(finding.first), step):
        a, b = sum(finding.first[i : i + step]), sum(finding.second[i : i + step])
        bar_a, bar_b = (round(width * n / (step * top)) for n in (a, b))
        both = min(bar_a, bar_b)
        rest = ("#" if bar_a > bar_b else "o") * (max(bar_a, bar_b) - both)
        mark = ">" if finding.edges[i] <= finding.cut < finding.edges[min(i + step, len(finding.edges) - 1)] else " "
        lines.append(f"{finding.edges[i]:>10.3g} {mark}|{'=' * both}{rest}")
    key = "'#' first input, 'o' second, '=' both; '>' the threshold"
    return "\n".join([*lines, f"{'':>12} {key}"])


def log_ratio(first: Floats, second: Floats) -> Floats:
    """Differences of log-likelihoods; an output that neither law can produce tells them apart in no direction."""
    with np.errstate(invalid="ignore"):
        difference = first - second
    return np.where(np.isnan(difference), 0.0, difference)
