"""The local model, as printed: the four randomisers of LDP-OBI, LDP-PSRL, and the shuffle appendix.

Garcelon, Perchet, Pike-Burke, Pirotta, "Local differential privacy for regret minimization in reinforcement learning"
(2021). Tables are pooled over steps or not, as the shape declares; bits are answered step by step in any case. LDP-PSRL
prints a fourth table, of squared rewards; where rewards are bits it is the third one, and the recipe does not send it.

**The shuffle appendix** (I). Before episode k the shuffler hands on the messages of users 1, ..., k - 1 in random order
(algorithm 8). The bag of episode k + 1 less that of episode k *is* the message of user k (:func:`newcomer`): who sent
what is known to everybody who counts, and nothing is amplified. What hides a user is her own answering of bits, eps/H
each, of which 6 H - 2 flip when her trajectory is replaced,

    epsilon = (6 - 2 / H) eps,   pure and local; the paper says "roughly" H times the epsilon of a bit, which is eps.

Formula (113) is about the counters of one bag: an epsilon that falls with the number (k - 1) H of bits. Its argument
counts the bits of a counter as if each belonged to somebody else, one counter at a time; as printed it has room to
spare (:func:`printed_epsilon`), because the square root that the bound has at its source is not there. If each user is
shuffled once it holds at short horizons. Batches with exact accounting:
:mod:`discreet.mechanisms.messages.answered_bits`.

**Regret as proved**: the bound of Theorem 5 on LDP-OBI as a function of the number of users. The theorem hides its
constants; the proof (appendix D) has them. With T = K H steps, failure probability f, the knob alpha of the algorithm,
and bounds c1, ..., c4 on the noise in rewards, visits, transitions of a pair and of a triple after K users, each taken
with probability 3 f / (2 pi^2 K^2), and l = ln(14 S A T / f),

    regret <= (H sqrt(46 S l) + sqrt(6 l)) (sqrt(2 S A T) + H S A)
              + 2 S A H ((alpha + 1) c3 + S c4) (ln(2 S A T) + H)
              + 2 S A ((alpha + 1) c2 + c1) (ln(2 S A T) + H)  +  2 H sqrt(T ln(2 / f)).

For Laplace noise of scale b = 6 H / epsilon (Theorem 7), with d the probability above,

    c1 = c2 = max(sqrt K, l1) sqrt(8 l1) b,   l1 = ln(6 S A / d),      c4 the same with l2 = ln(6 S^2 A / d),
    c3 = max(sqrt(K S), l2) sqrt(8 l2) b.

The lower bound of the local model, Theorem 2, is :func:`discreet.worlds.hard_local_bound`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_open_unit, check_positive
from discreet.mechanisms.counts.three_tables import ScaledTables, ThreeTables
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.messages.answered_bits import AnsweredBitsChannel
from discreet.mechanisms.session import Privatizer
from discreet.noise import BoundedNoise, Gaussian, Laplace, RandomizedResponse
from discreet.noise.shuffled_randomized_response import ShuffledResponse
from discreet.papers.published_mechanism import Part, Published, Setting, channels_of, needs_delta, needs_epsilon
from discreet.privacy.guarantee import through_shuffler
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.local import randomiser_target, releases
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

_PAPER = "Garcelon, Perchet, Pike-Burke, Pirotta, local privacy"
_SOURCE = "Garcelon, Perchet, Pike-Burke, Pirotta (2021)"
_TABLES = "visits, transitions and rewards"
_BITS = "a bit per step and cell, one reward bit"


def _three_tables(setting: Setting, law: Laplace | Gaussian, *, rounded: bool = False) -> Part:
    # The worst pair has rewards 0 and 1, so it is that of the rounded tables.
    worst = ThreeTables(setting.shape).sensitivity()
    return Part(_TABLES, law, worst, encoders=(ThreeTables(setting.shape, rounded=rounded),))


def _obi_laplace(setting: Setting) -> tuple[Part, ...]:
    return (_three_tables(setting, Laplace(6 * setting.shape.horizon / needs_epsilon(setting))),)


def _obi_gaussian(setting: Setting, *, large: bool) -> tuple[Part, ...]:
    """Two scales are printed: c^2 = 4 ln(24 / delta), and the larger c = 4 ln(24 / delta)."""
    squared = 4 * math.log(24 / needs_delta(setting))
    c = squared if large else math.sqrt(squared)
    return (_three_tables(setting, Gaussian(c * setting.shape.horizon / needs_epsilon(setting))),)


def _obi_bounded(setting: Setting) -> tuple[Part, ...]:
    """Radii with the unknown constant read as 1 and the step's epsilon as epsilon / (3 H); one channel sends both."""
    S, A, H = setting.shape.states, setting.shape.actions, setting.shape.horizon
    radius = math.sqrt(S * A * math.log(1 / needs_delta(setting))) / (needs_epsilon(setting) / (3 * H))
    pooled = setting.shape.homogeneous and H > 1
    both = Sensitivity.worst_shift((H, 2, 2) if pooled else (1, 2 * H, 2 * H))
    tables = Part("visits and rewards", BoundedNoise(radius), both, encoders=(ScaledTables(setting.shape),))
    if H == 1:
        return (tables,)
    moves = Sensitivity.worst_shift((H - 1, 1, 1) if pooled else (1, H - 1, H - 1))
    return tables, Part("transitions", BoundedNoise(math.sqrt(S) * radius), moves)


def _psrl(setting: Setting) -> tuple[Part, ...]:
    H = setting.shape.horizon
    law = Laplace(8 * H / needs_epsilon(setting))
    squares = Sensitivity.worst_shift((H, 1, 1) if setting.shape.homogeneous else (1, H, H))
    why = "rewards are sent as bits, whose squares are the rewards again"
    return _three_tables(setting, law, rounded=True), Part("squared rewards", law, squares, left_out=why)


def _answered(setting: Setting, law: RandomizedResponse | ShuffledResponse) -> tuple[Part, ...]:
    """Bits of every step, however laws are declared: 3 H - 1 are set and as many cleared."""
    bits = ThreeTables(replace(setting.shape, homogeneous=False))
    return (Part(_BITS, law, bits.sensitivity(), encoders=(bits,)),)


def _obi_bits(setting: Setting) -> tuple[Part, ...]:
    return _answered(setting, RandomizedResponse(needs_epsilon(setting) / (6 * setting.shape.horizon)))


def _appendix_bits(setting: Setting) -> tuple[Part, ...]:
    return _answered(setting, RandomizedResponse(needs_epsilon(setting) / setting.shape.horizon))


def _appendix_batch(setting: Setting) -> tuple[Part, ...]:
    """One batch of everybody, released once. Below some twenty thousand users the formula has no p for epsilon 1."""
    users = max(setting.episodes, 20_000)
    p = printed_p(users * setting.shape.horizon, needs_epsilon(setting), needs_delta(setting))
    return _answered(setting, ShuffledResponse(math.log(2 / p - 1), users))


ENTRIES = (
    Published(
        "published/ldp-obi-laplace",
        _PAPER,
        "local",
        "epsilon",
        "Lap(6 H/eps) on visits, transitions and rewards",
        "true, and slack: the three tables together move by 6H - 2",
        "Lap((6 H - 2)/eps)",
        _obi_laplace,
        recipe="local/published-laplace",
    ),
    Published(
        "published/ldp-obi-gaussian",
        _PAPER,
        "local",
        "(epsilon, delta)",
        "N(0, (c H/eps)^2) on visits, transitions and rewards, with the smallest c of Proposition 11, "
        "c^2 = 4 ln(24/delta)",
        "good enough at epsilon 1 and delta 0.1, not at epsilon 20; with the c of Proposition 10 it is good enough at "
        "both",
        "the sigma that solves the exact Gaussian profile at mu = sqrt(4 H^2 + 2 (H-1)^2) / sigma",
        partial(_obi_gaussian, large=False),
        recipe="local/published-gaussian",
    ),
    Published(
        "published/ldp-obi-gaussian-large",
        _PAPER,
        "local",
        "(epsilon, delta)",
        "the same with the c of Proposition 10, c = 4 ln(24/delta)",
        "true, with several times the noise that is needed",
        "as above",
        partial(_obi_gaussian, large=True),
        recipe="local/published-gaussian-large",
    ),
    Published(
        "published/ldp-obi-randomised-response",
        _PAPER,
        "local",
        "epsilon",
        "each bit of each step answered with eps/(6 H)",
        "true, and slack: 6H - 2 bits move",
        "eps/(6 H - 2) per bit",
        _obi_bits,
        recipe="local/published-randomised-response",
    ),
    Published(
        "published/ldp-obi-bounded",
        _PAPER,
        "local",
        "(epsilon, delta)",
        "bounded noise of radius sqrt(S A ln(1/delta))/e, and S sqrt(A ln(1/delta))/e on transitions, e = eps/(3 H)",
        "Proposition 14 says nothing for a delta of 0.1 at these dimensions, and its constant is not named; with "
        "the constant one, which is our reading, delta is above 0.1 from epsilon 1 on",
        "Laplace noise, which is quieter and pure",
        _obi_bounded,
        recipe="local/published-bounded",
    ),
    Published(
        "published/ldp-psrl",
        _PAPER,
        "local",
        "epsilon",
        "Lap(8 H/eps) on visits, transitions, rewards and squared rewards",
        "true, and slack: the four tables together move by 8H - 2",
        "Lap((8 H - 2)/eps)",
        _psrl,
        recipe="local/published-psrl",
    ),
    Published(
        "published/ldp-shuffle-appendix",
        _PAPER,
        "local",
        "epsilon, stated as roughly H times the epsilon of a bit",
        "each bit of each step kept or replaced by a coin, eps/H per bit, one reward bit",
        "right up to a constant: 6H - 2 bits move, so it is (6 - 2/H) eps. Over the episodes of Algorithm 8 no more "
        "than that is left: two bags in a row differ by one user's message",
        "eps/(6 H - 2) per bit; shuffle each user once, in one batch",
        _appendix_bits,
        recipe="shuffle/published-prefix",
        roughly=True,
    ),
    Published(
        "published/ldp-shuffle-appendix-batch",
        _PAPER,
        "shuffle",
        "(epsilon, delta)",
        "one batch of all K users, p from formula (113) with K H bits in a counter",
        "true at short horizons, with room to spare: the argument takes the bits of one user for bits of several, and "
        "the bound is looser than at its source, which makes up for it",
        "the smallest p whose exact profile over all flipped bits keeps the promise",
        _appendix_batch,
        bound=True,
    ),
)


def prefix_views(messages: Sequence[Integers], coins: np.random.Generator) -> Iterator[list[Integers]]:
    """What the analyser of algorithm 8 gets before each episode: the messages of everybody so far, permuted anew."""
    for users in range(len(messages) + 1):
        yield [messages[i] for i in coins.permutation(users)]


def newcomer(before: Sequence[Integers], after: Sequence[Integers]) -> Integers:
    """The message of the one user by whom two bags differ, however both were permuted."""
    left = Counter(message.tobytes() for message in after)
    left.subtract(message.tobytes() for message in before)
    found = [message for message, times in left.items() if times]
    if len(after) != len(before) + 1 or len(found) != 1 or left[found[0]] != 1:
        raise InvalidInput(f"these are not two views in a row: they hold {len(before)} and {len(after)} messages")
    return np.frombuffer(found[0], np.int64)


def printed_epsilon(p: float, bits: int, delta: float, *, root: bool = False) -> float:
    """Formula (113): the epsilon that is claimed for a counter of ``bits`` answered bits.

    ``root`` puts back the square root that the bound has at its source (Cheu, Smith, Ullman, Zeber, Zhilyaev 2019).
    """
    log = math.log(4 / delta)
    if not 14 * log / bits <= p <= 1:
        raise InvalidInput(f"formula (113) needs p from {14 * log / bits:.4g} to 1 with {bits} bits, got {p:.4g}")
    surely = p - math.sqrt(2 * p * math.log(2 / delta) / bits)
    return (math.sqrt(32 * log) if root else 32 * log) / math.sqrt(bits * surely) * (1 - surely)


def printed_p(bits: int, epsilon: float, delta: float, *, root: bool = False) -> float:
    """The smallest p for which :func:`printed_epsilon` is at most ``epsilon``; it falls with p."""
    low, high = 14 * math.log(4 / delta) / bits, 1.0
    if low > 1 or printed_epsilon(1.0, bits, delta, root=root) > epsilon:
        raise InvalidInput(
            f"formula (113) reaches epsilon {epsilon:g} for no p with {bits} bits: more users are needed"
        )
    if printed_epsilon(low, bits, delta, root=root) <= epsilon:
        return low
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if printed_epsilon(middle, bits, delta, root=root) <= epsilon else (middle, high)
    return high


def _run(entry: Published, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """A randomiser as printed: its own scale, a release after every user, no mask; the guarantee is the truth."""
    name = str(entry.recipe)
    epsilon, delta = randomiser_target(_law(name), privacy)
    schedule, setting = releases(options), Setting(shape, episodes, epsilon, delta)
    channels = _channels(entry.parts(setting), shape)
    return Privatizer(name, shape, channels, schedule, entry.as_run(setting), False, options)


def _prefix(entry: Published, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Algorithm 8 as printed: eps/H a bit, the prefix shuffled anew before every episode, nothing masked."""
    if privacy.epsilon is None:
        raise Unsupported("the appendix answers bits with epsilon / H: give epsilon instead of rho")
    setting = Setting(shape, episodes, privacy.epsilon)
    why = (
        "before every episode the messages of all users so far are permuted anew; two such bags in a row differ by the "
        "message of one user, who is known, so nothing is amplified and her own answers are all that hides her"
    )
    guarantee = through_shuffler(entry.as_run(setting), why)
    channels = _channels(entry.parts(setting), shape)
    return Privatizer(str(entry.recipe), shape, channels, releases(options), guarantee, False, options)


def _channels(parts: tuple[Part, ...], shape: Shape) -> tuple[AnyChannel, ...]:
    law = parts[0].law
    return (AnsweredBitsChannel(shape, law),) if isinstance(law, RandomizedResponse) else channels_of(parts)


def _law(recipe: str) -> str:
    """The randomiser of a printed recipe of the local model."""
    return recipe.removeprefix("local/published-").removesuffix("-large")


def _recipe(entry: Published) -> Recipe:
    name = str(entry.recipe)
    prefix = name.startswith("shuffle/")
    law = "randomised-response" if prefix else _law(name)
    return Recipe(
        name, "shuffle" if prefix else "local", _SUMMARIES[name], partial(_prefix if prefix else _run, entry),
        pure=law not in ("gaussian", "bounded"), automatic=False, encoder="three-tables", law=law,
        accumulator="total", source=_SOURCE, options={"growth": None},
    )  # fmt: skip


_SUMMARIES = {
    "local/published-laplace": "LDP-OBI as printed: Lap(6H/epsilon) on three tables, a release after every user",
    "local/published-gaussian":
        "LDP-OBI as printed: Gaussian noise with the smallest c of Prop. 11; little privacy at large epsilon",
    "local/published-gaussian-large":
        "LDP-OBI as printed: Gaussian noise with the c of Prop. 10, for which its privacy is proved at epsilon up to 1",
    "local/published-bounded":
        "LDP-OBI as printed: bounded noise with the constant read as 1; see the guarantee for its delta",
    "local/published-randomised-response": "LDP-OBI as printed: every bit answered with epsilon/(6H)",
    "local/published-psrl": "LDP-PSRL as printed: Lap(8H/epsilon) on the tables, a release after every user",
    "shuffle/published-prefix":
        "the shuffle appendix of LDP-OBI as printed; reshuffling a growing prefix amplifies nothing, see the guarantee",
}  # fmt: skip
_BY_RECIPE = {entry.recipe: entry for entry in ENTRIES}
RECIPES = tuple(_recipe(_BY_RECIPE[name]) for name in _SUMMARIES)


def obi_regret_bound(
    shape: Shape, epsilon: float, episodes: ArrayLike, *, failure_probability: float = 0.1, alpha: float = 2.0
) -> Floats:
    """At most this much regret, but with the failure probability, for LDP-OBI with Laplace noise of scale 6H/epsilon.

    More than H per episode, which nobody can lose, is no statement at all:

    >>> from discreet.base.shape import Shape
    >>> small = Shape(2, 2, 2, homogeneous=True)
    >>> [float(f"{obi_regret_bound(small, 20.0, K) / K:.2g}") for K in (10**6, 10**8, 10**10)]
    [25.0, 3.5, 0.46]
    """
    check_positive("epsilon", epsilon)
    check_open_unit("failure_probability", failure_probability)
    check_positive("alpha - 1", alpha - 1)
    S, A, H = shape.states, shape.actions, shape.horizon
    K = np.asarray(episodes, np.float64)
    T, scale = K * H, 6 * H / epsilon
    d = 3 * failure_probability / (2 * math.pi**2 * K**2)
    one, many = np.log(6 * S * A / d), np.log(6 * S * S * A / d)
    pair = np.maximum(np.sqrt(K), one) * np.sqrt(8 * one) * scale
    triple = np.maximum(np.sqrt(K), many) * np.sqrt(8 * many) * scale
    row = np.maximum(np.sqrt(K * S), many) * np.sqrt(8 * many) * scale
    level, times = np.log(14 * S * A * T / failure_probability), np.log(2 * S * A * T) + H
    statistical = (H * np.sqrt(46 * S * level) + np.sqrt(6 * level)) * (np.sqrt(2 * S * A * T) + H * S * A)
    transitions = 2 * S * A * H * ((alpha + 1) * row + S * triple) * times
    rewards = 2 * S * A * ((alpha + 1) * pair + pair) * times
    return np.asarray(statistical + transitions + rewards + 2 * H * np.sqrt(T * math.log(2 / failure_probability)))
