"""The local model, as printed: the four randomisers of LDP-OBI, LDP-PSRL, and the shuffle appendix."""

from __future__ import annotations

import math
from dataclasses import replace

from discreet.audit.cases import Setting
from discreet.encoders.tables import ThreeTables
from discreet.noise import BoundedNoise, Gaussian, Laplace
from discreet.noise.shuffled_response import ShuffledResponse
from discreet.papers.mechanism import AnsweredBits, Part, Published, needs_delta, needs_epsilon
from discreet.papers.prefix_shuffle import printed_p
from discreet.privacy.sensitivity import Sensitivity

_PAPER = "Garcelon, Perchet, Pike-Burke, Pirotta, local privacy"


def _pooled_tables(setting: Setting) -> Sensitivity:
    return ThreeTables(replace(setting.shape, homogeneous=True)).sensitivity()


def _obi_laplace(setting: Setting) -> tuple[Part, ...]:
    scale = 6 * setting.shape.horizon / needs_epsilon(setting)
    return (Part("visits, transitions and rewards", Laplace(scale), _pooled_tables(setting)),)


def _obi_gaussian(setting: Setting) -> tuple[Part, ...]:
    return _obi_gaussian_with(setting, math.sqrt(4 * math.log(24 / needs_delta(setting))))


def _obi_gaussian_large(setting: Setting) -> tuple[Part, ...]:
    return _obi_gaussian_with(setting, 4 * math.log(24 / needs_delta(setting)))


def _obi_gaussian_with(setting: Setting, c: float) -> tuple[Part, ...]:
    sigma = c * setting.shape.horizon / needs_epsilon(setting)
    return (Part("visits, transitions and rewards", Gaussian(sigma), _pooled_tables(setting)),)


def _obi_bits(setting: Setting) -> tuple[Part, ...]:
    H = setting.shape.horizon
    bits = AnsweredBits(needs_epsilon(setting) / (6 * H))
    return (Part("a bit per step and cell", bits, Sensitivity.unit_shifts(3 * H - 1, 3 * H - 1)),)


def _obi_bounded(setting: Setting) -> tuple[Part, ...]:
    S, A, H = setting.shape.states, setting.shape.actions, setting.shape.horizon
    per_step = needs_epsilon(setting) / (3 * H)
    log = math.log(1 / needs_delta(setting))
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
    scale = 8 * H / needs_epsilon(setting)
    return (Part("visits, transitions, rewards and squared rewards", Laplace(scale), Sensitivity.worst_shift(*groups)),)


def _appendix_bits(setting: Setting) -> tuple[Part, ...]:
    H = setting.shape.horizon
    bits = AnsweredBits(needs_epsilon(setting) / H)
    return (Part("one bit per cell and step, one reward bit", bits, Sensitivity.unit_shifts(3 * H - 1, 3 * H - 1)),)


def _appendix_batch(setting: Setting, *, root: bool) -> tuple[Part, ...]:
    """One batch of everybody, released once. Below some twenty thousand users the formula has no p for epsilon 1."""
    H, users = setting.shape.horizon, max(setting.episodes, 20_000)
    p = printed_p(users * H, needs_epsilon(setting), needs_delta(setting), root=root)
    law = ShuffledResponse(math.log(2 / p - 1), users)
    return (Part("one bit per cell and step, one reward bit", law, Sensitivity.unit_shifts(3 * H - 1, 3 * H - 1)),)


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
    ),
    Published(
        "published/ldp-obi-gaussian",
        _PAPER,
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
        _PAPER,
        "local",
        "(epsilon, delta)",
        "the same with c = 4 ln(24/delta)",
        "true, but several times too noisy; the tail bound in its proof fails already in one dimension",
        "as above",
        _obi_gaussian_large,
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
    ),
    Published(
        "published/ldp-obi-bounded",
        _PAPER,
        "local",
        "(epsilon, delta)",
        "bounded noise of radius sqrt(S A ln(1/delta))/e, and S sqrt(A ln(1/delta))/e on transitions, e = eps/(3 H)",
        "the theorem it rests on admits no such delta at these dimensions, and its constant is not known",
        "Laplace noise, which is quieter and pure",
        _obi_bounded,
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
    ),
    Published(
        "published/ldp-shuffle-appendix",
        _PAPER,
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
        _PAPER,
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
        _PAPER,
        "shuffle",
        "(epsilon, delta)",
        "the same, with the square root that the formula has at its source",
        "bits of one user are counted as users, and one counter instead of 6H - 2",
        "as above",
        lambda s: _appendix_batch(s, root=True),
    ),
)
