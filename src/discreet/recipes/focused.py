"""To be described."""

from __future__ import annotations

import math
from functools import partial

from discreet.accumulators.schedule import Equal, GrowThenEqual, Schedule
from discreet.channels.focused import _ENOUGH, _FEWEST, _MOST, FocusedChannel, RowEncoder, row_numbers
from discreet.encoders.first_visit import FirstVisitTables
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.guarantee import billboard, from_mechanism, one_of, parallel
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.session import Privatizer
from discreet.recipes.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_count, check_positive

LAWS = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}


# A compromise over RiverSwim with 4 to 8 states and random worlds, for both laws: a block should have about this many
# users per standard deviation of the noise, and a row is known at 20 standard deviations.
_USERS_PER_DEVIATION = 14.0


def _build(law: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    return focus(f"central/focused-first-visit-{law}", FirstVisitTables(shape), law, privacy, episodes, options)


def focus(name: str, encoder: RowEncoder, law: str, privacy: Privacy, episodes: int, options: Options) -> Privatizer:
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
    schedule = _schedule(options, episodes, math.sqrt(laws[-1].variance))
    either = one_of(releases, "how many rows a block releases follows from its policy and from earlier releases")
    guarantee = billboard(parallel(either, f"every user is in exactly one block ({schedule.describe()})"))
    channel = FocusedChannel(encoder, numbers, laws, enough)
    return Privatizer(name, encoder.shape, (channel,), schedule, guarantee, masked, options)


def _schedule(options: Options, episodes: int, deviation: float) -> Schedule:
    automatic = min(_MOST, max(_FEWEST, round(episodes / (_USERS_PER_DEVIATION * deviation))))
    blocks = check_count("blocks", automatic if options["blocks"] is None else options["blocks"])
    if options["first"] is not None:
        return GrowThenEqual(blocks, options["first"])
    return Equal(min(blocks, episodes))


def _recipe(law: str) -> Recipe:
    summary = (
        f"first-visit tables of the rows worth asking about, discrete {law.capitalize()} noise sized to them, blocks"
    )
    return Recipe(
        f"central/focused-first-visit-{law}", "central", summary, partial(_build, law),
        pure=law == "laplace", encoder="first-visit-tables", law=law, accumulator="blocks",
        options={"blocks": None, "first": None, "masked": True, "enough": _ENOUGH},
    )  # fmt: skip


RECIPES = tuple(_recipe(law) for law in LAWS)
