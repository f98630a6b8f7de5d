"""Heavy-tailed rewards, as printed: trees over visits, transitions and truncated rewards.

With H steps and K users, noise is Laplace of scale 3 H log2(K) / eps per node for counts and 6 B H log2(K) / eps for
rewards that are truncated at B; in the local model without the logarithm. The paper writes log, and ln where it means
the natural one.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.base.validation import check_open_unit
from discreet.mechanisms.schedule import Growing
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import Accumulator
from discreet.mechanisms.sums.blocks import Total
from discreet.mechanisms.sums.tree import Tree
from discreet.noise import Laplace
from discreet.papers.published_mechanism import FACTOR_TWO, AtLeast, Part, Published, Setting, needs_epsilon
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.heavy_tails.encoders import moments_of
from discreet.problems.heavy_tails.mechanisms import ClippedRewardsChannel
from discreet.problems.heavy_tails.published_tables import IndexedTables, RawCountChannel, RawCountTables
from discreet.problems.heavy_tails.recipes import releases
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

_PAPER = "Wu, Zhou, Chowdhury, Wang, heavy-tailed rewards"
_REWARDS = "clipped rewards, in units of their thresholds"
_NO_SUCCESSOR = "a trajectory ends with its last step, so there are none to release"


def _heavy_tailed(setting: Setting, *, tree: bool) -> tuple[Part, ...]:
    """A tree whose noise grows with log2 K, or noise from every user by herself."""
    H, epsilon = setting.shape.horizon, needs_epsilon(setting)
    factor = math.log2(max(2, setting.episodes)) if tree else 1.0
    sums: Accumulator = Tree(users=setting.episodes) if tree else Total()
    counts = Laplace(3 * H * factor / epsilon)
    rewards = Laplace(6 * H * factor / epsilon)
    return (
        Part("visits", counts, _count_moves(setting, H), sums, norms_only=True),
        *_transitions(setting, counts, sums),
        Part(_REWARDS, rewards, _reward_moves(setting), sums, norms_only=True),
    )


def _transitions(setting: Setting, law: Laplace, sums: Accumulator) -> tuple[Part, ...]:
    """Those of the last step are printed and not sent. Pooled over steps they fall into the cells of the others."""
    H = setting.shape.horizon
    inner = _count_moves(setting, H - 1)
    if setting.shape.homogeneous and H > 1:
        why = f"of the last step: {_NO_SUCCESSOR}"
        return (Part("transitions", law, _count_moves(setting, H), sums, left_out=why, norms_only=True, sent=inner),)
    last = Part(
        "transitions of the last step", law, Sensitivity.unit_shifts(1, 1), sums, left_out=_NO_SUCCESSOR,
        norms_only=True,
    )  # fmt: skip
    return Part("transitions", law, inner, sums, norms_only=True), last


def _count_moves(setting: Setting, steps: int) -> Sensitivity:
    """Every step leaves one cell and enters another; pooled over steps they may all be the same two cells."""
    if setting.shape.homogeneous and steps > 0:
        return Sensitivity.worst_shift((steps, 1, 1))
    return Sensitivity.unit_shifts(steps, steps)


def _reward_moves(setting: Setting) -> Sensitivity:
    """A reward of -B becomes one of B, in the same cell, at every step; pooled over steps it is one cell for all."""
    H = setting.shape.horizon
    return Sensitivity.worst_shift((2 * H, 1, 0) if setting.shape.homogeneous else (2, H, 0))


def raw_count_loss(users: int, exponent: float = 0.5) -> float:
    """A privacy loss that reward truncation at raw visit counts reaches, in units of the claimed epsilon.

    A lower bound: the loss of one pair of data sets, with noise for L levels, a little more than the printed log2(K).

    One cell, H = 1, thresholds B_n proportional to n^exponent. User 1 visits the cell or does not. Every later user j
    brings the reward B_(j-1): with user 1 her count is j - 1 and the reward is kept; without, the threshold is B_(j-2)
    and it is dropped. So every later leaf differs, and the node that closes at t, with noise of scale 6 B_t L, moves by
    the sum of the thresholds below it. With H steps the noise is H times as large, and user 1 does this at every step.
    """
    levels = users.bit_length()
    thresholds = np.arange(users + 1, dtype=np.float64) ** exponent
    total = 0.0
    for t in range(1, users + 1):
        shift = thresholds[t - (t & -t) : t].sum()
        total += shift / (6 * thresholds[t] * levels)
    return float(total)


_CENTRAL = Published(
    "published/heavy-tailed-central",
    _PAPER,
    "central",
    "epsilon",
    "Lap(3 H log2(K)/eps) on visits and transitions, Lap(6 B H log2(K)/eps) on clipped rewards, per tree node",
    f"{FACTOR_TWO}, in both tables of counts; a leaf is in L = floor(log2(K))+1 nodes: (2/3 + 2/3 + 1/3) eps L / "
    "log2(K) "
    "with one threshold, and (4/3) eps L / log2(K) from the counts alone, whatever the thresholds",
    "Lap(6 H L/eps) on both count tables, or Lap(3 H L/eps) on transitions alone with visits derived",
    partial(_heavy_tailed, tree=True),
)


def _raw_counts(setting: Setting) -> str:
    return (
        "raw visit counts choose the truncation thresholds: replacing one user changes what every later user "
        f"contributes; with {setting.episodes:,} users a loss of {_raw_count_loss(setting).value:.4g} is reached, "
        "and it "
        "grows in proportion to their number"
    )


def _raw_count_loss(setting: Setting) -> AtLeast:
    return AtLeast("epsilon", raw_count_loss(setting.episodes) * needs_epsilon(setting))


_RAW_COUNTS = Published(
    "published/heavy-tailed-central-raw-counts",
    _PAPER,
    "central",
    "epsilon",
    "the same, with truncation thresholds B_n that follow the raw number n of visits",
    "one visit moves the thresholds of every later user, so the loss grows in proportion to their number",
    "thresholds from released counts (running maximum) or from the episode's index",
    partial(_heavy_tailed, tree=True),
    recipe="central/heavy-tailed-published",
    unbounded=_raw_counts,
    reached=_raw_count_loss,
    apart=_CENTRAL,
)
_LOCAL = Published(
    "published/heavy-tailed-local",
    _PAPER,
    "local",
    "epsilon",
    "Lap(3 H/eps) on visits and transitions, Lap(6 H B/eps) on clipped rewards, every user",
    f"{FACTOR_TWO}, in both tables of counts: (2/3 + 2/3 + 1/3) eps. The thresholds of (3) are functions of raw "
    "counts, which nobody holds in the local model",
    "Lap(6 H/eps) on both count tables; thresholds from released counts",
    partial(_heavy_tailed, tree=False),
    recipe="local/heavy-tailed-published",
)
ENTRIES = (_CENTRAL, _RAW_COUNTS, _LOCAL)


def _run(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """The printed tree with thresholds from raw counts, with the noise of the entry."""
    if privacy.epsilon is None:
        raise Unsupported("the printed noise is scaled by epsilon: give epsilon instead of rho")
    H, log = shape.horizon, math.log2(max(2, episodes))
    failure = check_open_unit("failure_probability", options["failure_probability"])
    log_term = math.log(3 * shape.states * shape.actions * episodes * H / failure)
    encoder = RawCountTables(shape, privacy.epsilon * moments_of(shape).bound / (H * log**1.5 * log_term))
    setting = Setting(shape, episodes, privacy.epsilon)
    visits, *_, rewards = _RAW_COUNTS.parts(setting)
    channel = RawCountChannel(encoder, visits.noise, rewards.noise, Tree(users=episodes), episodes)
    name = str(_RAW_COUNTS.recipe)
    return Privatizer(name, shape, (channel,), releases(options), _RAW_COUNTS.as_run(setting), False, options)


def _run_locally(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """The printed noise of every user, with thresholds from her number instead of raw counts, which nobody holds."""
    if privacy.epsilon is None:
        raise Unsupported("the printed noise is scaled by epsilon: give epsilon instead of rho")
    H, moments = shape.horizon, moments_of(shape)
    failure = check_open_unit("failure_probability", options["failure_probability"])
    log_term = math.log(6 * shape.states * shape.actions * episodes * H / failure)
    encoder = IndexedTables(shape, privacy.epsilon * moments.bound / (H * log_term))
    setting = Setting(shape, episodes, privacy.epsilon)
    visits, *_, rewards = _LOCAL.parts(setting)
    channel = ClippedRewardsChannel(encoder, visits.noise, rewards.noise, None, episodes, local=True)
    schedule = Growing(first=1, growth=options["growth"])
    return Privatizer(str(_LOCAL.recipe), shape, (channel,), schedule, _LOCAL.as_run(setting), False, options)


RECIPES = (
    Recipe(
        "central/heavy-tailed-published", "central",
        "Private-Heavy-UCBVI's tree as printed, truncated at raw counts; NOT private, see the guarantee",
        _run, automatic=False, encoder="raw-count-tables", law="laplace", accumulator="tree", source=_PAPER,
        options={"failure_probability": 0.1, "growth": None}, heavy_tails=True,
    ),
    Recipe(
        "local/heavy-tailed-published", "local",
        "the local privatizer of Private-Heavy-UCBVI with the printed noise (continuous: simulation only)",
        _run_locally, automatic=False, encoder="indexed-tables", law="continuous laplace", accumulator="total",
        source=_PAPER, options={"failure_probability": 0.1, "growth": 0.02}, heavy_tails=True,
    ),
)  # fmt: skip
