"""Continual counting: sums that are released again and again, with Gaussian noise that hardly grows.

A recipe here releases prefix sums after every user or every block by a factorisation of the matrix of prefix sums: the
buffered square root (:mod:`discreet.accumulators.matrix`) or the refined binary tree. Blocks of independent noise add
up to t draws after t blocks; these carry a number of draws that grows like a logarithm of t, squared. They pay for it
with more noise in the first few releases, because all later ones show the same user again.

**Formal guarantees.** One user moves the whole sequence of noisy vectors by at most the column norm of the
factorisation times the L2 sensitivity of her own vector, and for the matrix mechanism by a stated slack more, because
it mixes counts in whole steps of a grid before noise from that grid is added (:mod:`discreet.noise.grid_gaussian`):
discrete noise, which can be shipped. What is published are these noisy mixtures; releases are computed from them. The
refined tree's noise is continuous, for simulation only. With the policy mask every row has a clock that stands still
while no step of the public policy plays the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discreet.accumulators.base import NoiseSource
from discreet.accumulators.matrix import Matrix, Mixing, Unmixing, fraction_bits
from discreet.accumulators.schedule import Equal, EveryEpisode
from discreet.accumulators.tree import RefinedNoise, RefinedTree, Tree
from discreet.encoders.base import Context, Encoder, Statistic, playable_rows
from discreet.encoders.first_visit_tables import FirstVisitTables
from discreet.encoders.joint_histogram import JointHistogram
from discreet.encoders.three_tables import ThreeTables
from discreet.errors import Unsupported
from discreet.noise import Gaussian, GridGaussian
from discreet.privacy.calibration import calibrate_noise
from discreet.privacy.guarantee import billboard, from_mechanism, post_process
from discreet.privacy.profiles import Profile
from discreet.privatizers.channel import Channel, Privatizer, WidthOf
from discreet.privatizers.matrix_transcript import MatrixTranscript
from discreet.privatizers.recipe import Options, Recipe
from discreet.privatizers.transcript import AdditiveTranscript
from discreet.privatizers.trust import Privacy
from discreet.privatizers.worst_pair import worst_pair
from discreet.release import Estimate
from discreet.shape import Shape
from discreet.validation import check_count

Floats = NDArray[np.float64]

# A compromise over RiverSwim with 4, 5 and 7 states and random worlds: a block should have about this many users per
# standard deviation of one release's noise. Between half and twice as many blocks hardly change what is learned.
_USERS_PER_DEVIATION = 8.0
_FEWEST, _MOST = 80, 600


@dataclass(frozen=True)
class ContinualChannel:
    """Counts whose prefix sums are released with correlated noise."""

    encoder: Encoder
    law: Gaussian | GridGaussian
    accumulator: Matrix | RefinedTree
    answers: frozenset[type] = field(default=frozenset())

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ContinualRun:
        return ContinualRun(self, shape, noise, masked)

    def noise_per_row(self) -> float:
        """Noise per block at the release after sqrt(T) of T: comparable with blocks, whose noise adds up.

        What a learner does is decided early in a run, but not by its first release.
        """
        errors = self.accumulator.errors()
        early = max(1, round(math.sqrt(len(errors) - 1)))
        counts = sum(float(s.cells.mean()) * s.values[0, 0, 0].size for s in self._marginals().values())
        return float(self.law.variance * counts * errors[early] / early)

    def cells(self) -> dict[str, int]:
        return {name: int(statistic.cells.max()) for name, statistic in self._marginals().items()}

    def shortcut(self, blocks: list[int]) -> list[int]:
        return blocks

    def transcript(self) -> MatrixTranscript | AdditiveTranscript:
        """For audits: all noisy mixtures of the worst pair of records, or all nodes of the tree."""
        pair = worst_pair(self.encoder)
        differs = pair.shift != 0
        cells = pair.cells[0][differs], pair.cells[1][differs]
        if isinstance(self.accumulator, Matrix):
            assert isinstance(self.law, GridGaussian)
            return MatrixTranscript(self.accumulator, self.law, cells)
        # Refinement is computed from the nodes of an ordinary tree.
        tree = Tree(self.accumulator.users)
        return AdditiveTranscript(Channel(self.encoder, self.law, tree), cells, tree.users)

    @property
    def profile(self) -> Profile:
        """The privacy of that pair."""
        transcript = self.transcript()
        if isinstance(transcript, MatrixTranscript):
            return transcript.profile
        moved = self.accumulator.sensitivity(worst_pair(self.encoder).sensitivity)
        return self.law.profile(moved)

    def _marginals(self) -> dict[str, Statistic]:
        return self.encoder.marginals(np.zeros(self.encoder.size))


class ContinualRun:
    """Prefix sums of one run, and how often each row has been released: its clock."""

    def __init__(self, channel: ContinualChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        size = channel.encoder.size
        self._channel, self._shape, self._masked = channel, shape, masked
        self._values, self._clock = np.zeros(size), np.zeros((shape.groups, shape.states, shape.actions), np.int64)
        self._errors = channel.accumulator.errors()
        self._step = _steps(channel, noise)

    def add(self, tally: Floats, users: int, context: Context) -> None:
        encoder = self._channel.encoder
        rows = np.ones(self._clock.shape, np.bool_)
        if self._masked:
            rows = playable_rows(self._shape, context.policy)
        where = np.flatnonzero(encoder.rows_to_cells(rows) & encoder.possible())
        self._values[where] += self._step(where, tally[where])
        self._clock += rows

    def estimates(self) -> dict[str, Estimate]:
        unit = self._channel.law.variance * self._errors[self._clock]
        return {
            name: Estimate(statistic.values.copy(), unit * statistic.cells)
            for name, statistic in self._channel.encoder.marginals(self._values).items()
        }

    def width_now(self) -> WidthOf:
        """The quantile of Gaussian noise, and what the grid can add."""
        channel, errors = self._channel, self._errors[self._clock]
        law, drift = channel.law, channel.accumulator.drift if isinstance(channel.accumulator, Matrix) else 0.0
        return lambda cells, tail: np.sqrt(errors * cells) * law.sum_quantile(1, tail) + cells * drift


def _steps(channel: ContinualChannel, noise: NoiseSource) -> Callable[[NDArray[np.int64], Floats], Floats]:
    """How the release of some cells changes from one of their releases to the next, given what was counted between."""
    size, law = channel.encoder.size, channel.law
    if isinstance(channel.accumulator, Matrix):
        mixing, unmixing = Mixing(channel.accumulator, size), Unmixing(channel.accumulator, size)

        def publish(where: NDArray[np.int64], counts: Floats) -> Floats:
            published = mixing.step(where, counts) + noise.draw(law, 1, len(where))
            return unmixing.step(where, published)

        return publish
    everywhere = int(np.count_nonzero(channel.encoder.possible()))
    tree = RefinedNoise(channel.accumulator, everywhere)

    def grow(where: NDArray[np.int64], counts: Floats) -> Floats:
        if len(where) != everywhere:
            raise Unsupported(
                "a node of the tree spans several policies, so no single one may mask it: set masked=False"
            )
        return counts + tree.step(lambda: noise.draw(law, 1, everywhere))

    return grow


def assemble(
    name: str,
    encode: Callable[[Shape], Encoder],
    accumulate: Callable[[int], Matrix | RefinedTree],
    privacy: Privacy,
    shape: Shape,
    episodes: int,
    options: Options,
) -> Privatizer:
    """Prefix sums of an encoder's counts, calibrated to a target."""
    encoder = encode(shape)
    calibrate = partial(calibrate_noise, Gaussian, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
    releases = episodes
    if "blocks" in options:
        deviation = calibrate(encoder.sensitivity()).sigma
        automatic = min(_MOST, max(_FEWEST, round(episodes / (_USERS_PER_DEVIATION * deviation))))
        releases = min(episodes, check_count("blocks", automatic if options["blocks"] is None else options["blocks"]))
    accumulator, name_of_counts = accumulate(releases), f"{encoder.name} counts in {releases} releases"
    if isinstance(accumulator, Matrix):
        # A user counts in a cell at most once a step.
        accumulator = replace(accumulator, bits=fraction_bits(episodes * shape.horizon))
        name_of_counts += f", mixed in steps of 2^-{accumulator.bits}"
    sensitivity = accumulator.sensitivity(encoder.sensitivity())
    law = calibrate(sensitivity)
    if isinstance(accumulator, Matrix):
        law = GridGaussian.as_private_as(law, accumulator.bits)
    release = from_mechanism(law, sensitivity, delta=privacy.delta, name=name_of_counts)
    release = post_process(release, "prefix sums are computed from the noisy counts alone")
    # The compiled loop adds noise to all cells alike, so it must not serve sums over cells that are known zeros.
    alike = encoder.possible().all() or isinstance(encoder, ThreeTables)
    schedule = EveryEpisode() if releases == episodes and alike else Equal(releases)
    masked = bool(options.get("masked", False))
    channel = ContinualChannel(encoder, law, accumulator)
    return Privatizer(name, shape, (channel,), schedule, billboard(release), masked, options)


def _matrix(name: str, encoder: str, encode: Callable[[Shape], Encoder]) -> Recipe:
    summary = f"{encoder} counts, square-root matrix mechanism with discrete Gaussian noise, released by blocks"
    return Recipe(
        f"central/{name}", "central", summary, partial(assemble, f"central/{name}", encode, Matrix),
        pure=False, encoder=encoder, law="gaussian", accumulator="matrix", options={"blocks": None, "masked": True},
    )  # fmt: skip


RECIPES = (
    _matrix("first-visit-matrix", "first-visit-tables", FirstVisitTables),
    _matrix("joint-histogram-matrix", "joint-histogram", JointHistogram),
    Recipe(
        "central/three-tables-refined-tree", "central",
        "three-tables counts, binary tree with Honaker's refinement and Gaussian noise (simulation only), every user",
        partial(assemble, "central/three-tables-refined-tree", ThreeTables, RefinedTree),
        pure=False, automatic=False, encoder="three-tables", law="gaussian", accumulator="refined tree",
    ),
)  # fmt: skip
