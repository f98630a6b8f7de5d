"""What the owner of a table declares about it: which column is what, and every domain. Nothing is read off the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.errors import InvalidInput, Unsupported
from discreet.shape import Shape
from discreet.validation import check_count, shown

_LARGEST_ITEM = 2**53  # databases divide whole numbers in floating point
_LARGEST_KEY = 2**53  # tallies of sparse tables hold the numbers of cells as floats

Domain = int | Sequence[str]


@dataclass(frozen=True)
class Columns:
    """The names of the columns; ``episode``, ``reward`` and ``next_state`` may be absent."""

    user: str
    step: str
    state: str
    action: str
    reward: str | None = None
    episode: str | None = None
    next_state: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the table must have."""
        every = (self.user, self.episode, self.step, self.state, self.action, self.reward, self.next_state)
        return tuple(name for name in every if name is not None)


@dataclass(frozen=True)
class Declaration:
    """Everything that is public about a table before anybody looks into it.

    ``state_labels`` and ``action_labels`` are the declared lists where states or actions are words; ``first_step`` is
    the number of the first step; ``early_end`` says that episodes may end before the horizon; ``missing_reward`` is
    what a missing reward counts as: the value of the range that is nearest to zero unless another one is declared.
    """

    columns: Columns
    shape: Shape
    per_user: int = 1
    first_step: int = 0
    early_end: bool = True
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    missing_reward: float | None = None

    def __post_init__(self) -> None:
        check_count("per_user", self.per_user)
        check_count("first_step", self.first_step, at_least=0)
        if self.per_user > 1 and self.columns.episode is None:
            raise InvalidInput(
                f"per_user={self.per_user} needs an episode column to tell a user's trajectories apart: "
                "give episode=, or per_user=1"
            )
        object.__setattr__(self, "missing_reward", missing_reward(self.shape, self.missing_reward))

    @property
    def leaves_out_last_step(self) -> bool:
        """Whether rows at the last step of the horizon are not counted.

        Where steps are pooled and episodes may end early, such a row cannot tell an end from the horizon. Leaving it
        out loses nothing but its count: the laws were declared the same at every step.
        """
        return self.early_end and self.shape.homogeneous and self.shape.horizon > 1

    def check_size(self, levels: int) -> None:
        """Refuse domains whose cells cannot be numbered."""
        S, A, G = self.shape.states, self.shape.actions, self.shape.groups
        if S * A * levels * (S + 2) > _LARGEST_ITEM or G * S * A * (S + 1) * levels > _LARGEST_KEY:
            raise Unsupported(f"{S} states and {A} actions have too many transitions to number: merge states")


def missing_reward(shape: Shape, declared: float | None) -> float:
    """What a missing reward counts as, within the declared range: as declared, else as near to zero as there is."""
    low, high = shape.rewards
    if declared is None:
        return min(max(0.0, low), high)
    if isinstance(declared, bool) or not isinstance(declared, int | float) or not low <= declared <= high:
        raise InvalidInput(
            f"missing_reward must be a number in the declared range {low:g} to {high:g}, got {shown(declared)}"
        )
    return float(declared)


def domain(name: str, given: Domain | None) -> tuple[int, tuple[str, ...] | None]:
    """The size of a declared domain, and its labels where it is a list of words."""
    if given is None:
        raise InvalidInput(
            f"{name}= is missing: give how many there are, or the list of their labels. It is a public input: reading "
            "the domain off the data would reveal which values occur"
        )
    if isinstance(given, str):
        raise InvalidInput(f"{name} must be a whole number or a list of labels, got {given!r}")
    if isinstance(given, Sequence):
        labels = tuple(str(label) for label in given)
        if not labels or len(set(labels)) < len(labels):
            raise InvalidInput(f"{name} must be a list of different labels, got {len(labels)} with repetitions")
        return len(labels), labels
    return check_count(name, given), None
