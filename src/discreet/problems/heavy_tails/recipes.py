r"""Recipes for rewards without a range, of which a moment is bounded: E|X|^(1+v) <= u.

**The paper's mechanism, repaired** (joint and local). Counts of transitions with budget 2/3 epsilon, of which visits
are sums; sums of clipped rewards with budget epsilon/3. With L = floor(log2 K) + 1 levels of the tree,

    joint:  counts Lap(3 H L / epsilon) per node,   rewards Lap(6 H L B_j / epsilon) for a node that closes at user j
    local:  counts Lap(3 H / epsilon) per user,     rewards Lap(6 H B_j / epsilon) of user j

    joint:  B = (epsilon u n / (H L^1.5 l))^(1/(1+v)),     local:  B_j = (u epsilon n / (H sqrt(j l)))^(1/(1+v)),
    l = ln(3 S A K H / failure_probability)

with n an even share of the users, max(1, j / (S A)) for user j (option ``thresholds="index"``), or the largest count of
the cell's visits that has been released (``"released"``). n and j are rounded down to powers of two. With ``growth``
releases happen when the users have grown by so much; the tree stays one over users, so noise and budget are the same.

**Formal guarantees.** Pure epsilon. At every step a replaced trajectory moves two counts by one, or one by nothing, and
rewards by 2B in units that the noise is proportional to; each user is in L nodes (joint) or alone (local). Thresholds
depend on the number of users or on earlier releases only; :mod:`discreet.problems.heavy_tails.mechanisms` has the
argument. Rewards are real numbers and so is their noise: for simulation only.

**Differences from the paper.** It prints Lap(3HL/epsilon) for two tables of counts, which gives 5/3 epsilon in total
and more if "log" is natural, and takes thresholds from raw counts, which gives no bound at all
(:mod:`discreet.papers`). It truncates; clipping has less bias at the same cost (``truncated=True`` goes
back). At the paper's own sizes the honest noise is above the number of users, and nothing is learned.

**Ours** (:mod:`discreet.problems.heavy_tails.encoders`), for pooled steps and for laws per step:

* central: first visits (per step: every visit) with two reward bits, in focused blocks or by the matrix mechanism; or
  blocks of the joint histogram with the reward rounded to -B or B, which moves the fewest cells (for Laplace noise);
* local: one sampled step of every user, the reward rounded to -B or B, by randomised response with the whole epsilon.

One threshold for the whole run makes noise, spread and bias small together at a sixtieth of the users (chosen on rivers
with stable, Student, Pareto and two-point rewards; the bias of symmetric ones is far below its bound):

    B minimises  sqrt(2) B s / n + sqrt(u B^(1-v) / n) + c_v u / B^v,   n = K / 60,   B >= tau,

with s the noise of six releases of one row per state (and step). In the local model n = (K / 60) f, with f the visits
of a row if all are visited alike, and s^2 is the variance of what K / 60 users report of its rewards.

**No privacy.** Thresholds (u n / l)^(1/(1+v)) of Zhuang and Sui balance spread and the bound on the bias. At v = 0.125
they are in the hundreds, and sums of such rewards are useless for long; most laws have far less bias than the bound. So
the default is ``thresholds="root"``, B = sqrt(u n / l): the same at v = 1, as if the variance existed, much less for
heavier tails. ``"index"`` and ``"released"`` are the theory's.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from discreet.base.errors import check_name
from discreet.base.scientific import optimize
from discreet.base.shape import Shape
from discreet.base.validation import check_open_unit, check_positive
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.mechanisms.schedule import EveryEpisode, Growing, Schedule
from discreet.mechanisms.session import Privatizer, unnamed
from discreet.mechanisms.sums.blocks import Blocks
from discreet.mechanisms.sums.tree import Tree
from discreet.noise import DiscreteLaplace, Gaussian, Laplace, NoNoise
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.guarantee import Guarantee, billboard, compose, from_mechanism, locally, nothing, parallel
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.heavy_tails.encoders import ClippedTables, SignedFirstVisitTables, clipping_bias, moments_of
from discreet.problems.heavy_tails.mechanisms import ClippedRewardsChannel
from discreet.problems.heavy_tails.stochastic_rounding import ClippedJoint, ClippedStep
from discreet.recipes.central import LAWS, focused, prefix_sums
from discreet.recipes.local import quietest_of, report_guarantee
from discreet.recipes.predicted_regret import blocks_of, growing, noise_after, visits_per_user
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

Grid = tuple[float, ...]
THRESHOLDS = ("index", "released")
ROOT = "root"
_RELEASES, _SHARE = 6, 60  # thresholds are best after so many noisy releases and this part of the users
_WHY = {
    False: "thresholds depend on the number of users alone",
    True: "thresholds are functions of earlier releases, so given those only the replaced user's own leaves differ",
}


def index_thresholds(privacy: Privacy, shape: Shape, episodes: int, levels: int | None, failure: float) -> Grid:
    """B_j for j = 1, 2, 4, ...: ``levels`` of the tree, or None for the local model."""
    per_visit = _per_visit(privacy, shape, episodes, levels, failure)
    n = [max(1.0, 2.0**d / (shape.states * shape.actions)) for d in range(episodes.bit_length())]
    root = [1.0 if levels is not None else math.sqrt(episodes / 2.0**d) for d in range(len(n))]
    scale = [(per_visit * x * y) ** (1 / (1 + moments_of(shape).order)) for x, y in zip(n, root, strict=True)]
    return tuple(np.maximum.accumulate(scale).tolist())


def released_thresholds(privacy: Privacy, shape: Shape, episodes: int, levels: int | None, failure: float) -> Grid:
    """b(1), b(2), b(4), ... up to the most visits that one cell can have."""
    per_visit = _per_visit(privacy, shape, episodes, levels, failure)
    most = episodes * (shape.horizon if shape.groups == 1 else 1)
    return tuple((per_visit * 2.0**d) ** (1 / (1 + moments_of(shape).order)) for d in range(most.bit_length()))


def _per_visit(privacy: Privacy, shape: Shape, episodes: int, levels: int | None, failure: float) -> float:
    """b(1)^(1+v): in the local model after all users, whose noise is the loudest."""
    log_term = math.log(3 * shape.states * shape.actions * episodes * shape.horizon / failure)
    spread = levels**1.5 * log_term if levels is not None else math.sqrt(episodes * log_term)
    return 1.5 * _shares(privacy)[0] * moments_of(shape).bound / (shape.horizon * spread)


def _repaired(model: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    tree = Tree(users=episodes) if model == "central" else None
    levels = 1 if tree is None else tree.levels
    released = _released(options)
    limits = (released_thresholds if released else index_thresholds)(
        privacy, shape, episodes, None if tree is None else tree.levels, _failure(options)
    )
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
    release = compose(parts, delta=privacy.delta, why=f"the same user is in both tables; {_WHY[released]}")
    guarantee: Guarantee = billboard(release) if tree is not None else locally(release)
    channel = ClippedRewardsChannel(encoder, laws[0], laws[1], tree, episodes, released, local=tree is None)
    return Privatizer(f"{model}/heavy-tailed", shape, (channel,), releases(options), guarantee, False, options)


def releases(options: Options) -> Schedule:
    """A release after every user, or (option ``growth``) when their number has grown by so much."""
    return EveryEpisode() if options["growth"] is None else Growing(first=1, growth=options["growth"])


def _released(options: Options) -> bool:
    check_name("source of thresholds", options["thresholds"], THRESHOLDS)
    return bool(options["thresholds"] == "released")


def _failure(options: Options) -> float:
    return check_open_unit("failure_probability", options["failure_probability"])


def _shares(privacy: Privacy) -> tuple[float, float]:
    """Two thirds for counts, one third for rewards: of epsilon, which a rho is turned into."""
    epsilon = privacy.pure_epsilon
    return 2 * epsilon / 3, epsilon / 3


def _no_privacy(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Zhuang and Sui's thresholds, (u n / ln(2 S A T / failure))^(1/(1+v)), or the root of the same in place of it."""
    check_name("source of thresholds", options["thresholds"], (ROOT, *THRESHOLDS))
    released = bool(options["thresholds"] == "released")
    limits = no_noise_thresholds(shape, episodes, options["thresholds"], _failure(options))
    encoder = ClippedTables(shape, limits, truncated=bool(options["truncated"]))
    channel = ClippedRewardsChannel(encoder, NoNoise(), NoNoise(), None, episodes, released)
    schedule = Growing(first=1, growth=options["growth"])
    return Privatizer("none/heavy-tailed", shape, (channel,), schedule, nothing(), False, options)


def no_noise_thresholds(shape: Shape, episodes: int, source: str, failure: float) -> Grid:
    """B after 1, 2, 4, ... users, of which a row gets an even share; or after as many released visits of a row."""
    moments, released = moments_of(shape), source == "released"
    S, A, H = shape.states, shape.actions, shape.horizon
    log_term = math.log(2 * S * A * episodes * H / failure)
    share = log_term if released else S * A * log_term
    most = episodes * (H if released and shape.groups == 1 else 1)
    power, least = (0.5, shape.rewards[1]) if source == ROOT else (1 / (1 + moments.order), 0.0)
    return tuple(max(least, (moments.bound * max(1.0, 2.0**d / share)) ** power) for d in range(most.bit_length()))


def _matrix(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    def encode(shape: Shape) -> SignedFirstVisitTables:
        return _signed(Gaussian, privacy, shape, episodes, options["threshold"])

    return prefix_sums(encode, privacy, shape, episodes, options)


def _focused(law: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    encoder = _signed(LAWS[law], privacy, shape, episodes, options["threshold"])
    return focused(encoder, law, privacy, episodes, options)


def _signed(
    law: type[Any], privacy: Privacy, shape: Shape, episodes: int, threshold: float | None
) -> SignedFirstVisitTables:
    if threshold is None:
        moves = SignedFirstVisitTables(shape, 1.0).sensitivity(shape.groups * shape.states)
        one = calibrate_noise(law, moves, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
        threshold = best_threshold(shape, math.sqrt(_RELEASES * one.variance), max(1.0, episodes / _SHARE))
    return SignedFirstVisitTables(shape, check_positive("threshold", threshold))


def _joint(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Blocks of the joint histogram: two cells a step move, the fewest of all, which suits Laplace noise."""
    threshold = options["threshold"]
    moves = ClippedJoint(shape, 1.0).sensitivity()
    law = calibrate_noise(DiscreteLaplace, moves, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
    if threshold is None:
        cells = shape.states + 1
        threshold = best_threshold(shape, math.sqrt(_RELEASES * cells * law.variance), max(1.0, episodes / _SHARE))
    encoder = ClippedJoint(shape, check_positive("threshold", threshold))
    channel = Channel(encoder, law, Blocks())
    schedule = blocks_of(options, shape, encoder, episodes, lambda _blocks: noise_after(channel))
    one = from_mechanism(law, moves, delta=privacy.delta, name=encoder.name)
    guarantee = billboard(parallel(one, f"every user is in exactly one block ({schedule.describe()})"))
    return unnamed(shape, (channel,), schedule, guarantee, bool(options["masked"]), options)


def _sampled_step(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Every user reports one step, its reward clipped and rounded to -B or B."""
    moments_of(shape)
    epsilon, early_end = privacy.pure_epsilon, bool(options["early_end"])

    def quietest(threshold: float) -> ReportChannel:
        return quietest_of(
            lambda steps: ClippedStep(shape, steps, early_end, threshold), epsilon, options["steps"],
            options["response"],
        )  # fmt: skip

    threshold = options["threshold"]
    if threshold is None:
        first = quietest(shape.rewards[1])
        users = max(1.0, episodes / _SHARE)
        visits = users * visits_per_user(shape, first.encoder)
        threshold = best_threshold(shape, math.sqrt(first.variance_of_ones(users, visits)), visits)
    channel = quietest(check_positive("threshold", threshold))
    schedule, masked = growing(options, shape), bool(options["masked"])
    return unnamed(shape, (channel,), schedule, report_guarantee(channel), masked, options)


def best_threshold(shape: Shape, deviation: float, visits: float) -> float:
    """The threshold with the smallest sum of noise, spread and bias in a mean of that many clipped rewards."""
    moments = moments_of(shape)

    def error(log_threshold: float) -> float:
        B = math.exp(log_threshold)
        spread = math.sqrt(moments.bound * B ** (1 - moments.order) / visits)
        return math.sqrt(2) * B * deviation / visits + spread + clipping_bias(moments, B)

    return max(shape.rewards[1], math.exp(optimize.minimize_scalar(error, bounds=(-5, 15), method="bounded").x))


def _longer(privacy: Privacy, shape: Shape) -> bool:
    """Whether there is more than one step: bandits do better with focused blocks of signed bits."""
    return shape.horizon > 1


def _recipes() -> tuple[Recipe, ...]:
    paper = {"failure_probability": 0.1, "truncated": False, "thresholds": "index"}
    options = {"blocks": None, "first": None, "masked": True, "enough": 25.0, "threshold": None}
    return (
        Recipe(
            "none/heavy-tailed", "none", "counts as they are and clipped rewards; no promise", _no_privacy,
            encoder="clipped-tables", options={**paper, "thresholds": ROOT, "growth": 0.01}, heavy_tails=True,
        ),
        *(
            Recipe(
                f"central/heavy-tailed-focused-{law}", "central",
                f"first visits with signed reward bits, discrete {law.capitalize()} noise sized to the rows asked for",
                partial(_focused, law), pure=law == "laplace", encoder="signed-first-visit-tables", law=law,
                accumulator="blocks", options=options, heavy_tails=True,
            )
            for law in LAWS
        ),
        Recipe(
            "central/heavy-tailed-matrix", "central",
            "first visits with signed reward bits, matrix mechanism with discrete Gaussian noise, blocks",
            _matrix, pure=False, encoder="signed-first-visit-tables", law="gaussian", accumulator="matrix",
            options={"blocks": None, "masked": True, "threshold": None}, heavy_tails=True, suits=_longer,
        ),
        Recipe(
            "central/heavy-tailed-joint", "central",
            "joint histogram with clipped rewards rounded to a sign, discrete Laplace noise, one release per block",
            _joint, encoder="clipped-joint", law="laplace", accumulator="blocks",
            options={"blocks": None, "first": None, "masked": True, "threshold": None}, heavy_tails=True,
            suits=_longer,
        ),
        Recipe(
            "local/heavy-tailed-sampled-step", "local",
            "every user reports one step, its reward clipped and rounded to a sign, with the whole epsilon",
            _sampled_step, encoder="clipped-step", law="randomised response", accumulator="total",
            options={
                "growth": None, "masked": True, "steps": None, "response": None, "early_end": False, "threshold": None,
            },
            heavy_tails=True,
        ),
        Recipe(
            "central/heavy-tailed", "central",
            "Private-Heavy-UCBVI's tree, repaired: transition counts and clipped rewards, Laplace noise",
            partial(_repaired, "central"), automatic=False, encoder="clipped-tables", law="laplace",
            accumulator="tree", options={**paper, "growth": None}, heavy_tails=True,
        ),
        Recipe(
            "local/heavy-tailed", "local",
            "the same in the local model: every user adds Laplace noise to her transition counts and clipped rewards",
            partial(_repaired, "local"), automatic=False, encoder="clipped-tables", law="laplace", accumulator="total",
            options={**paper, "growth": 0.02}, heavy_tails=True,
        ),
    )  # fmt: skip


RECIPES = _recipes()
