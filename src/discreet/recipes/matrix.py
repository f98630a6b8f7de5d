"""To be described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from discreet.accumulators.matrix import Matrix, fraction_bits
from discreet.accumulators.schedule import Equal, EveryEpisode
from discreet.accumulators.tree import RefinedTree
from discreet.channels.continual import _FEWEST, _MOST, ContinualChannel
from discreet.encoders.base import Encoder
from discreet.encoders.first_visit import FirstVisitTables
from discreet.encoders.joint import JointHistogram
from discreet.encoders.tables import ThreeTables
from discreet.noise import Gaussian, GridGaussian
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.guarantee import billboard, from_mechanism, post_process
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.session import Privatizer
from discreet.recipes.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_count

# A compromise over RiverSwim with 4, 5 and 7 states and random worlds: a block should have about this many users per
# standard deviation of one release's noise. Between half and twice as many blocks hardly change what is learned.
_USERS_PER_DEVIATION = 8.0


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
