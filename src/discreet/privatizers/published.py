"""The noise that five papers print, what they say it promises, and what it really gives. All of it is data.

An entry lists the streams that are released, each with its law as printed and with what replacing one user moves in
all of its releases. The truth is computed from those two and from nothing else; the claim stands beside it. Sizes mean:
states S, actions A, horizon H of the shape, K episodes. The adversarial paper's layered problems have S states in all
layers together and d = S A pairs. A tree over K - 1 users shows one user L = floor(log2(K-1)) + 1 times.

Where one factor is wrong everywhere: these papers define neighbours by *replacing* a user, which takes one unit out of
a cell and puts one into another at every step, but count H moves, as if a user were only added or removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.encoders.three_tables import ThreeTables
from discreet.errors import InvalidInput, unknown_name
from discreet.layered_shape import LayeredShape
from discreet.noise import BinomialNoise, BoundedNoise, Gaussian, Laplace, RandomizedResponse, add_noise
from discreet.privacy.audit import log_ratio
from discreet.privacy.guarantee import Claim, Guarantee, Reason, billboard, compose, from_mechanism, locally
from discreet.privacy.profiles import Profile, PureProfile, ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.privatizers.charges import Setting
from discreet.privatizers.prefix_shuffle import printed_p
from discreet.privatizers.shuffled_response import ShuffledResponse
from discreet.shape import Shape
from discreet.streams import Stream, next_word

Floats = NDArray[np.float64]
Law = Laplace | Gaussian | BinomialNoise | BoundedNoise


@dataclass(frozen=True)
class AnsweredBits:
    """Every cell is a bit that the user answers by randomised response; only moved bits lose anything."""

    epsilon: float

    @property
    def variance(self) -> float:
        return float(RandomizedResponse(self.epsilon).variance(1))

    def profile(self, sensitivity: Sensitivity) -> Profile:
        return RandomizedResponse(self.epsilon).profile(sensitivity.cells)


@dataclass(frozen=True)
class Part:
    """One released stream: its law, and what one user moves in all of its releases together."""

    name: str
    law: Law | AnsweredBits | ShuffledResponse
    moves: Sensitivity

    def guarantee(self, delta: float) -> Guarantee:
        # The supremum of the loss of Laplace noise needs the L1 norm alone; thousands of cells need no convolution.
        moves = replace(self.moves, shifts=None, unit=False) if isinstance(self.law, Laplace) else self.moves
        return from_mechanism(self.law, moves, delta=delta, name=self.name)

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of runs on either side of the worst shift."""
        if isinstance(self.law, AnsweredBits):
            rng = np.random.default_rng(int(next_word(draws)))
            answers = RandomizedResponse(self.law.epsilon).randomize(np.full((trials, self.moves.cells), 1 - side), rng)
            return np.asarray((self.law.epsilon * (2 * answers - 1)).sum(axis=1, keepdims=True))
        if isinstance(self.law, ShuffledResponse):
            rng = np.random.default_rng(int(next_word(draws)))
            return self.law.log_ratios(self.moves.cells, side, trials, rng)[:, None]
        shift = np.concatenate([np.repeat([m, -m], [up, down]) for m, up, down in self.moves.shifts or ()])
        noise = np.zeros(trials * len(shift))
        add_noise(self.law.kernel(), noise, draws)
        x = noise.reshape(trials, len(shift)) + (shift if side == 0 else 0.0)
        ratios = log_ratio(self.law.log_probability(x - shift), self.law.log_probability(x))
        return np.asarray(ratios.sum(axis=1, keepdims=True))


Parts = Callable[[Setting], tuple[Part, ...]]


@dataclass(frozen=True)
class Published:
    """A mechanism as printed. ``claim`` and ``noise`` are formulas; ``wrong`` and ``corrected`` are for people.

    ``unbounded`` says why no finite epsilon exists, where that is so, and ``apart`` names the entry that is left
    without that one mistake.
    """

    name: str
    paper: str
    model: str
    claim: str
    noise: str
    wrong: str
    corrected: str
    parts: Parts
    unbounded: str | None = None
    concentrated: bool = False
    apart: str | None = None

    def truth(
        self,
        shape: Shape,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        episodes: int = 20_000,
    ) -> Guarantee:
        """What the printed noise gives at these sizes, with the claim beside it."""
        setting = Setting(shape, episodes, epsilon, delta, rho)
        claim = self.claimed(setting)
        if self.unbounded is not None:
            premises: tuple[Reason, ...] = ()
            if self.apart is not None:
                left = published(self.apart).truth(shape, epsilon=epsilon, delta=delta, rho=rho, episodes=episodes)
                premises = (Reason("apart from that", f"epsilon {left.epsilon:.4g}", (left.derivation,)),)
            reason = Reason("no bound", self.unbounded, premises)
            model = "joint" if self.model == "central" else self.model
            return Guarantee(model, math.inf, delta, PureProfile(math.inf), reason, claimed=claim)
        why = "replacing one user moves all of these streams together, and their noises are independent"
        whole = compose([part.guarantee(delta) for part in self.parts(setting)], delta=delta, why=why)
        return replace(_in_model(self.model, whole), claimed=claim)

    def claimed(self, setting: Setting) -> Claim:
        """What the paper says about the mechanism at these sizes."""
        if self.concentrated:
            if setting.rho is None:
                raise InvalidInput(f"{self.name} is stated for a zero-concentrated target: give rho, not epsilon")
            implied = ZeroConcentratedProfile(setting.rho).epsilon(setting.delta)
            return Claim(implied, setting.delta, f"{self.paper}: rho = {setting.rho:g}")
        if setting.epsilon is None:
            raise InvalidInput(f"{self.name} is stated for an epsilon: give epsilon, not rho")
        return Claim(setting.epsilon, setting.delta, self.paper)


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


def published(name: str) -> Published:
    """The entry of that name."""
    if name not in PUBLISHED:
        raise unknown_name("published recipe", name, PUBLISHED)
    return PUBLISHED[name]


def raw_count_loss(users: int, exponent: float = 0.5) -> float:
    """A privacy loss that reward truncation at raw visit counts reaches, in units of the claimed epsilon.

    One cell, H = 1, thresholds B_n proportional to n^exponent. User 1 visits the cell or does not. Every later user j
    brings the reward B_(j-1): with user 1 her count is j - 1 and the reward is kept; without, the threshold is B_(j-2)
    and it is dropped. So every later leaf differs, and the node that closes at t, with noise of scale 6 B_t L, moves by
    the sum of the thresholds below it.
    """
    levels = users.bit_length()
    thresholds = np.arange(users + 1, dtype=np.float64) ** exponent
    total = 0.0
    for t in range(1, users + 1):
        shift = thresholds[t - (t & -t) : t].sum()
        total += shift / (6 * thresholds[t] * levels)
    return float(total)


def integer_message_delta(noise_bits: float, users: int, counters: int = 1) -> float:
    """The probability that sums of a true bit and noise bits give a user away for certain, in any of her counters.

    Each user sends bit + Bin(m, p). If nobody else has the bit, the value m + 1 proves hers: probability p^m.
    """
    m = max(1, math.ceil(noise_bits / users))
    p = 0.5 if users <= noise_bits else noise_bits / (2 * users)
    return 1 - (1 - p**m) ** counters


def shuffle_noise_bits(horizon: int, states: int, actions: int, epsilon: float, delta: float) -> float:
    """The number of noise bits per counter in the shuffle paper: 96 ln(2/beta') / eps'^2 with its split."""
    return 96 * math.log(2 * horizon * states * actions / delta) / (epsilon / (3 * horizon)) ** 2


def _in_model(model: str, whole: Guarantee) -> Guarantee:
    if model == "local":
        return locally(whole)
    if model == "shuffle":
        return replace(whole, model="shuffle")
    return billboard(whole) if model == "central" else whole


def _needs_epsilon(setting: Setting) -> float:
    if setting.epsilon is None:
        raise InvalidInput("this mechanism is calibrated by epsilon: give epsilon, not rho")
    return setting.epsilon


def _needs_delta(setting: Setting) -> float:
    if setting.delta == 0:
        raise InvalidInput("this mechanism is calibrated by a delta above 0; its paper uses 0.1")
    return setting.delta


def _levels(setting: Setting) -> int:
    return max(1, setting.episodes - 1).bit_length()


def _steps(setting: Setting, times: int = 1) -> Sensitivity:
    """One table that every step moves once up and once down, in ``times`` releases."""
    n = setting.shape.horizon * times
    return Sensitivity.unit_shifts(n, n)


def _heavy_tailed(setting: Setting, log: float, levels: int) -> tuple[Part, ...]:
    H, epsilon = setting.shape.horizon, _needs_epsilon(setting)
    moves = _steps(setting, levels)
    return (
        Part("visits", Laplace(3 * H * log / epsilon), moves),
        Part("transitions", Laplace(3 * H * log / epsilon), moves),
        Part("clipped rewards, in units of their thresholds", Laplace(6 * H * log / epsilon), moves),
    )


def _heavy_tailed_central(setting: Setting) -> tuple[Part, ...]:
    return _heavy_tailed(setting, math.log2(setting.episodes), _levels(setting))


def _heavy_tailed_natural(setting: Setting) -> tuple[Part, ...]:
    return _heavy_tailed(setting, math.log(setting.episodes), _levels(setting))


def _heavy_tailed_local(setting: Setting) -> tuple[Part, ...]:
    return _heavy_tailed(setting, 1.0, 1)


def _adversarial(setting: Setting, *, tree: bool, full: bool) -> tuple[Part, ...]:
    H, epsilon = setting.shape.horizon, _needs_epsilon(setting)
    log, levels = (math.log2(setting.episodes), _levels(setting)) if tree else (1.0, 1)
    counts = Laplace(3 * H * log / epsilon)
    shape = setting.shape
    pairs = shape.pairs if isinstance(shape, LayeredShape) else shape.states * shape.actions
    table = Part("loss tables", counts, Sensitivity.unit_shifts(pairs * levels, 0))
    seen = Part("losses along the path", Laplace(3 * H / epsilon), _steps(setting))
    return (
        Part("visits", counts, _steps(setting, levels)),
        Part("transitions", counts, _steps(setting, levels)),
        table if full else seen,
    )


def _pooled_tables(setting: Setting) -> Sensitivity:
    return ThreeTables(replace(setting.shape, homogeneous=True)).sensitivity()


def _obi_laplace(setting: Setting) -> tuple[Part, ...]:
    scale = 6 * setting.shape.horizon / _needs_epsilon(setting)
    return (Part("visits, transitions and rewards", Laplace(scale), _pooled_tables(setting)),)


def _obi_gaussian(setting: Setting) -> tuple[Part, ...]:
    return _obi_gaussian_with(setting, math.sqrt(4 * math.log(24 / _needs_delta(setting))))


def _obi_gaussian_large(setting: Setting) -> tuple[Part, ...]:
    return _obi_gaussian_with(setting, 4 * math.log(24 / _needs_delta(setting)))


def _obi_gaussian_with(setting: Setting, c: float) -> tuple[Part, ...]:
    sigma = c * setting.shape.horizon / _needs_epsilon(setting)
    return (Part("visits, transitions and rewards", Gaussian(sigma), _pooled_tables(setting)),)


def _obi_bits(setting: Setting) -> tuple[Part, ...]:
    H = setting.shape.horizon
    bits = AnsweredBits(_needs_epsilon(setting) / (6 * H))
    return (Part("a bit per step and cell", bits, Sensitivity.unit_shifts(3 * H - 1, 3 * H - 1)),)


def _obi_bounded(setting: Setting) -> tuple[Part, ...]:
    S, A, H = setting.shape.states, setting.shape.actions, setting.shape.horizon
    per_step = _needs_epsilon(setting) / (3 * H)
    log = math.log(1 / _needs_delta(setting))
    tables = Part(
        "visits and rewards", BoundedNoise(math.sqrt(S * A * log) / per_step), Sensitivity.worst_shift((H, 2, 2))
    )
    if H == 1:
        return (tables,)
    radius = S * math.sqrt(A * log) / per_step
    return tables, Part("transitions", BoundedNoise(radius), Sensitivity.worst_shift((H - 1, 1, 1)))


def _psrl(setting: Setting) -> tuple[Part, ...]:
    H = setting.shape.horizon
    groups = ((H, 3, 3), (H - 1, 1, 1)) if H > 1 else ((H, 3, 3),)
    scale = 8 * H / _needs_epsilon(setting)
    return (Part("visits, transitions, rewards and squared rewards", Laplace(scale), Sensitivity.worst_shift(*groups)),)


def _appendix_bits(setting: Setting) -> tuple[Part, ...]:
    H = setting.shape.horizon
    bits = AnsweredBits(_needs_epsilon(setting) / H)
    return (Part("one bit per cell and step, one reward bit", bits, Sensitivity.unit_shifts(3 * H - 1, 3 * H - 1)),)


def _appendix_batch(setting: Setting, *, root: bool) -> tuple[Part, ...]:
    """One batch of everybody, released once. Below some twenty thousand users the formula has no p for epsilon 1."""
    H, users = setting.shape.horizon, max(setting.episodes, 20_000)
    p = printed_p(users * H, _needs_epsilon(setting), _needs_delta(setting), root=root)
    law = ShuffledResponse(math.log(2 / p - 1), users)
    return (Part("one bit per cell and step, one reward bit", law, Sensitivity.unit_shifts(3 * H - 1, 3 * H - 1)),)


def _offline_laplace(setting: Setting) -> tuple[Part, ...]:
    law = Laplace(4 * setting.shape.horizon / _needs_epsilon(setting))
    return Part("visits", law, _steps(setting)), Part("transitions", law, _steps(setting))


def _offline_gaussian(setting: Setting) -> tuple[Part, ...]:
    law = Gaussian(math.sqrt(2 * setting.shape.horizon / (setting.rho or math.nan)))
    return Part("visits", law, _steps(setting)), Part("transitions", law, _steps(setting))


def _linear(setting: Setting, vector_move: int, squared_matrix_move: int) -> tuple[Part, ...]:
    """Three vectors and two matrices per step.

    Vectors are in units of their targets' range, so that a user moves one by at most 2 and its variance is 2/rho0.
    Symmetric noise of variance v off and 2v on the diagonal is spherical in the Frobenius norm with variance 2v, so a
    matrix that moves by m in that norm is a vector with m^2 unit moves; as printed v = 1 / (4 rho0).
    """
    H = setting.shape.horizon
    share = (setting.rho or math.nan) / (5 * H)
    matrices = Sensitivity.unit_shifts(squared_matrix_move * H, squared_matrix_move * H)
    return (
        Part("weighted targets", Gaussian(math.sqrt(2 / share)), Sensitivity.worst_shift((vector_move, 3 * H, 0))),
        Part("Gram matrices, in the Frobenius norm", Gaussian(math.sqrt(1 / (2 * share))), matrices),
    )


def _vapvi(setting: Setting) -> tuple[Part, ...]:
    # |phi phi^T - psi psi^T|_F^2 = 2 for orthogonal unit features.
    return _linear(setting, 2, 2)


def _vapvi_experiment(setting: Setting) -> tuple[Part, ...]:
    # The largest moves over the 200 pairs of the experiment's own features, whose norm is up to sqrt(7).
    return _linear(setting, 3, 57)


def _sdp(setting: Setting) -> tuple[Part, ...]:
    shape = setting.shape
    bits = shuffle_noise_bits(
        shape.horizon, shape.states, shape.actions, _needs_epsilon(setting), _needs_delta(setting)
    )
    return (Part("three bits per step", BinomialNoise(math.ceil(bits), 0.5), _steps(setting, 3)),)


def _sdp_split(setting: Setting) -> tuple[Part, ...]:
    promised = AnsweredBits(_needs_epsilon(setting) / (3 * setting.shape.horizon))
    return (Part("six counters per step, each exactly as private as the split says", promised, _steps(setting, 3)),)


_HEAVY = "Wu, Zhou, Chowdhury, Wang, heavy-tailed rewards"
_ADVERSARIAL = "Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen, adversarial losses"
_LOCAL = "Garcelon, Perchet, Pike-Burke, Pirotta, local privacy"
_OFFLINE = "Qiao, Wang, offline reinforcement learning"
_SHUFFLE = "Bai, Talebi, Zhao, Cheng, Chen, shuffle privacy"
_FACTOR_TWO = "counts move by 2H when a user is replaced, not by H"

_ENTRIES = (
    Published(
        "published/heavy-tailed-central",
        _HEAVY,
        "central",
        "epsilon",
        "Lap(3 H log2(K)/eps) on visits and transitions, Lap(6 B H log2(K)/eps) on clipped rewards, per tree node",
        f"{_FACTOR_TWO}; a leaf is in L = floor(log2(K-1))+1 nodes, not log K: (5/3) eps L / log2(K) in all",
        "Lap(6 H L/eps) on both count tables, or Lap(3 H L/eps) on transitions alone with visits derived",
        _heavy_tailed_central,
    ),
    Published(
        "published/heavy-tailed-central-natural-log",
        _HEAVY,
        "central",
        "epsilon",
        "the same with log read as the natural logarithm",
        f"{_FACTOR_TWO}; ln K is about 0.69 log2 K: (5/3) eps L / ln(K)",
        "as above",
        _heavy_tailed_natural,
    ),
    Published(
        "published/heavy-tailed-central-raw-counts",
        _HEAVY,
        "central",
        "epsilon",
        "the same, with truncation thresholds B_n that follow the raw number n of visits",
        "one visit moves the thresholds of every later user, so the loss grows with their number, without bound",
        "thresholds from released counts (running maximum) or from the episode's index",
        _heavy_tailed_central,
        unbounded="raw visit counts choose the truncation thresholds: replacing one user changes what every later "
        "user contributes, and the loss grows in proportion to their number",
        apart="published/heavy-tailed-central",
    ),
    Published(
        "published/heavy-tailed-local",
        _HEAVY,
        "local",
        "epsilon",
        "Lap(3 H/eps) on visits and transitions, Lap(6 H B/eps) on clipped rewards, every user",
        f"{_FACTOR_TWO}: (5/3) eps; the thresholds need raw counts that nobody holds in the local model",
        "Lap(6 H/eps) on both count tables; thresholds from released counts",
        _heavy_tailed_local,
    ),
    Published(
        "published/adversarial-full-information",
        _ADVERSARIAL,
        "central",
        "epsilon",
        "Lap(3 H log2(K)/eps) per tree node on visits, transitions and loss tables",
        f"{_FACTOR_TWO}; a user's loss table moves all d = S A entries: (4/3 + d/(3H)) eps L / log2(K)",
        "Lap(2 H L/e) on counts and Lap(d L/e) (or K-norm noise) on losses, with e the stream's share of eps",
        lambda s: _adversarial(s, tree=True, full=True),
    ),
    Published(
        "published/adversarial-bandit",
        _ADVERSARIAL,
        "central",
        "epsilon",
        "Lap(3 H log2(K)/eps) per tree node on visits and transitions, Lap(3 H/eps) on observed losses",
        f"{_FACTOR_TWO}, in each of three streams: (4/3 L / log2(K) + 2/3) eps",
        "Lap(2 H L/e) on counts, Lap(2 H/e) on losses",
        lambda s: _adversarial(s, tree=True, full=False),
    ),
    Published(
        "published/adversarial-full-information-local",
        _ADVERSARIAL,
        "local",
        "epsilon",
        "Lap(3 H/eps) on visits, transitions and the loss table, every user",
        f"{_FACTOR_TWO}; the loss table moves all d = S A entries: (4/3 + d/(3H)) eps",
        "Lap(2 H/e) on counts, Lap(d/e) or one sampled coordinate on losses",
        lambda s: _adversarial(s, tree=False, full=True),
    ),
    Published(
        "published/adversarial-bandit-local",
        _ADVERSARIAL,
        "local",
        "epsilon",
        "Lap(3 H/eps) on visits, transitions and observed losses, every user",
        f"{_FACTOR_TWO}, in each of three streams: 2 eps",
        "Lap(2 H/e) on each stream with e its share of eps",
        lambda s: _adversarial(s, tree=False, full=False),
    ),
    Published(
        "published/ldp-obi-laplace",
        _LOCAL,
        "local",
        "epsilon",
        "Lap(6 H/eps) on visits, transitions and rewards",
        "true, and slack: the three tables together move by 6H - 2",
        "Lap((6 H - 2)/eps)",
        _obi_laplace,
    ),
    Published(
        "published/ldp-obi-gaussian",
        _LOCAL,
        "local",
        "(epsilon, delta)",
        "N(0, (c H/eps)^2) on visits, transitions and rewards, c^2 = 4 ln(24/delta)",
        "privacy is proved for c > 4 ln(24/delta) and epsilon up to 1; the error bounds admit this smaller c, and the "
        "experiments go to epsilon 20",
        "the sigma that solves the exact Gaussian profile at mu = sqrt(4 H^2 + 2 (H-1)^2) / sigma",
        _obi_gaussian,
    ),
    Published(
        "published/ldp-obi-gaussian-large",
        _LOCAL,
        "local",
        "(epsilon, delta)",
        "the same with c = 4 ln(24/delta)",
        "true, but several times too noisy; the tail bound in its proof fails already in one dimension",
        "as above",
        _obi_gaussian_large,
    ),
    Published(
        "published/ldp-obi-randomised-response",
        _LOCAL,
        "local",
        "epsilon",
        "each bit of each step answered with eps/(6 H)",
        "true, and slack: 6H - 2 bits move",
        "eps/(6 H - 2) per bit",
        _obi_bits,
    ),
    Published(
        "published/ldp-obi-bounded",
        _LOCAL,
        "local",
        "(epsilon, delta)",
        "bounded noise of radius sqrt(S A ln(1/delta))/e, and S sqrt(A ln(1/delta))/e on transitions, e = eps/(3 H)",
        "the theorem it rests on admits no such delta at these dimensions, and its constant is not known",
        "Laplace noise, which is quieter and pure",
        _obi_bounded,
    ),
    Published(
        "published/ldp-psrl",
        _LOCAL,
        "local",
        "epsilon",
        "Lap(8 H/eps) on visits, transitions, rewards and squared rewards",
        "true, and slack: the four tables together move by 8H - 2",
        "Lap((8 H - 2)/eps)",
        _psrl,
    ),
    Published(
        "published/ldp-shuffle-appendix",
        _LOCAL,
        "local",
        "epsilon, stated as H times the epsilon of a bit",
        "each bit of each step kept or replaced by a coin, eps/H per bit, one reward bit",
        "6H - 2 bits move, not H: (6 - 2/H) eps; and reshuffling a growing prefix hides nobody, because the difference "
        "between two batches is one user's message",
        "eps/(6 H - 2) per bit; shuffle each user once, in one batch",
        _appendix_bits,
    ),
    Published(
        "published/ldp-shuffle-appendix-batch",
        _LOCAL,
        "shuffle",
        "(epsilon, delta)",
        "one batch of all K users, p from formula (113) with K H bits in a counter",
        "bits of one user are counted as users, and one counter instead of 6H - 2; a square root lost in print makes "
        "up for both at short horizons, and no longer at long ones",
        "the smallest p whose exact profile over all flipped bits keeps the promise",
        lambda s: _appendix_batch(s, root=False),
    ),
    Published(
        "published/ldp-shuffle-appendix-batch-root",
        _LOCAL,
        "shuffle",
        "(epsilon, delta)",
        "the same, with the square root that the formula has at its source",
        "bits of one user are counted as users, and one counter instead of 6H - 2",
        "as above",
        lambda s: _appendix_batch(s, root=True),
    ),
    Published(
        "published/offline-apvi",
        _OFFLINE,
        "offline",
        "rho",
        "N(0, 2 H/rho) on visits and transitions of all steps",
        "true and tight: the squared L2 norm of a replacement is 4H",
        "2H - 1 instead of 2H if successors of the last step are not released",
        _offline_gaussian,
        concentrated=True,
    ),
    Published(
        "published/offline-apvi-laplace",
        _OFFLINE,
        "offline",
        "epsilon",
        "Lap(4 H/eps) on visits and transitions of all steps",
        "true and tight: the L1 norm of a replacement is 4H",
        "Lap((4 H - 2)/eps) if successors of the last step are not released",
        _offline_laplace,
    ),
    Published(
        "published/offline-vapvi",
        _OFFLINE,
        "offline",
        "rho",
        "rho/(5 H) for each of three vectors and two matrices per step; matrix noise of variance 1/(4 rho0)",
        "the matrices are calibrated for adding a user, the vectors for replacing one: 1.4 rho",
        "matrix noise of variance 1/(2 rho0)",
        _vapvi,
        concentrated=True,
    ),
    Published(
        "published/offline-vapvi-experiment",
        _OFFLINE,
        "offline",
        "rho",
        "the same, run on features of norm up to sqrt(7)",
        "the bound of 1 on the norm of the features is broken: 24.15 rho",
        "divide the features by sqrt(7) and clip",
        _vapvi_experiment,
        concentrated=True,
    ),
    Published(
        "published/sdp-pe",
        _SHUFFLE,
        "shuffle",
        "(epsilon, delta)",
        "tau = 96 ln(2 H S A/delta) / (eps/(3 H))^2 fair noise bits per counter, sent as separate messages",
        "true with this constant, but twenty times too noisy at epsilon 1",
        "the smallest number of noise bits whose exact profile keeps the promise (2,008 instead of 500,068)",
        _sdp,
    ),
    Published(
        "published/sdp-pe-split",
        _SHUFFLE,
        "shuffle",
        "(epsilon, delta)",
        "any counters that are each private with eps/(3 H) and delta/(H S A)",
        "a replaced user moves six counters per step, not three: 2 eps",
        "eps/(6 H) and delta/(6 H) per counter, or exact accounting of all of them together",
        _sdp_split,
    ),
    Published(
        "published/sdp-pe-integer-messages",
        _SHUFFLE,
        "shuffle",
        "(epsilon, delta)",
        "the same noise bits, but added to the true bit before sending",
        "a message of m + 1 proves the bit: with n > tau users that has probability tau/(2 n) per counter",
        "send every bit as a message of its own",
        _sdp,
        unbounded="each user sends her bit plus her own noise as one number, and the largest number proves the bit: "
        "no epsilon holds with a small delta",
    ),
)

PUBLISHED: Mapping[str, Published] = {entry.name: entry for entry in _ENTRIES}
