"""Central recipes beyond plain blocks: focused blocks of rows, and prefix sums with correlated noise.

* Focused blocks (:mod:`discreet.channels.focused`) answer for the rows that are worth asking about, with that much less
  noise.
* The matrix mechanism and the refined tree (:mod:`discreet.channels.continual`) release prefix sums of all users so
  far, with noise that hardly grows.

Both choose the number of blocks from the noise: a block should have some users per standard deviation of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from discreet.accumulators.matrix import Matrix, fraction_bits
from discreet.accumulators.tree import RefinedTree
from discreet.channels.continual import ContinualChannel
from discreet.channels.focused import FocusedChannel, RowEncoder, row_numbers
from discreet.channels.schedule import Equal, EveryEpisode, GrowThenEqual, Schedule, blocks_for
from discreet.channels.session import Privatizer, unnamed
from discreet.encoders.base import Encoder
from discreet.encoders.first_visit import FirstVisitTables
from discreet.encoders.joint import JointHistogram
from discreet.encoders.tables import ThreeTables
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, GridGaussian
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.guarantee import billboard, from_mechanism, one_of, parallel, post_process
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_count, check_positive

LAWS = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}

# A compromise over RiverSwim with 4 to 8 states and random worlds, for both laws: a block should have about this many
# users per standard deviation of the noise, and a row is known at 20 standard deviations.
_FOCUSED_USERS = 14.0
_FOCUSED_BLOCKS = 20, 500

# A compromise over RiverSwim with 4, 5 and 7 states and random worlds, in users per standard deviation of one release's
# noise. Between half and twice as many blocks hardly change what is learned.
_PREFIX_USERS = 8.0
_PREFIX_BLOCKS = 80, 600


def focused(encoder: RowEncoder, law: str, privacy: Privacy, episodes: int, options: Options) -> Privatizer:
    """Focused blocks of an encoder's rows, calibrated to a target."""
    enough = check_positive("enough", options["enough"], finite=False)
    masked = bool(options["masked"])
    numbers = row_numbers(encoder.rows) if masked else (encoder.rows,)
    sensitivities = [encoder.sensitivity(rows) for rows in numbers]
    laws = tuple(
        calibrate_noise(LAWS[law], moves, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
        for moves in sensitivities
    )
    releases = [
        from_mechanism(one, moves, delta=privacy.delta, name=f"{encoder.name} of {rows} rows")
        for rows, one, moves in zip(numbers, laws, sensitivities, strict=True)
    ]
    schedule = _focused_schedule(options, episodes, math.sqrt(laws[-1].variance))
    either = one_of(releases, "how many rows a block releases follows from its policy and from earlier releases")
    guarantee = billboard(parallel(either, f"every user is in exactly one block ({schedule.describe()})"))
    channel = FocusedChannel(encoder, numbers, laws, enough)
    return unnamed(encoder.shape, (channel,), schedule, guarantee, masked, options)


def _focused_schedule(options: Options, episodes: int, deviation: float) -> Schedule:
    fewest, most = _FOCUSED_BLOCKS
    automatic = blocks_for(deviation, _FOCUSED_USERS, episodes, fewest=fewest, most=most)
    blocks = check_count("blocks", automatic if options["blocks"] is None else options["blocks"])
    if options["first"] is not None:
        return GrowThenEqual(blocks, options["first"])
    return Equal(min(blocks, episodes))


def _focused_first_visits(law: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    return focused(FirstVisitTables(shape), law, privacy, episodes, options)


def _focused_recipe(law: str) -> Recipe:
    summary = (
        f"first-visit tables of the rows worth asking about, discrete {law.capitalize()} noise sized to them, blocks"
    )
    return Recipe(
        f"central/focused-first-visit-{law}", "central", summary, partial(_focused_first_visits, law),
        encoder="first-visit-tables", law=law, accumulator="blocks",
        options={"blocks": None, "first": None, "masked": True, "enough": FocusedChannel.enough},
    )  # fmt: skip


def prefix_sums(
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
        fewest, most = _PREFIX_BLOCKS
        deviation = calibrate(encoder.sensitivity()).sigma
        automatic = blocks_for(deviation, _PREFIX_USERS, episodes, fewest=fewest, most=most)
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
    return unnamed(shape, (ContinualChannel(encoder, law, accumulator),), schedule, billboard(release), masked, options)


def _matrix_recipe(name: str, encoder: str, encode: Callable[[Shape], Encoder]) -> Recipe:
    summary = f"{encoder} counts, square-root matrix mechanism with discrete Gaussian noise, released by blocks"
    return Recipe(
        f"central/{name}", "central", summary, partial(prefix_sums, encode, Matrix),
        encoder=encoder, law="gaussian", accumulator="matrix", options={"blocks": None, "masked": True},
    )  # fmt: skip


RECIPES = (
    *(_focused_recipe(law) for law in LAWS),
    _matrix_recipe("first-visit-matrix", "first-visit-tables", FirstVisitTables),
    _matrix_recipe("joint-histogram-matrix", "joint-histogram", JointHistogram),
    Recipe(
        "central/three-tables-refined-tree", "central",
        "three-tables counts, binary tree with Honaker's refinement and Gaussian noise (simulation only), every user",
        partial(prefix_sums, ThreeTables, RefinedTree),
        automatic=False, encoder="three-tables", law="gaussian", accumulator="refined tree",
    ),
)  # fmt: skip
