r"""Recipes for rewards without a range, of which a moment is bounded: E|X|^(1+v) <= u.

**The paper's mechanism, repaired** (joint and local). Counts of transitions with budget 2/3 epsilon, of which visits
are sums; sums of clipped rewards with budget epsilon/3. With L = floor(log2 K) + 1 levels of the tree,

    joint:  counts Lap(3 H L / epsilon) per node,   rewards Lap(6 H L B_j / epsilon) for a node that closes at user j
    local:  counts Lap(3 H / epsilon) per user,     rewards Lap(6 H B_j / epsilon) of user j

    joint:  B_j = (epsilon u n / (H L^1.5 l))^(1/(1+v)),   local:  B_j = (u epsilon n / (H sqrt(j l)))^(1/(1+v)),
    n = max(1, j / (S A)),   l = ln(3 S A K H / failure_probability)

where j is rounded down to a power of two, so that the threshold is public, monotone, and constant for many users.

**Formal guarantees.** Pure epsilon. At every step a replaced trajectory moves two counts by one, or one by nothing, and
rewards by 2B in units that the noise is proportional to; each user is in L nodes (joint) or alone (local). Thresholds
depend on the number of users only. Rewards are real numbers and so is their noise: for simulation only.

**Differences from the paper.** It prints Lap(3HL/epsilon) for two tables of counts, which gives 5/3 epsilon in total
and more if "log" is natural, and takes thresholds from raw counts, which gives no bound at all
(:mod:`discreet.privatizers.published`). It truncates; clipping has less bias at the same cost (``truncated=True`` goes
back). At the paper's own sizes the honest noise is above the number of users, and nothing is learned.

**Ours.** First visits with two reward bits (:mod:`discreet.encoders.heavy_tailed`), in focused blocks or by the matrix
mechanism, and one threshold for the whole run, which makes noise, spread and bias small together at a twentieth of the
users:

    B minimises  sqrt(2) B s / n + sqrt(u B^(1-v) / n) + c_v u / B^v,   n = K / 20,

with s the noise of six releases of one row per state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from discreet.accumulators.base import NoiseSource
from discreet.accumulators.matrix import Matrix
from discreet.accumulators.schedule import EveryEpisode, Growing
from discreet.accumulators.tree import Tree, lowest_digit, next_digit
from discreet.encoders.base import Context
from discreet.encoders.heavy_tailed import ClippedTables, SignedFirstVisitTables, clipping_bias, moments_of
from discreet.noise import DiscreteLaplace, Gaussian, Laplace, NoNoise
from discreet.privacy.calibration import calibrate_noise
from discreet.privacy.guarantee import Guarantee, billboard, compose, from_mechanism, locally, nothing
from discreet.privacy.sensitivity import Sensitivity
from discreet.privatizers import continual
from discreet.privatizers.channel import Privatizer, WidthOf, widths
from discreet.privatizers.focused import LAWS, focus
from discreet.privatizers.recipe import Options, Recipe
from discreet.privatizers.trust import Privacy
from discreet.release import Estimate
from discreet.shape import Shape
from discreet.validation import check_open_unit, check_positive

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeavyTailedChannel:
    """Counts and clipped rewards of the same users; reward noise is proportional to the threshold of its moment.

    ``tree`` is None where every user adds noise of her own.
    """

    encoder: ClippedTables
    count_law: Any
    reward_law: Any  # in units of the threshold
    tree: Tree | None
    answers: frozenset[type] = field(default=frozenset())

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> HeavyTailedRun:
        return HeavyTailedRun(self, noise)

    def noise_per_row(self) -> float:
        statistics = self.encoder.marginals(np.zeros(self.encoder.size))
        tau = self.encoder.shape.rewards[1]
        counts = sum(float(s.cells.mean()) * s.values[0, 0, 0].size for s in statistics.values())
        rewards = self.reward_law.variance * (self.encoder.thresholds[-1] / (2 * tau)) ** 2
        return float(self.count_law.variance * counts + rewards)

    def cells(self) -> dict[str, int]:
        return {name: int(s.cells.max()) for name, s in self.encoder.marginals(np.zeros(self.encoder.size)).items()}

    def shortcut(self, blocks: list[int]) -> list[int]:
        return blocks


class HeavyTailedRun:
    """Noisy sums of one run, the variance of the reward noise in them, and the draws of count noise."""

    def __init__(self, channel: HeavyTailedChannel, noise: NoiseSource) -> None:
        self._channel, self._noise = channel, noise
        self._values, self._reward_variance = np.zeros(channel.encoder.size), 0.0
        self._draws, self._users, self._releases = 0, 0, 0
        levels = 0 if channel.tree is None else channel.tree.levels
        self._prefix = np.zeros((levels + 1, channel.encoder.size))
        self._prefix_variance = np.zeros(levels + 1)
        self._current = levels

    def add(self, tally: Floats, users: int, context: Context) -> None:
        self._values += tally
        if self._channel.tree is None:
            self._noise_of_each(users)
        else:
            self._users += users
            self._next_node()

    def _noise_of_each(self, users: int) -> None:
        encoder, law = self._channel.encoder, self._channel.reward_law
        self._values[: encoder.counts] += self._noise.draw(self._channel.count_law, users, encoder.counts)
        last = self._users + users
        while self._users < last:
            threshold = encoder.threshold(self._users + 1)
            alike = min(last, 2 ** (self._users + 1).bit_length() - 1) - self._users
            self._values[encoder.counts :] += threshold * self._noise.draw(law, alike, encoder.rows)
            self._reward_variance += alike * threshold**2 * law.variance
            self._users += alike
        self._draws += users

    def _next_node(self) -> None:
        encoder, law = self._channel.encoder, self._channel.reward_law
        self._releases += 1
        low = lowest_digit(self._releases)
        above = next_digit(self._releases, low, len(self._prefix) - 1)
        # Thresholds never fall, so that of the last user covers everybody in the node.
        threshold = encoder.threshold(self._users)
        before = self._prefix[self._current].copy()
        self._prefix[low] = self._prefix[above]
        self._prefix[low, : encoder.counts] += self._noise.draw(self._channel.count_law, 1, encoder.counts)
        self._prefix[low, encoder.counts :] += threshold * self._noise.draw(law, 1, encoder.rows)
        self._prefix_variance[low] = self._prefix_variance[above] + threshold**2 * law.variance
        self._values += self._prefix[low] - before
        self._current, self._reward_variance = low, float(self._prefix_variance[low])
        self._draws = self._releases.bit_count()

    def estimates(self) -> dict[str, Estimate]:
        marginals = self._channel.encoder.marginals(self._values)
        tau = self._channel.encoder.shape.rewards[1]
        unit = self._channel.count_law.variance * self._draws
        shape = marginals["visits"].values.shape
        counted = {
            name: Estimate(statistic.values.copy(), np.broadcast_to(unit * statistic.cells, shape).copy())
            for name, statistic in marginals.items()
        }
        rewards = self._reward_variance / (4 * tau**2) + counted["visits"].variance / 4
        return {**counted, "rewards": Estimate(marginals["rewards"].values.copy(), rewards)}

    def width_now(self) -> WidthOf:
        """Of counts; the noise of rewards is stated by its variance."""
        shape = self._channel.encoder.shape
        law, draws = self._channel.count_law, np.full((shape.groups, shape.states, shape.actions), self._draws)
        return lambda cells_summed, failure_probability: widths(law, draws * cells_summed, failure_probability)


def thresholds(privacy: Privacy, shape: Shape, episodes: int, levels: int | None, failure: float) -> tuple[float, ...]:
    """B_j for j = 1, 2, 4, ...: ``levels`` of the tree, or None for the local model."""
    moments, epsilon = moments_of(shape), float(privacy.epsilon or math.sqrt(2 * float(privacy.rho or 1.0)))
    S, A, H = shape.states, shape.actions, shape.horizon
    log_term = math.log(3 * S * A * episodes * H / failure)
    scale = []
    for digits in range(episodes.bit_length()):
        j = 2.0**digits
        spread = H * levels**1.5 * log_term if levels is not None else H * math.sqrt(j * log_term)
        scale.append((epsilon * moments.bound * max(1.0, j / (S * A)) / spread) ** (1 / (1 + moments.order)))
    return tuple(np.maximum.accumulate(scale).tolist())


def _published(model: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    tree = Tree(users=episodes) if model == "central" else None
    levels = 1 if tree is None else tree.levels
    failure = check_open_unit("failure_probability", options["failure_probability"])
    limits = thresholds(privacy, shape, episodes, None if tree is None else tree.levels, failure)
    encoder = ClippedTables(shape, limits, truncated=bool(options["truncated"]))
    shares = _shares(privacy)
    parts, laws = [], []
    for law, own, share, name in (
        (DiscreteLaplace, encoder.count_sensitivity(), shares[0], "counts of transitions"),
        (Laplace, encoder.reward_sensitivity(), shares[1], "clipped rewards, in units of the threshold"),
    ):
        moves = Sensitivity(own.l1 * levels, own.l2 * math.sqrt(levels), own.linf)
        laws.append(calibrate_noise(law, moves, epsilon=share))
        parts.append(from_mechanism(laws[-1], moves, delta=0.0, name=name))
    release = compose(parts, delta=privacy.delta, why="the same user is in both tables")
    schedule = EveryEpisode() if tree is not None else Growing(first=1, growth=options["growth"])
    guarantee: Guarantee = billboard(release) if tree is not None else locally(release)
    channel = HeavyTailedChannel(encoder, laws[0], laws[1], tree)
    return Privatizer(f"{model}/heavy-tailed", shape, (channel,), schedule, guarantee, False, options)


def _shares(privacy: Privacy) -> tuple[float, float]:
    """Two thirds for counts, one third for rewards: of epsilon, which a rho is turned into."""
    epsilon = float(privacy.epsilon) if privacy.epsilon is not None else math.sqrt(2 * float(privacy.rho or 0.0))
    return 2 * epsilon / 3, epsilon / 3


def _no_privacy(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Zhuang and Sui's thresholds, (u n / ln(2 S A T / failure))^(1/(1+v)), with n from the number of users."""
    moments = moments_of(shape)
    S, A, H = shape.states, shape.actions, shape.horizon
    failure = check_open_unit("failure_probability", options["failure_probability"])
    log_term = math.log(2 * S * A * episodes * H / failure)
    limits = tuple(
        (moments.bound * max(1.0, 2.0**d / (S * A) / log_term)) ** (1 / (1 + moments.order))
        for d in range(episodes.bit_length())
    )
    encoder = ClippedTables(shape, limits, truncated=bool(options["truncated"]))
    channel = HeavyTailedChannel(encoder, NoNoise(), NoNoise(), None)
    return Privatizer("none/heavy-tailed", shape, (channel,), Growing(first=1, growth=0.01), nothing(), False, options)


def _matrix(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    def encode(shape: Shape) -> SignedFirstVisitTables:
        return _signed(Gaussian, privacy, shape, episodes, options["threshold"])

    return continual.assemble("central/heavy-tailed-matrix", encode, Matrix, privacy, shape, episodes, options)


def _focused(law: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    encoder = _signed(LAWS[law], privacy, shape, episodes, options["threshold"])
    return focus(f"central/heavy-tailed-focused-{law}", encoder, law, privacy, episodes, options)


def _signed(
    law: type[Any], privacy: Privacy, shape: Shape, episodes: int, threshold: float | None
) -> SignedFirstVisitTables:
    if threshold is None:
        moves = SignedFirstVisitTables(shape, 1.0).sensitivity(shape.states)
        one = calibrate_noise(law, moves, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
        threshold = best_threshold(shape, math.sqrt(6 * one.variance), max(1.0, episodes / 20))
    return SignedFirstVisitTables(shape, check_positive("threshold", threshold))


def best_threshold(shape: Shape, deviation: float, visits: float) -> float:
    """The threshold with the smallest sum of noise, spread and bias in a mean of that many clipped rewards."""
    moments = moments_of(shape)

    def error(log_threshold: float) -> float:
        B = math.exp(log_threshold)
        spread = math.sqrt(moments.bound * B ** (1 - moments.order) / visits)
        return math.sqrt(2) * B * deviation / visits + spread + clipping_bias(moments, B)

    return max(shape.rewards[1], math.exp(minimize_scalar(error, bounds=(-5, 15), method="bounded").x))


def _recipes() -> tuple[Recipe, ...]:
    paper = {"failure_probability": 0.1, "truncated": False}
    focused = {"blocks": None, "first": None, "masked": True, "enough": 25.0, "threshold": None}
    return (
        Recipe(
            "none/heavy-tailed", "none", "counts as they are and clipped rewards; no promise", _no_privacy,
            encoder="clipped-tables", options=paper, heavy_tails=True,
        ),
        *(
            Recipe(
                f"central/heavy-tailed-focused-{law}", "central",
                f"first visits with signed reward bits, discrete {law.capitalize()} noise sized to the rows asked for",
                partial(_focused, law), pure=law == "laplace", encoder="signed-first-visit-tables", law=law,
                accumulator="blocks", options=focused, heavy_tails=True,
            )
            for law in LAWS
        ),
        Recipe(
            "central/heavy-tailed-matrix", "central",
            "first visits with signed reward bits, matrix mechanism with Gaussian noise (simulation only), blocks",
            _matrix, pure=False, encoder="signed-first-visit-tables", law="gaussian", accumulator="matrix",
            options={"blocks": None, "masked": True, "threshold": None}, heavy_tails=True,
        ),
        Recipe(
            "central/heavy-tailed", "central",
            "Private-Heavy-UCBVI's tree, repaired: transition counts and clipped rewards, Laplace noise",
            partial(_published, "central"), automatic=False, encoder="clipped-tables", law="laplace",
            accumulator="tree", options=paper, heavy_tails=True,
        ),
        Recipe(
            "local/heavy-tailed", "local",
            "the same in the local model: every user adds Laplace noise to her transition counts and clipped rewards",
            partial(_published, "local"), encoder="clipped-tables", law="laplace", accumulator="total",
            options={**paper, "growth": 0.02}, heavy_tails=True,
        ),
    )  # fmt: skip


RECIPES = _recipes()
