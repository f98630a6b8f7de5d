r"""The shuffle model, as printed: noise bits of SDP-PE, its split of the budget, and bits added before sending.

A counter is a sum of one bit per user. The paper gives each counter eps' = eps / (3 H) and beta' = delta / (H S A), and
asks for tau fair noise bits in it from all users together: m = ceil(tau / n) bits from each of n users, each a one with
probability 1/2; where n > tau it is one bit, a one with probability tau / (2 n). The order of tau is stated; its
constant is that of the proof.

The recipe ``shuffle/published-sdp-pe`` runs that, with separate bits, of which sums are shown: every batch has the same
tau, a crude one of a single step too. Where n <= tau a counter has tau fair bits or more, and one bit more is
post-processing, so the guarantee of ceil(tau) bits is a bound; where n > tau the noise of the batch is certified when
it is asked for, and refused should it not be enough.

**Messages that are added up.** The paper's user sends z = bit + her noise bits as one number. The shuffler hands on the
bag of numbers, which shows more than their sum, and the proof speaks of the sum.

*At least.* A z of m + 1 proves a true bit, which has probability 2^-m (tau / (2 n) where n > tau). If nobody else has
the bit, the bag then names its owner: whatever epsilon is, delta is at least that probability, in any of her counters.

*At most.* Let f0 be the law of the noise of one user, f1 the same one up, and r(z) = f1(z) / f0(z) = z / (m - z + 1).
Where all of n' users but one have the bit 0, the likelihood ratio of the bag, her bit 1 against 0, is the mean of
r(z_j) over the bag. So delta(e) is at most the probability that this mean exceeds exp(e), or in the other direction
falls below exp(-e), and Chernoff's bound with the exact moment generating function of r bounds both; a z beyond some
deviations of its noise, m + 1 included, is counted as a failure. In any crowd at least half of the others have the same
bit. Telling the adversary what the rest sent can only help, so n' = 1 + ceil((n - 1) / 2) is enough, and where the
others have the bit 1 the same holds with z read as m + 1 - z. A user flips 6 H counters: e = eps / (6 H), and deltas
add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.scientific import special
from discreet.base.shape import Shape
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.release import Layer
from discreet.mechanisms.schedule import sizes
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.shuffled import ShuffledChannel
from discreet.noise import BinomialNoise, RandomizedResponse
from discreet.noise.calibration import ShuffledBits
from discreet.papers.published_mechanism import AtLeast, Part, Published, Setting, needs_delta, needs_epsilon, steps_of
from discreet.privacy.guarantee import Guarantee, shuffled
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.predicted_regret import blocks_of, noise_after
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

_PAPER = "Bai, Talebi, Zhao, Cheng, Chen, shuffle privacy"
_DEVIATIONS = (2, 3, 4, 5, 6, 7, 8, 10)  # of the noise of one message: beyond them a message counts as a failure
# Multiples of the tilt that would be best for Gaussian noise; any tilt gives a valid bound.
_TILTS = np.concatenate([np.geomspace(0.005, 0.4, 6), np.linspace(0.5, 1.5, 11)])
_WINDOW = 12  # deviations of it beyond which the law of a message is bounded and not summed
_ROUNDING = 1e-6  # relative, granted to sums of logarithms of a million factorials


def _sdp(setting: Setting) -> tuple[Part, ...]:
    bits = BinomialNoise(math.ceil(noise_bits_of(setting)), 0.5)
    counted = 3 * setting.shape.horizon - 1
    encoder = ThreeTables(replace(setting.shape, homogeneous=False))
    why = "nothing is learned from where a user goes after the last step, and no value depends on it"
    return (
        Part("sums of three bits per step", bits, Sensitivity.unit_shifts(counted, counted), encoders=(encoder,)),
        Part("transitions of the last step", bits, Sensitivity.unit_shifts(1, 1), left_out=why),
    )


def _sdp_split(setting: Setting) -> tuple[Part, ...]:
    promised = RandomizedResponse(needs_epsilon(setting) / (3 * setting.shape.horizon))
    return (Part("six counters per step, each exactly as private as the split says", promised, steps_of(setting, 3)),)


def shuffle_noise_bits(horizon: int, states: int, actions: int, epsilon: float, delta: float) -> float:
    """The number of noise bits per counter in the proof of the shuffle paper: 96 ln(2/beta') / eps'^2 with its split.

    >>> round(shuffle_noise_bits(6, 4, 2, 1.0, 1e-5)), round(shuffle_noise_bits(1, 1, 20, 1.0, 1e-5))
    (500068, 13134)
    """
    return 96 * math.log(2 * horizon * states * actions / delta) / (epsilon / (3 * horizon)) ** 2


def batch_sizes(users: int) -> tuple[int, ...]:
    """The batches of a fine exploration, 2 L_b users each, by Algorithm 1 with so many users: L_b = 2^b, and the rest.

    A stage takes 3 L_b users. The printed test sums over this stage too, which would leave nothing for the last one: it
    is read as the sum over the stages before.

    >>> batch_sizes(20_000)[-2:]
    (4096, 5144)
    """
    sizes, left, length = [], users, 2
    while left >= 3:
        length, last = (length, False) if 3 * length < left else (left // 3, True)
        sizes.append(2 * length)
        left, length = 0 if last else left - 3 * length, 2 * length
    return tuple(sizes) or (max(1, users),)


def integer_message_delta(noise_bits: float, users: int, counters: int = 1) -> float:
    """The probability that sums of a true bit and noise bits give a user away for certain, in any of her counters.

    Each user sends bit + Bin(m, p). If nobody else has the bit, the value m + 1 proves hers: probability p^m.
    """
    m = max(1, math.ceil(noise_bits / users))
    p = 0.5 if users <= noise_bits else noise_bits / (2 * users)
    return -math.expm1(counters * math.log1p(-(p**m)))


def integer_message_bound(noise_bits: float, users: int, moves: int, epsilon: float) -> float:
    """A delta that holds at ``epsilon`` if sums of a true bit and noise bits are sent, and ``moves`` counters flip.

    A Chernoff bound over the bag of messages, for any crowd; see the module. One, where users outnumber noise bits.
    """
    if users > noise_bits:
        return 1.0
    crowd = math.ceil((users - 1) / 2)
    return min(1.0, moves * _bag_bound(math.ceil(noise_bits / users), crowd, epsilon / moves))


@lru_cache(maxsize=256)
def _bag_bound(m: int, crowd: int, epsilon: float) -> float:
    """The delta of one flipped bit in a bag of her message and those of ``crowd`` others with the same bit."""
    half, deviation, users = m / 2, math.sqrt(m) / 2, crowd + 1
    low, high = max(0, math.floor(half - _WINDOW * deviation)), min(m, math.ceil(half + _WINDOW * deviation))
    z = np.arange(low, high + 1, dtype=np.float64)
    log_law = special.gammaln(m + 1) - special.gammaln(z + 1) - special.gammaln(m - z + 1) - m * math.log(2)
    ratio, under = z / (m - z + 1), float(special.bdtr(low - 1, m, 0.5)) if low else 0.0
    tilts = math.expm1(epsilon) * m / 4 * _TILTS
    whole = np.append(log_law, math.log(float(special.bdtrc(high, m, 0.5)) + 1e-300)), np.append(ratio, ratio[-1])
    falls = users * (special.logsumexp(whole[0] - tilts[:, None] * whole[1], axis=1) + tilts * math.exp(-epsilon))
    fallen = users * under + math.exp(min(0.0, falls.min()))
    log_law[0] = np.logaddexp(log_law[0], math.log(under + 1e-300))  # from here on: all below, at the smallest r seen
    best = 1.0
    for cut in {min(high, math.floor(half + each * deviation)) for each in _DEVIATIONS}:
        seen = cut - low + 1
        others = special.logsumexp(log_law[:seen] + tilts[:, None] * ratio[:seen], axis=1)
        hers = special.logsumexp(log_law[: seen - 1] + tilts[:, None] * ratio[1:seen], axis=1)
        above = (hers + crowd * others - tilts * users * math.exp(epsilon)).min()
        beyond = special.bdtrc(cut - 1, m, 0.5) + crowd * special.bdtrc(cut, m, 0.5)  # her message, and the others'
        best = min(best, float(beyond) + math.exp(min(0.0, above)))
    return float(max(best, fallen) * (1 + _ROUNDING))


def noise_bits_of(setting: Setting) -> float:
    """The noise bits per counter of the proof, at these sizes and this target."""
    shape = setting.shape
    return shuffle_noise_bits(shape.horizon, shape.states, shape.actions, needs_epsilon(setting), needs_delta(setting))


def integer_message_reach(setting: Setting) -> AtLeast:
    """The delta that integer messages reach at any epsilon, in the largest batch of so many users."""
    largest = max(batch_sizes(setting.episodes))
    return AtLeast("delta", integer_message_delta(noise_bits_of(setting), largest, 3 * setting.shape.horizon))


def _bag_delta(setting: Setting) -> float:
    """The delta that is proved for integer messages, whatever batch of the schedule a user is in."""
    bits, moves, epsilon = noise_bits_of(setting), 6 * setting.shape.horizon, needs_epsilon(setting)
    return max(integer_message_bound(bits, users, moves, epsilon) for users in set(batch_sizes(setting.episodes)))


def _no_bound(setting: Setting) -> str:
    proved = _bag_delta(setting)
    if proved <= needs_delta(setting):
        return ""
    reached = integer_message_reach(setting).value
    return (
        "each user sends her bit plus her own noise as one number, and the largest number proves the bit: in a batch "
        "of "
        f"{max(batch_sizes(setting.episodes)):,} users with {math.ceil(noise_bits_of(setting)):,} noise bits that has "
        f"probability {reached:.3g}, whatever epsilon is, and no delta below {proved:.3g} is proved"
    )


def _bags(setting: Setting) -> Guarantee:
    why = (
        "numbers of a user's bit and noise in a bag, in batches of "
        f"{', '.join(f'{users:,}' for users in batch_sizes(setting.episodes))} users: Chernoff's bound for any crowd, "
        f"over the {6 * setting.shape.horizon} counters that one user flips"
    )
    return shuffled((), epsilon=needs_epsilon(setting), delta=_bag_delta(setting), why=why)


ENTRIES = (
    Published(
        "published/sdp-pe",
        _PAPER,
        "shuffle",
        "(epsilon, delta)",
        "tau = 96 ln(2 H S A/delta) / (eps/(3 H))^2 fair noise bits per counter, of which sums are shown",
        "true, with twenty times the privacy that is asked for at epsilon 1",
        "the smallest number of noise bits whose exact profile keeps the promise (2,008 instead of 500,068)",
        _sdp,
        recipe="shuffle/published-sdp-pe",
        bound=True,
    ),
    Published(
        "published/sdp-pe-split",
        _PAPER,
        "shuffle",
        "(epsilon, delta)",
        "any counters that are each private with eps/(3 H) and delta/(H S A), and no more",
        "a replaced user moves two counters of each table per step, one down and one up: 2 eps, or (2 - 2/(3 H)) eps "
        "if "
        "the transitions of the last step are left out",
        "eps/(6 H) and delta/(6 H) per counter, or exact accounting of all of them together",
        _sdp_split,
    ),
    Published(
        "published/sdp-pe-integer-messages",
        _PAPER,
        "shuffle",
        "(epsilon, delta)",
        "the same noise bits, added to the true bit before sending",
        "true where every user has many noise bits, as in the paper's RiverSwim; in its bandit a message proves a true "
        "bit too often, with probability 2^-ceil(tau/n) per counter in a batch of n users",
        "send every bit as a message of its own",
        _sdp,
        unbounded=_no_bound,
        reached=integer_message_reach,
        whole=_bags,
        bound=True,
    ),
)


@dataclass(frozen=True)
class PrintedBits:
    """As many noise bits as the paper asks for: ``tau`` in each counter of a batch, of one step or of all."""

    encoder: Encoder
    tau: float
    epsilon: float  # what ceil(tau) fair bits keep, at this delta
    delta: float

    @property
    def answers(self) -> frozenset[type]:
        """Requests for one step: they move fewer counters, and the paper's noise is the same."""
        return frozenset({Layer})

    def bits(self, users: int, what: Layer | None = None) -> ShuffledBits:
        """The noise bits of every user of a batch."""
        if users <= self.tau:
            return ShuffledBits(math.ceil(self.tau / users), 0.5)
        found = ShuffledBits(1, self.tau / (2 * users))
        if _crowded_delta(users, found.probability, self.encoder.sensitivity(), self.epsilon) > self.delta:
            raise Unsupported(
                f"a batch of {users} users is larger than tau = {self.tau:.0f}, and its noise bits, ones with "
                f"probability {found.probability:.3g}, do not keep epsilon {self.epsilon:.3g}: ask for fewer users"
            )
        return found


@lru_cache(maxsize=256)
def _crowded_delta(users: int, probability: float, moves: Sensitivity, epsilon: float) -> float:
    """The delta of one noise bit a user in a large batch."""
    return float(BinomialNoise(users, probability).profile(moves).delta(epsilon))


def _run(entry: Published, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Separate bits with the printed tau; the guarantee is the truth."""
    if privacy.epsilon is None:
        raise Unsupported("the paper's noise bits are counted by epsilon and delta: give those instead of rho")
    setting = Setting(shape, episodes, privacy.epsilon, privacy.delta)
    encoder = ThreeTables(shape)
    if not encoder.sensitivity().unit:
        raise Unsupported(
            f"three-tables counts pooled over {shape.horizon} steps move by more than one, which binomial noise does "
            "not hide: declare the world per step"
        )
    guarantee = entry.as_run(setting)
    noise = PrintedBits(encoder, noise_bits_of(setting), guarantee.epsilon, guarantee.delta)
    channel = ShuffledChannel(encoder, noise, max(2, episodes // 60), bit_level=bool(options["bit_level"]))
    schedule = blocks_of(options, shape, encoder, episodes, lambda _blocks: noise_after(channel))
    channel = replace(channel, block=max(sizes(schedule, episodes)))
    return Privatizer(str(entry.recipe), shape, (channel,), schedule, guarantee, False, options)


RECIPES = (
    Recipe(
        "shuffle/published-sdp-pe", "shuffle",
        "SDP-PE as printed: tau = 96 ln(2HSA/delta) / (epsilon/3H)^2 noise bits per counter, in every batch",
        partial(_run, ENTRIES[0]), automatic=False, encoder="three-tables", law="binomial",
        accumulator="shuffled-blocks", source="Bai, Talebi, Zhao, Cheng, Chen",
        options={"blocks": None, "first": None, "bit_level": False},
    ),
)  # fmt: skip
