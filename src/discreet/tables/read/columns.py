"""What the owner of a table declares about it: which column is what, and every domain. Nothing is read off the data.

A domain maps the values of one column to 0 .. size - 1 and everything else to "missing": numbers, labels, bins of a
continuous column; dates become steps. States and actions of several columns have one domain for each, and are numbered
with the last column fastest.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from discreet.base.errors import InvalidInput, Unsupported, check_name
from discreet.base.shape import Shape
from discreet.base.validation import check_count, check_flag, shown

_LARGEST_KEY = 2**53  # tallies of sparse tables hold the numbers of cells as floats
_LARGEST_PACKED = 2**62  # a whole row of a user in one number
_LARGEST_QUOTIENT = 2**48  # databases divide whole numbers in floating point
_FINEST, _COARSEST = 2**20, 2**6  # positions of a reward between two levels
FIRST_DAY = datetime.date(1, 1, 1)
DAYS = (datetime.date(9999, 12, 31) - FIRST_DAY).days + 1  # the days that a date can be
MISSING = {
    "end": "a record ends before the first step without a valid row",
    "drop": "a record with a step that is missing, or with a row that is not valid, is dropped",
    "row": "only rows without a known successor are dropped, and what stands behind a missing step is kept",
}
"""What becomes of records in which rows are missing: rules by name, declared and public."""
_MOST_LABELS = 2**20  # beyond them states are numbers: nobody reads a policy of so many
_EPOCH = (datetime.date(1970, 1, 1) - FIRST_DAY).days


@dataclass(frozen=True)
class Bins:
    """Bins of a continuous column by their declared edges: [e0, e1), [e1, e2), ..., the last one with its upper end.

    Values outside the edges are outside the domain; edges may be infinite. n edges make n - 1 bins.

    Args:
        edges: At least two, in growing order.

    Examples:
        >>> import discreet.data
        >>> heart_rate = discreet.data.Bins([0, 60, 100, float("inf")])
        >>> len(heart_rate.edges) - 1
        3
    """

    edges: tuple[float, ...]

    def __init__(self, edges: Sequence[float]) -> None:
        try:
            given = tuple(float(edge) for edge in edges)
        except (TypeError, ValueError):
            raise InvalidInput(f"edges of bins must be numbers, got {shown(edges)}") from None
        if len(given) < 2 or not all(low < high for low, high in pairwise(given)):
            raise InvalidInput(f"edges of bins must be at least two numbers that increase, got {shown(edges)}")
        object.__setattr__(self, "edges", given)

    @property
    def size(self) -> int:
        """How many bins there are."""
        return len(self.edges) - 1


@dataclass(frozen=True)
class Dates:
    """Dates as steps: step k holds the ``days`` days from k times ``days`` on, counted from an origin.

    The origin is a declared day, the same for everybody, or, if it is None, the first date among a user's own valid
    rows (of the episode). Neither costs privacy: a declared day is public, and a user's first date moves her
    own steps only.

    Args:
        days: Days of a step.
        origin: The day of step 0.

    Examples:
        >>> import discreet.data
        >>> discreet.data.Dates(days=7, origin="2026-01-05").days
        7
    """

    days: int = 1
    origin: datetime.date | None = None

    def __init__(self, days: int = 1, origin: datetime.date | str | None = None) -> None:
        object.__setattr__(self, "days", check_count("days", days))
        if isinstance(origin, str):
            try:
                origin = datetime.date.fromisoformat(origin)
            except ValueError:
                raise InvalidInput(f"origin must be a date such as 2024-01-31, got {origin!r}") from None
        if origin is not None and type(origin) is not datetime.date:
            raise InvalidInput(f"origin must be a date such as 2024-01-31, got {origin!r}")
        object.__setattr__(self, "origin", origin)

    @property
    def first_day(self) -> int | None:
        """The number of the declared origin, counted from the first of January of the year one."""
        return None if self.origin is None else (self.origin - FIRST_DAY).days


@dataclass(frozen=True)
class Elapsed:
    """Elapsed time as steps: step k holds what lies in [origin + k every, origin + (k + 1) every).

    The column of steps holds numbers, such as days since each person's first visit.

    Args:
        every: How long a step is, in the unit of the column.
        origin: Where step 0 begins.

    Examples:
        >>> import discreet.data
        >>> discreet.data.Elapsed(every=365).origin
        0.0
    """

    every: float
    origin: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("every", self.every), ("origin", self.origin)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InvalidInput(f"{name} of elapsed time must be a finite number, got {shown(value)}")
            object.__setattr__(self, name, float(value))
        if self.every <= 0:
            raise InvalidInput(f"every of elapsed time must be above 0, got {self.every:g}: it is the length of a step")


def days_since_epoch(day: int) -> int:
    """A day that is counted from the year one, counted from 1970."""
    return day - _EPOCH


@dataclass(frozen=True)
class OrMissing:
    """A domain with one level more, the last one, for cells that hold nothing."""

    part: int | tuple[str, ...] | Bins


ABSENT = "missing"  # the label of that level
Domain = int | Sequence[str] | Bins
Part = int | tuple[str, ...] | Bins | OrMissing
"""A checked domain of one column: how many numbers, the labels, or bins; and whether missing is a level."""


def size_of(part: Part) -> int:
    """How many values a domain has."""
    if isinstance(part, OrMissing):
        return size_of(part.part) + 1
    return part if isinstance(part, int) else part.size if isinstance(part, Bins) else len(part)


def or_missing(parts: tuple[Part, ...], columns: Sequence[str], levels: Sequence[str]) -> tuple[Part, ...]:
    """Domains of columns, those of ``levels`` with a level for missing cells."""
    for name in levels:
        if name not in columns:
            raise InvalidInput(f"missing is made a level of a column of states, and {shown(name)} is none: name one")
    found: list[Part] = []
    for column, part in zip(columns, parts, strict=True):
        if column in levels and not isinstance(part, OrMissing):
            if isinstance(part, tuple) and ABSENT in part:
                raise InvalidInput(
                    f"column {column!r} has a label {ABSENT!r}, and its missing cells a level of that name"
                )
            part = OrMissing(part)
        found.append(part)
    return tuple(found)


def domain(name: str, given: Domain | None) -> int | tuple[str, ...] | Bins:
    """A declared domain of one column, checked."""
    if given is None:
        raise InvalidInput(
            f"{name}= is missing: give how many there are, or the list of their labels. It is a public input: reading "
            "the domain off the data would reveal which values occur"
        )
    if isinstance(given, Bins):
        return given
    if isinstance(given, str):
        raise InvalidInput(f"{name} must be a whole number or a list of labels, got {given!r}")
    if isinstance(given, Sequence):
        labels = tuple(str(label) for label in given)
        if not labels:
            raise InvalidInput(f"{name} must be a list of labels, got none: write one label for each")
        if len(set(labels)) < len(labels):
            raise InvalidInput(f"{name} must be a list of different labels, got {len(labels)} with repetitions")
        return labels
    return check_count(name, given)


def numbers_of_labels(labels: Sequence[str], whole: bool) -> dict[int | float, int]:
    """The labels that are numbers as they are usually written (1, -2, 0.5 or 2.0; not 01), with their positions.

    In a column of numbers such a label is that number. ``whole`` says that cells are whole numbers of 64 bits; in
    others whole ones are told apart up to 2^53.

    >>> numbers_of_labels(("1", "02", "0.5", "low"), whole=False)
    {1: 0, 0.5: 2}
    """
    found: dict[int | float, int] = {}
    largest = 2**63 - 1 if whole else 2**53
    for position, label in enumerate(labels):
        for kind in (int, float):
            try:
                number = kind(label)
            except ValueError:
                continue
            if str(number) == label and -largest <= number <= largest and not (whole and number % 1):
                found.setdefault(number if number % 1 else int(number), position)
    return found


def domains(name: str, columns: str | Sequence[str], given: Domain | Sequence[Domain] | None) -> tuple[Part, ...]:
    """The domains of one column, or of each of several."""
    if isinstance(columns, str):
        return (domain(name, given),)  # type: ignore[arg-type]
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != len(columns):
        raise InvalidInput(f"{name} must hold one domain for each of the {len(columns)} columns, got {shown(given)}")
    return tuple(domain(f"{name}[{number}]", each) for number, each in enumerate(given))


def total_size(parts: Sequence[Part]) -> int:
    """How many values several columns have together."""
    return math.prod(size_of(part) for part in parts)


def labels_of(parts: Sequence[Part]) -> tuple[str, ...] | None:
    """A label for every value of the columns together, as people read them; None where values are plain numbers.

    >>> labels_of([("low", "high"), Bins([0, 1, 2])])
    ('low, 0 to 1', 'low, 1 to 2', 'high, 0 to 1', 'high, 1 to 2')
    """
    if (len(parts) == 1 and isinstance(parts[0], int)) or total_size(parts) > _MOST_LABELS:
        return None
    return tuple(", ".join(words) for words in product(*(_words(part) for part in parts)))


def _words(part: Part) -> Sequence[str]:
    if isinstance(part, OrMissing):
        return [*_words(part.part), ABSENT]
    if isinstance(part, int):
        return [str(number) for number in range(part)]
    return [f"{low:g} to {high:g}" for low, high in pairwise(part.edges)] if isinstance(part, Bins) else part


@dataclass(frozen=True)
class Columns:
    """The names of the columns; ``episode``, ``reward`` and ``next_state`` may be absent, ``step`` where there is one.

    Without ``user`` every row is a user of its own: *event level*, for tables of one step.
    States, actions and next states may be made of several columns.
    """

    user: str | None  # None: every row is a user
    step: str | None
    state: str | tuple[str, ...]
    action: str | tuple[str, ...]
    reward: str | None = None
    episode: str | None = None
    next_state: str | tuple[str, ...] | None = None

    @property
    def who(self) -> str:
        """Whose budget a ledger keeps: the column of users, or every row by itself."""
        return "every row (event level)" if self.user is None else self.user

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the table must have, each once."""
        every = (self.user, self.episode, self.step, self.state, self.action, self.reward, self.next_state)
        return tuple(dict.fromkeys(name for given in every for name in listed(given)))


def listed(columns: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """One column, several or none as a tuple."""
    return () if columns is None else (columns,) if isinstance(columns, str) else columns


@dataclass(frozen=True)
class Declaration:
    """Everything that is public about a table before anybody looks into it.

    ``state_labels`` and ``action_labels`` are the declared lists where states or actions are words of one column;
    ``first_step`` is the number of the first step; ``early_end`` says that episodes may end before the horizon;
    ``missing_reward`` is what a missing reward counts as, the value of the range nearest to zero unless declared; with
    one step nothing: a user without the outcome has no record (complete cases), but where ``missing`` is "row".
    ``missing`` says what becomes of a record in which a row is missing or not valid (:data:`MISSING`).
    ``state_parts`` and ``action_parts`` are the domains of the columns that they are made of, and ``dates`` says how
    dates become steps, where the column of steps holds dates.
    ``cap`` is for tables of one step where a user may have many rows (a household, a clinic, a school): every row is a
    trajectory, and so many of hers are counted, drawn by lot.
    ``steps`` says how the column of steps is read where it holds neither numbers of steps nor dates: labels in their
    order, or elapsed time.
    """

    columns: Columns
    shape: Shape
    per_user: int = 1
    first_step: int = 0
    early_end: bool = True
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    state_parts: tuple[Part, ...] = ()
    action_parts: tuple[Part, ...] = ()
    dates: Dates | None = None
    missing_reward: float | None = None
    missing: str = "end"
    cap: int | None = None
    steps: Elapsed | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_name("rule for missing rows", self.missing, MISSING)
        check_count("per_user", self.per_user)
        check_count("first_step", self.first_step, at_least=0)
        if not self.state_parts:
            object.__setattr__(self, "state_parts", (self.state_labels or self.shape.states,))
        if not self.action_parts:
            object.__setattr__(self, "action_parts", (self.action_labels or self.shape.actions,))
        if self.cap is not None:
            check_count("cap", self.cap)
            if self.shape.horizon > 1 or self.columns.episode is not None or self.per_user not in (1, self.cap):
                raise InvalidInput(
                    f"cap={self.cap} says how many rows of one user count where horizon=1: with more steps, or an "
                    "episode column, give per_user= in its place"
                )
            object.__setattr__(self, "per_user", self.cap)
        elif self.per_user > 1 and self.columns.episode is None:
            one = self.shape.horizon == 1
            raise InvalidInput(
                f"per_user={self.per_user} needs an episode column to tell a user's trajectories apart: "
                f"give episode=, or {f'cap={self.per_user} (every row is one)' if one else 'per_user=1'}"
            )
        if len(listed(self.columns.next_state)) not in (0, len(listed(self.columns.state))):
            raise InvalidInput("next_state must be made of as many columns as state")
        if any(isinstance(part, OrMissing) for part in self.state_parts) and self.columns.next_state is not None:
            raise InvalidInput(
                "a missing next state means that the next row tells it, so missing is no level of a table with "
                "next_state: leave one of them out"
            )
        self._check_steps()
        self._check_roles()
        check_flag("early_end", self.early_end)
        ends = self.shape.horizon == 1 and self.missing != "row" and self.columns.reward is not None
        if not (ends and self.missing_reward is None):  # the one outcome of a record: without it there is no record
            object.__setattr__(self, "missing_reward", _missing_reward(self.shape, self.missing_reward))

    def _check_steps(self) -> None:
        """Refuse steps that are declared in two ways."""
        if self.steps is None:
            return
        if self.columns.step is None:
            raise InvalidInput("step= is missing: name the column that labels of steps, or elapsed time, stand in")
        if self.dates is not None or self.first_step:
            raise InvalidInput("steps have labels, or elapse, or are dates, or numbers from a first one: declare one")
        if isinstance(self.steps, tuple) and len(self.steps) != self.shape.horizon:
            raise InvalidInput(
                f"horizon={self.shape.horizon} and {len(self.steps)} labels of steps contradict each other: leave "
                "horizon out"
            )

    @property
    def step_names(self) -> tuple[str, ...] | None:
        """What steps are called where they are not numbered from a first one, None where they are."""
        if not isinstance(self.steps, Elapsed):
            return self.steps
        ends = [self.steps.origin + step * self.steps.every for step in range(self.shape.horizon + 1)]
        return tuple(f"{low:g} to {high:g}" for low, high in pairwise(ends))

    def step_words(self) -> str:
        """How steps are counted, in words."""
        if isinstance(self.steps, Elapsed):
            return f"a step is {self.steps.every:g} long, from {self.steps.origin:g} on"
        if self.steps is not None:
            return f"steps are {', '.join(self.steps)}, in this order"
        return f"the first step is {self.first_step}" if self.dates is None else "steps come from dates"

    def without_reward(self) -> str:
        """What becomes of a row without a reward, in words."""
        return missing_reward_words(self.missing_reward)

    def _check_roles(self) -> None:
        """Refuse the column of users in another role: it says who somebody is, and nothing else."""
        columns = self.columns
        if columns.step is None and (self.shape.horizon > 1 or self.dates is not None):
            raise InvalidInput("step= is missing: name the column of steps, which horizon=1 alone can do without")
        if columns.user is None:
            if self.shape.horizon > 1 or columns.episode is not None or self.cap is not None:
                raise InvalidInput(
                    "user= is missing: name the column that says whose a row is, which only horizon=1 can do without "
                    "(then every row counts as one user: event level)"
                )
            if self.dates is not None and self.dates.first_day is None:
                raise InvalidInput("dates are counted from each user's own first one: give user=, or an origin")
            return
        others = (columns.step, columns.state, columns.action, columns.reward, columns.episode, columns.next_state)
        if any(columns.user in listed(given) for given in others):
            raise InvalidInput(
                f"column {columns.user!r} was given as the user and in another role: name another column there"
            )

    @property
    def counted_steps(self) -> int:
        """How many steps are counted: all, or all but the last.

        Where steps are pooled and records may end before the horizon, a row at its last step cannot tell an end from
        the horizon. Leaving it out loses nothing but its count: the laws were declared the same at every step.
        """
        shape, ends = self.shape, self.early_end or self.missing != "row"
        return shape.horizon - (ends and shape.homogeneous and shape.horizon > 1)

    @property
    def most_steps(self) -> int:
        """How many steps a row can stand at before each user's own first date is known."""
        return DAYS if self.dates is not None and self.dates.first_day is None else self.shape.horizon

    def packing(self, levels: int) -> Packing:
        """How rows of this table are packed into numbers, or a refusal if its cells cannot be numbered."""
        S, A, G = self.shape.states, self.shape.actions, self.shape.groups
        steps = self.most_steps
        following = 1 if self.columns.next_state is None else S + 1
        grid = _FINEST if self.columns.reward is not None else 1
        pack = Packing(S, A, levels, grid, following)
        while grid > _COARSEST and not pack.fits(steps):
            grid //= 2
            pack = Packing(S, A, levels, grid, following)
        if not pack.fits(steps) or G * S * A * (S + 1) * levels > _LARGEST_KEY:
            raise Unsupported(f"{S} states and {A} actions have too many transitions to number: merge states")
        return pack


def missing_reward_words(counts: float | None) -> str:
    """What a missing reward counts as, in words."""
    if counts is None:
        return "who has no reward is not counted (complete cases: as if it were missing by chance)"
    return f"a missing reward counts as {counts:g}"


def _missing_reward(shape: Shape, declared: float | None) -> float:
    """What a missing reward counts as, within the declared range: as declared, else as near to zero as there is."""
    low, high = shape.rewards
    if declared is None:
        return min(max(0.0, low), high)
    if isinstance(declared, bool) or not isinstance(declared, int | float) or not low <= declared <= high:
        raise InvalidInput(
            f"missing_reward must be a number in the declared range {low:g} to {high:g}, got {shown(declared)}"
        )
    return float(declared)


@dataclass(frozen=True)
class Packing:
    """One row of a user as one number: ((step, state, action), position of the reward, next state).

    The reward is a position on a grid of ``grid`` points between neighbouring levels; ``following`` is how many next
    states there are, missing (the last one) included, or one where the table has none. Smaller numbers are smaller
    (step, state, action, reward, next state), so the smallest of several rows is the smallest number (rule "row").
    """

    states: int
    actions: int
    levels: int
    grid: int
    following: int

    @property
    def positions(self) -> int:
        """How many values a reward can have."""
        return (self.levels - 1) * self.grid + 1

    @property
    def items(self) -> int:
        """How many rows there are that one step can hold."""
        return self.states * self.actions * self.positions * self.following

    def fits(self, steps: int) -> bool:
        """Whether every row has a number of its own that all engines can work with."""
        quotient = self.states * self.actions * self.positions
        return quotient <= _LARGEST_QUOTIENT and self.items * steps <= _LARGEST_PACKED
