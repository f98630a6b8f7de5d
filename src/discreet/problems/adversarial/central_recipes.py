"""Central recipes for layered worlds: a curator adds noise to blocks of users, to a tree, or to every user.

* ``central/loss-tables`` (full information). Losses: K-norm or Laplace noise on whole tables, once per block or in a
  tree, or one answered bit per user (local privacy implies central). ``accumulator="auto"`` and ``losses="auto"`` take
  what has the smallest predicted error (:mod:`discreet.problems.adversarial.layered_budget`).
* ``central/observed-losses-blocks`` (bandit). A policy is held for a block of users; the counts of (x, a, bit of the
  loss) in the block are released once, with one draw of noise: replacing a user moves H of them down and H up. With
  ``cells="signed"`` ones less zeros are added up in one cell each, for the same L1 norm and half the Laplace noise.
  ``noise="auto"`` takes Laplace or, where delta or rho allows it, Gaussian noise, whichever is quieter.
* ``central/observed-losses`` (bandit). The papers' mechanism, certified: the losses of every user by herself, which is
  private locally already, and counts by a tree over users.

With discrete Gaussian noise the parts are calibrated together: variances are in the ratio of L2 norms squared over
shares, and one scale for all of them is searched until the exact composed profile keeps (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from discreet.base.errors import InvalidInput, Unsupported, check_name
from discreet.base.shape import LayeredShape, Shape
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.mechanism import counts_per_row
from discreet.mechanisms.schedule import Equal, EveryEpisode
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import Accumulator
from discreet.mechanisms.sums.blocks import Blocks, EachAlone, Total
from discreet.mechanisms.sums.tree import EvenTree, Tree
from discreet.noise import DiscreteGaussian, DiscreteLaplace, NoNoise
from discreet.noise.calibration import calibrate_noise
from discreet.noise.knorm import TableNoise
from discreet.privacy.guarantee import from_mechanism
from discreet.privacy.profiles import ZeroConcentratedProfile, compose
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LayeredTransitions, LossBits, LossTable, ObservedLosses, SignedLosses
from discreet.problems.adversarial.layered_budget import (
    FOR_ESTIMATES,
    HALF,
    Part,
    assembled,
    bandit_blocks,
    divisible,
    draws,
    epsilon_of,
    layered,
    norms,
    one_bit_guarantee,
    quieter_counts,
    share_of_counts,
    table_blocks,
    table_error,
    times_shown,
)
from discreet.problems.adversarial.mechanisms import OneBitChannel, unrounded
from discreet.recipes.recipe import Options
from discreet.recipes.targets import Privacy

_LOSSES = ("auto", "k-norm", "laplace", "one-bit")
_ACCUMULATORS = ("auto", "blocks", "tree", "even-tree")
_CELLS = ("bits", "signed")
_NOISES = ("auto", "laplace", "gaussian")
_TOLERANCE = 1e-5  # of the scale of Gaussian noise


class Wanted(NamedTuple):
    """A channel before its noise is known: its share of the budget and the family of its noise."""

    encoder: Encoder
    accumulator: Accumulator
    share: float
    family: str  # laplace, k-norm or gaussian
    name: str

    @property
    def moves(self) -> Sensitivity:
        """What one user moves in all of the releases that show her."""
        return self.accumulator.sensitivity(self.encoder.sensitivity())

    def law(self, budget: float) -> Any:
        """The noise; ``budget`` is epsilon, or for Gaussian noise the deviation of a unit of L2 with a share of one."""
        if self.family == "gaussian":
            return DiscreteGaussian(budget * self.moves.l2 / math.sqrt(self.share))
        if self.family == "k-norm":
            return TableNoise(self.encoder.size, times_shown(self.accumulator) / (self.share * budget))
        return calibrate_noise(DiscreteLaplace, norms(self.moves), epsilon=self.share * budget)


class Way(NamedTuple):
    """One way to release losses: its predicted error, when it releases, and what counts may share."""

    error: float
    losses: Wanted | Part
    accumulator: Accumulator
    blocks: int


def central_tables(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Full information with pure noise."""
    shape, epsilon, kinds = layered(shape), divisible(privacy), _kinds(options)
    check_name("kind of loss release", options["losses"], _LOSSES)
    if options["losses"] == "one-bit" and kinds == ["blocks"]:
        raise Unsupported("one-bit reports come from every user by herself: set accumulator='tree', or take k-norm")
    families = [name for name in ("k-norm", "laplace") if options["losses"] in ("auto", name)]

    def ways(share: float) -> list[Way]:
        if not options["losses_private"]:
            part: Part = Channel(LossTable(shape, rounded=False), NoNoise(), Total(), share=0.0), None
            return [Way(0.0, part, *_accumulated(kinds[0], 0.0, episodes, options))]
        found = _tables(families, epsilon, shape, episodes, share, options)
        if options["losses"] in ("auto", "one-bit"):
            bits = OneBitChannel(unrounded(LossTable(shape)), (1 - share) * epsilon)
            error = table_error(1, bits.variance * episodes, episodes)
            part = bits, one_bit_guarantee(bits, privacy.delta)
            found += [
                Way(error, part, *_accumulated(kind, 0.0, episodes, options)) for kind in kinds if kind != "blocks"
            ]
        return found

    return _built(ways, "laplace", epsilon, privacy, shape, episodes, options)


def gaussian_tables(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Full information with discrete Gaussian noise."""
    shape, scale = layered(shape), _rough_scale(privacy)

    def ways(share: float) -> list[Way]:
        return _tables(["gaussian"], scale, shape, episodes, share, options)

    return _built(ways, "gaussian", scale, privacy, shape, episodes, options)


def observed(family: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Bandit feedback user by user."""
    shape = layered(shape)
    budget = _rough_scale(privacy) if family == "gaussian" else divisible(privacy)

    def ways(share: float) -> list[Way]:
        losses = Wanted(ObservedLosses(shape), EachAlone(), 1 - share, family, "observed losses")
        return [Way(0.0, losses, Tree(users=episodes), episodes)]

    return _built(ways, family, budget, privacy, shape, episodes, options)


def observed_blocks(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Bandit feedback block by block, with the quieter of the noises that reach the target."""
    shape = layered(shape)
    check_name("noise", options["noise"], _NOISES)
    families = ["laplace"] * (privacy.epsilon is not None) + ["gaussian"] * (
        privacy.rho is not None or privacy.delta > 0
    )
    if options["noise"] != "auto":
        families = [options["noise"]]
    check_name("cells", options["cells"], _CELLS)
    made = [_observed_blocks(family, privacy, shape, episodes, options) for family in families]
    return min(made, key=_noise_of_signs)


def _noise_of_signs(privatizer: Privatizer) -> float:
    """The noise variance of ones less zeros: of one cell, or of the two that are subtracted."""
    losses = privatizer.channels[-1]
    return losses.noise_per_row() / counts_per_row(losses.encoder) * losses.cells_per_count()["signed_losses"]


def _observed_blocks(family: str, privacy: Privacy, shape: LayeredShape, episodes: int, options: Options) -> Privatizer:
    budget = _rough_scale(privacy) if family == "gaussian" else divisible(privacy)
    signed = options["cells"] == "signed" and family == "laplace"
    encoder: Encoder = SignedLosses(shape) if signed else LossBits(shape)
    name = "signs of observed losses" if signed else "bits of observed losses"

    def ways(share: float) -> list[Way]:
        losses = Wanted(encoder, EachAlone(blocks=True), 1 - share, family, name)
        # Ones less zeros is twice the loss above one half: one or two draws of noise, a quarter of their variance.
        blocks = bandit_blocks(losses.law(budget).variance / (4 if signed else 2), shape, episodes, options["blocks"])
        return [Way(0.0, losses, Blocks(), blocks)]

    return _built(ways, family, budget, privacy, shape, episodes, options)


def _built(
    ways: Callable[[float], list[Way]],
    family: str,
    budget: float,
    privacy: Privacy,
    shape: LayeredShape,
    episodes: int,
    options: Options,
) -> Privatizer:
    """Losses in the best way, counts that suit it, and a split that suits both."""

    def best(share: float) -> Way:
        return min(ways(share), key=lambda way: way.error)

    def counts(share: float) -> tuple[Wanted, float]:
        return _counts(family, budget, share, shape, best(share), FOR_ESTIMATES in (options["split"], blocks))

    blocks, private = options.get("blocks"), bool(options.get("losses_private", True))
    share = share_of_counts(options["split"], shape, episodes, lambda: counts(HALF)[1], private)
    way = best(share)
    wanted = [counts(share)[0]] if share > 0 else []
    if isinstance(way.losses, Wanted):
        parts = _noisy([*wanted, way.losses], budget, privacy)
    else:
        parts = [*_noisy(wanted, budget, privacy), way.losses]
    schedule = Equal(way.blocks) if isinstance(way.accumulator, Blocks) else EveryEpisode()
    return assembled(shape, parts, schedule, privacy.delta, options)


def _tables(
    families: Sequence[str], budget: float, shape: LayeredShape, episodes: int, share: float, options: Options
) -> list[Way]:
    """Loss tables with additive noise: every family with every accumulator."""
    found = []
    for family in families:
        losses = Wanted(LossTable(shape), Blocks(), 1 - share, family, "loss tables")
        for kind in _kinds(options):
            accumulator, blocks = _accumulated(kind, losses.law(budget).variance, episodes, options)
            wanted = losses._replace(accumulator=accumulator)
            noise = _late_variance(wanted.law(budget), accumulator, blocks)
            error = table_error(episodes / blocks, noise, episodes, constant=kind != "blocks")
            found.append(Way(error, wanted, accumulator, blocks))
    return found


def _counts(
    family: str, budget: float, share: float, shape: LayeredShape, way: Way, apart: bool
) -> tuple[Wanted, float]:
    """Counts for a way to release losses, and the variance of their noise at the end; ``apart``: of blocks."""
    wanted = Wanted(LayeredTransitions(shape), way.accumulator, share, family, "transitions")
    if isinstance(way.accumulator, Blocks) and not apart:
        wanted = wanted._replace(
            accumulator=quieter_counts(
                lambda accumulator: wanted._replace(accumulator=accumulator).law(budget), way.blocks
            )
        )
    return wanted, _late_variance(wanted.law(budget), wanted.accumulator, way.blocks)


def _noisy(wanted: Sequence[Wanted], budget: float, privacy: Privacy) -> list[Part]:
    """Channels with their noise and promises; Gaussian noise is calibrated for all of them together."""
    gaussian = any(part.family == "gaussian" for part in wanted)
    if gaussian and privacy.rho is None:
        budget = _exact_scale(wanted, budget, epsilon_of(privacy), privacy.delta)
    parts: list[Part] = []
    for one in wanted:
        law = one.law(budget)
        moves = one.moves if gaussian and privacy.rho is None else norms(one.moves)
        promise = from_mechanism(law, moves, delta=privacy.delta, name=one.name)
        parts.append((Channel(one.encoder, law, one.accumulator), promise))
    return parts


def _rough_scale(privacy: Privacy) -> float:
    """The deviation per unit of L2 that zero-concentration asks for: exact for rho, enough for (epsilon, delta)."""
    rho = privacy.rho if privacy.rho is not None else _largest_rho(epsilon_of(privacy), privacy.delta)
    scale = 1 / math.sqrt(2 * rho)
    return math.nextafter(scale * (1 + 1e-12), math.inf)


def _exact_scale(wanted: Sequence[Wanted], enough: float, epsilon: float, delta: float) -> float:
    """The smallest scale whose composed profile keeps the target, not above one that is known to be enough."""

    def keeps(scale: float) -> bool:
        profile = compose([one.law(scale).profile(one.moves) for one in wanted])
        return profile.delta(epsilon) <= delta

    low, high = enough / 4, enough
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def _largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho that implies (epsilon, delta)."""
    if delta == 0:
        raise Unsupported("Gaussian noise cannot give pure privacy: set delta above 0, or take another recipe")
    low, high = 0.0, epsilon
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if ZeroConcentratedProfile(middle).delta(epsilon) <= delta else (low, middle)
    return low


def _kinds(options: Options) -> list[str]:
    """The accumulators that come into question."""
    kind, blocks = options["accumulator"], options["blocks"]
    check_name("accumulator", kind, _ACCUMULATORS)
    if kind not in ("auto", "blocks") and blocks not in (None, FOR_ESTIMATES):
        raise InvalidInput(f"accumulator={kind!r} releases after every user: leave out blocks")
    if kind == "auto":
        one_bit = options.get("losses") == "one-bit"
        return ["tree"] if one_bit else ["blocks"] if blocks is not None else ["blocks", "tree"]
    return [kind]


def _accumulated(kind: str, variance: float, episodes: int, options: Options) -> tuple[Accumulator, int]:
    """The accumulator of losses whose sum over a block has noise of this variance, and the number of releases."""
    if kind == "blocks":
        return Blocks(), table_blocks(variance, episodes, options["blocks"])
    return (EvenTree(users=episodes) if kind == "even-tree" else Tree(users=episodes)), episodes


def _late_variance(law: Any, accumulator: Accumulator, blocks: int) -> float:
    """The variance of the noise in one entry of a late release."""
    if isinstance(accumulator, Tree):
        return float(law.variance * draws(accumulator))
    return float(law.variance * (accumulator.levels if isinstance(accumulator, EvenTree) else blocks))
