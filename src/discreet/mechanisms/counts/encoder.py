"""What an encoder is: a user's trajectory in, a vector of integer cells out, with its exact sensitivity.

An encoder is bound to a public :class:`~discreet.base.shape.Shape`. Its cells come in *rows*, one for each
(group, state, action); statistics (visits, transitions, rewards) are sums of cells of one row, so the noise of a
statistic is that of a known number of cells, and a row that nobody can play is a known zero.

An encoder is made of three parts:

* a *layout*: which cell stands for what, and how cells add up to statistics
  (:mod:`discreet.mechanisms.counts.layouts`);
* a *kernel*: which steps of a trajectory count (every visit, first visits, a sampled step), and what becomes of a
  reward (one bit, several, a number);
* a *sensitivity*: what replacing one trajectory can do to the cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from discreet.base.compiled import dispatch, inlined, kernel
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import AnyPolicy, Mixture, Policy
from discreet.base.shape import Shape
from discreet.base.streams import Stream, uniform
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.mechanisms.release import Layer, Linear, Statistics
from discreet.mechanisms.trajectories import Trajectories
from discreet.privacy.sensitivity import Sensitivity

Cells = Floats
ALL_THREE = frozenset({"visits", "transitions", "rewards"})


@dataclass(frozen=True)
class Context:
    """What everybody knows while a user's record is encoded: never anything that depends on her data."""

    policy: AnyPolicy
    what: Layer | Linear | None = None  # the part of the statistics that was asked for; None = all of them


class Statistic(NamedTuple):
    """One statistic of a release: its values, and how many noisy cells each of them sums.

    ``values`` has shape (groups, states, actions) or, for transitions, (groups, states, actions, states);
    ``cells`` has shape (groups, 1, 1) because last steps may sum fewer cells than others. Sums of scaled cells give the
    variance of their noise, in units of that of a cell: a fraction.
    """

    values: Floats
    cells: NDArray[Any]


class Layout(Protocol):
    """Which cell stands for what: all that an encoder has to say about its cells, whatever it counts."""

    @property
    def size(self) -> int:
        """How many cells there are."""

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Spread an array over (group, state, action) to the cells of each row."""

    def possible(self) -> Mask:
        """Which cells can be non-zero at all, whatever the data and the policy."""

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """The statistics, as sums of cells."""


class Encoder(Layout, Protocol):
    """The interface of an encoder that adds up (messages that need decoding have one of their own)."""

    @property
    def shape(self) -> Shape:
        """The public sizes that it is bound to."""

    @property
    def name(self) -> str:
        """The name of the encoder in recipes and derivations."""

    @property
    def statistics(self) -> frozenset[str]:
        """The statistics that its cells add up to."""

    @property
    def rounded(self) -> bool:
        """Whether every cell is a whole number, so that it can be released with a discrete law."""

    @property
    def levels(self) -> int:
        """How many bits a reward is written in."""

    @property
    def public(self) -> Mapping[str, Floats]:
        """What learners may know beside the statistics; a function of public things alone."""

    def sensitivity(self) -> Sensitivity:
        """What replacing one whole trajectory can do to one user's vector, for any policy."""

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """What replacing one whole trajectory can do to the cells of one step; refused where steps are pooled."""

    def arrays(self) -> Any:
        """The compiled form: a NamedTuple that :func:`encode_into` knows. Not shared between threads."""


class LaidOut:
    """An encoder whose cells are those of its ``layout``, with default answers to everything else.

    What remains to be written: ``layout``, ``sensitivity``, ``arrays`` and the kernel for these.
    """

    @property
    def layout(self) -> Layout:
        """Which cell stands for what."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.layout.size

    @property
    def rounded(self) -> bool:
        """Every cell is a whole number."""
        return True

    @property
    def levels(self) -> int:
        """A reward is written in one bit."""
        return 1

    @property
    def public(self) -> Mapping[str, Floats]:
        """Learners need to know nothing beside the statistics."""
        return {}

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """Refused: nobody has worked out what a user moves in the cells of one step."""
        raise Unsupported(f"{type(self).__name__} has no sensitivity by step: ask for all steps at once")

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Spread an array over (group, state, action) to the cells of each row."""
        return self.layout.rows_to_cells(rows)

    def possible(self) -> Mask:
        """Which cells can be non-zero at all, whatever the data and the policy."""
        return self.layout.possible()

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """The statistics, as sums of cells."""
        return self.layout.marginals(cells)


@dispatch
def encode_into(
    encoder: Any,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    """Add the encoding of one trajectory (its first ``length`` steps) to ``cells``."""


@dispatch
def marginals_into(encoder: Any, cells: Cells, statistics: Statistics) -> None:
    """Refresh compiled statistics from the cells: one of the ``*_marginals`` of the layouts, in most cases."""


@inlined
def reward_bit(reward: float, low: float, span: float, stream: Stream) -> int:
    """A reward in [low, low + span] as one unbiased bit (stochastic rounding); values outside are clipped."""
    share = (reward - low) / span
    if share >= 1.0:
        return 1
    if not share > 0.0:
        return 0
    return 1 if uniform(stream) < share else 0


@kernel
def encode_all(
    encoder: Any,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    lengths: Integers,
    stream: Stream,
    out: Floats,
) -> None:
    """Encode users one by one: into a row of ``out`` each, or all into the same row if it has only one."""
    for i in range(states.shape[0]):
        row = out[i] if out.shape[0] > 1 else out[0]
        encode_into(encoder, states[i], actions[i], rewards[i], lengths[i], stream, row)


def encode(encoder: Encoder, trajectories: Trajectories, stream: Stream) -> Floats:
    """The encodings of recorded trajectories, one row of cells per user."""
    out = np.zeros((len(trajectories), encoder.size))
    t = trajectories
    encode_all(encoder.arrays(), t.states, t.actions, t.rewards, t.lengths, stream, out)
    return out


def check_tally(encoder: Encoder, tally: Floats, users: int) -> None:
    """Refuse a tally that no ``users`` users can have, before noise is drawn for it: what one moves would be untrue.

    Its cells are as many as the encoder's, finite, whole where the encoder says so, and at most what all of them add.
    One adds to a cell what she takes out of it if her record is replaced by one that has nothing there: at most the
    largest move, half of it where counts have a sign, and where nothing leaves (no cells) each step of a trajectory.
    Sparse tallies are rows that end with a count.
    """
    form = "a number for each cell" if encoder.size else "rows that end with a count"
    sparse, signed = getattr(encoder, "from_joint", None) and tally.ndim == 2, getattr(encoder, "signed", False)
    counts = tally[:, -1] if sparse else tally
    if tally.dtype.kind not in "biuf" or (tally.shape != (encoder.size,) and not sparse):
        raise InvalidInput(f"a tally of {encoder.name} is {form}, {encoder.size} in all: sum what the encoder makes")
    if not encoder.rounded:
        return  # released with continuous noise, which no real release has
    all_steps = encoder.shape.horizon * getattr(encoder, "per_user", 1)
    most = users * (encoder.sensitivity().linf / (2 if signed else 1) if encoder.size else float(all_steps))
    least = -most if signed else 0.0
    # Comparisons are false for NaN.
    if not ((counts >= least) & (counts <= most) & (counts == np.rint(counts))).all():
        raise InvalidInput(
            f"a tally of {encoder.name} from {users:,} users holds whole numbers from {least:.6g} to {most:.6g}, and "
            "this one has others: encode every record with the encoder and add up, then release"
        )


def by_successor(transitions: NDArray[Any]) -> NDArray[Any]:
    """Transitions as (successors, rows): a view of the cells if these lie successor by successor."""
    return np.moveaxis(transitions, -1, 0).reshape(transitions.shape[-1], -1)


def check_layer(shape: Shape, step: int) -> None:
    """Refuse the cells of one step where there are none: of a step that does not exist, or of pooled steps."""
    if not 0 <= step < shape.horizon:
        raise InvalidInput(f"step must lie in 0..{shape.horizon - 1}, got {step!r}")
    if shape.homogeneous and shape.horizon > 1:
        raise Unsupported("counts pooled over steps have no layers: declare the world per step")


def playable_rows(shape: Shape, policy: AnyPolicy) -> Mask:
    """Which (group, state, action) can be visited under a public policy, whatever the world.

    The policy is public, so a pair that no step of it plays is a known zero; so is every state but the public start
    state at the first step.
    """
    S, A, H, G = shape.states, shape.actions, shape.horizon, shape.groups
    plays = np.zeros((H, S, A), np.bool_)
    for component in policy.components if isinstance(policy, Mixture) else (policy,):
        if isinstance(component, Policy):
            plays |= component.actions[:, :, None] == np.arange(A)
        else:
            plays |= component.probabilities > 0
    if shape.start is not None:
        plays[0, np.arange(S) != shape.start] = False
    return plays if not shape.homogeneous and G == H else np.asarray(plays.any(axis=0, keepdims=True))
