"""Central recipes beyond plain blocks: focused blocks of rows, and prefix sums with correlated noise.

* Focused blocks (:mod:`discreet.mechanisms.focused`) answer for the rows that are worth asking about, with that much
  less noise.
* The matrix mechanism (:mod:`discreet.mechanisms.continual`) releases prefix sums of all users so far, with noise that
  hardly grows.

Both choose the number of blocks by the regret that it is expected to cost (:mod:`discreet.recipes.predicted_regret`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from discreet.base.shape import Shape
from discreet.base.validation import check_positive
from discreet.mechanisms.continual import ContinualChannel
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.counts.first_visit import FirstVisitTables
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.focused import FocusedChannel, RowEncoder, row_numbers
from discreet.mechanisms.mechanism import counts_per_row
from discreet.mechanisms.release import OPENING
from discreet.mechanisms.schedule import Equal, EveryEpisode, sizes
from discreet.mechanisms.session import Privatizer, unnamed
from discreet.mechanisms.sums.matrix import Matrix, fraction_bits
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, GridGaussian
from discreet.noise.calibration import calibrate_noise
from discreet.noise.discrete_gaussian import SMOOTHED
from discreet.noise.distribution import Law
from discreet.privacy.guarantee import billboard, from_mechanism, one_of, parallel, post_process
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.predicted_regret import WEIGHED_SUMS, blocks_of, noise_after, square_root
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

LAWS = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}
_EACH = 256  # rows up to which every number has its law
_SPARE = 5e-5  # a little more noise than in proportion, so that the exact profile hardly ever misses the target
_NARROW = 16.0  # sigma below which a discrete Gaussian is calibrated by itself


def focused(encoder: RowEncoder, law: str, privacy: Privacy, episodes: int, options: Options) -> Privatizer:
    """Focused blocks of an encoder's rows, calibrated to a target."""
    enough = check_positive("enough", options["enough"], finite=False)
    masked = bool(options["masked"])
    numbers = row_numbers(encoder.rows, _EACH) if masked else (encoder.rows,)
    sensitivities = [encoder.sensitivity(rows) for rows in numbers]
    laws = _laws(law, sensitivities, privacy)
    releases = [
        from_mechanism(one, moves, delta=privacy.delta, name=f"{encoder.name} of {rows} rows")
        for rows, one, moves in zip(numbers, laws, sensitivities, strict=True)
    ]
    channel = FocusedChannel(encoder, numbers, laws, enough)
    schedule = blocks_of(options, encoder.shape, encoder, episodes, lambda _blocks: noise_after(channel))
    either = one_of(releases, "how many rows a block releases follows from its policy and from earlier releases")
    guarantee = billboard(parallel(either, f"every user is in exactly one block ({schedule.describe()})"))
    return unnamed(encoder.shape, (channel,), schedule, guarantee, masked, options)


def _laws(law: str, sensitivities: Sequence[Sensitivity], privacy: Privacy) -> tuple[Law, ...]:
    """The least noise for each of these sensitivities.

    Discrete Gaussian noise that is not narrow is hardly more than what continuous noise would have to be, which is
    proportional to the length of the moves. So that is tried first, which is fast, and with the variance that the bound
    by smoothing asks for on top; what is taken has been checked by its own profile. The rest is calibrated by itself.
    """
    calibrate = partial(calibrate_noise, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
    if law == "laplace" or privacy.epsilon is None:
        return tuple(calibrate(LAWS[law], moves) for moves in sensitivities)
    epsilon, largest = privacy.epsilon, sensitivities[-1]
    per_length = calibrate(Gaussian, largest).sigma / largest.l2 * (1 + _SPARE)

    def least(moves: Sensitivity) -> Law:
        continuous = per_length * moves.l2
        for sigma in (continuous, math.hypot(continuous, SMOOTHED)) if continuous > _NARROW else ():
            scaled = DiscreteGaussian(sigma)
            if scaled.profile(moves).delta(epsilon) <= privacy.delta:
                return scaled
        made: Law = calibrate(DiscreteGaussian, moves)
        return made

    found = {moves: least(moves) for moves in dict.fromkeys(sensitivities)}
    return tuple(found[moves] for moves in sensitivities)


def _focused_first_visits(law: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    return focused(FirstVisitTables(shape), law, privacy, episodes, options)


def _focused_recipe(law: str) -> Recipe:
    summary = (
        f"first-visit tables of the rows worth asking about, discrete {law.capitalize()} noise sized to them, blocks"
    )
    return Recipe(
        f"central/focused-first-visit-{law}", "central", summary, partial(_focused_first_visits, law),
        encoder="first-visit-tables", law=law, accumulator="blocks", mixes=False,
        options={"blocks": None, "first": None, "masked": True, "enough": FocusedChannel.enough},
    )  # fmt: skip


def prefix_sums(
    encode: Callable[[Shape], Encoder],
    privacy: Privacy,
    shape: Shape,
    episodes: int,
    options: Options,
) -> Privatizer:
    """Prefix sums of an encoder's counts, calibrated to a target."""
    encoder = encode(shape)
    calibrate = partial(calibrate_noise, Gaussian, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
    alone = calibrate(encoder.sensitivity()).variance * counts_per_row(encoder)
    schedule = blocks_of(options, shape, encoder, episodes, partial(square_root, alone), WEIGHED_SUMS)
    releases = len(sizes(schedule, episodes))
    # A user counts in a cell at most once a step.
    accumulator = replace(Matrix(releases), bits=fraction_bits(episodes * shape.horizon))
    name_of_counts = f"{encoder.name} counts in {releases} releases, mixed in steps of 2^-{accumulator.bits}"
    sensitivity = accumulator.sensitivity(encoder.sensitivity())
    law = GridGaussian.as_private_as(calibrate(sensitivity), accumulator.bits)
    mixed = accumulator.mixed(encoder.sensitivity())
    release = from_mechanism(law, sensitivity, delta=privacy.delta, name=name_of_counts, mixed=mixed)
    release = post_process(release, "prefix sums are computed from the noisy counts alone")
    # The compiled loop adds noise to all cells alike, so it must not serve sums over cells that are known zeros.
    alike = encoder.possible().all() or isinstance(encoder, ThreeTables)
    if releases == episodes:
        schedule = EveryEpisode() if alike else Equal(releases)
    masked = bool(options["masked"])
    return unnamed(shape, (ContinualChannel(encoder, law, accumulator),), schedule, billboard(release), masked, options)


def _matrix_recipe(name: str, encoder: str, encode: Callable[[Shape], Encoder], pooled: bool = True) -> Recipe:
    """A recipe of prefix sums; ``pooled``: whether "auto" may take it where all steps share one table."""
    summary = f"{encoder} counts, square-root matrix mechanism with discrete Gaussian noise, released by blocks"
    return Recipe(
        f"central/{name}", "central", summary, partial(prefix_sums, encode),
        encoder=encoder, law="gaussian", accumulator="matrix",
        options={"blocks": None, "opening": 0.0, "masked": True}, options_for={OPENING: {"opening": None}},
        suits=lambda _privacy, shape: pooled or not shape.homogeneous,
    )  # fmt: skip


RECIPES = (
    *(_focused_recipe(law) for law in LAWS),
    _matrix_recipe("first-visit-matrix", "first-visit-tables", FirstVisitTables),
    _matrix_recipe("joint-histogram-matrix", "joint-histogram", JointHistogram),
    _matrix_recipe("two-tables-matrix", "two-tables", TwoTables, pooled=False),
    _matrix_recipe("first-visit-two-tables-matrix", "first-visit-two-tables", partial(TwoTables, first_visit=True)),
)  # fmt: skip
