"""Who or what a guarantee protects: one of a short list, because nobody checks a sentence of one's own.

A unit says what counts as one user. What it promises is computed elsewhere: several trajectories of a user are a larger
sensitivity or group privacy, several reports a composition.
"""

from __future__ import annotations

from discreet.base.errors import InvalidInput
from discreet.base.validation import check_count, shown

ONE_TRAJECTORY = "one user = one whole trajectory"
SEVERAL = "one user = up to {} whole trajectories"
ALL_REPORTS = "all reports of a participant"
REPORTS = f"{ALL_REPORTS}, at most {{}}"
UNITS = (ONE_TRAJECTORY, SEVERAL, REPORTS)


def unit_of(trajectories: int) -> str:
    """The unit of a user who brings up to that many trajectories.

    >>> unit_of(1), unit_of(3)
    ('one user = one whole trajectory', 'one user = up to 3 whole trajectories')
    """
    return ONE_TRAJECTORY if check_count("trajectories", trajectories) == 1 else SEVERAL.format(trajectories)


def reports_of(rounds: int) -> str:
    """The unit of a participant of a study, who reports up to that many times.

    >>> reports_of(3)
    'all reports of a participant, at most 3'
    """
    return REPORTS.format(check_count("rounds", rounds))


def check_unit(unit: object) -> str:
    """A unit of the list; {} stands for a whole number, of at least 2 trajectories or of at least one report."""
    if isinstance(unit, str):
        number = "".join(filter(str.isdecimal, unit))
        whole = number.isascii() and number != "" and number[0] != "0"
        several = whole and number != "1" and unit == SEVERAL.format(number)
        if unit == ONE_TRAJECTORY or several or (whole and unit == REPORTS.format(number)):
            return unit
    listed = ", ".join(repr(known.format("m")) for known in UNITS)
    raise InvalidInput(f"a guarantee protects one of these units: {listed}; got {shown(unit)}")
