"""Recipes for a data set that is there already: one release of everybody's counts, then planning.

A recipe chooses a table (:class:`~discreet.mechanisms.counts.joint_histogram.MarginalTable`) and a discrete law.
Options:

``release``   "one": a joint table of successors, visits are its sums; one user moves 2H cells.
              "both": visits have a table of their own, as in the paper; one user moves 4H - 2 cells.
``rewards``   "private": a reward bit is an axis of the table (or of the table of visits), at no further cost.
              "known": mean rewards are public, declared; no cell is spent on them.
``pooling``   for laws declared the same at every step: "first-visit" (default there) or "every-visit".
``per_user``  trajectories that one user may contribute; the noise grows with it, so it must be enforced.

Sparse recipes put noise on the cells that occur alone and release those above a threshold (see
:mod:`discreet.mechanisms.sparse`); memory follows the cells that occur. "auto" takes them when delta is above 0 and
the declared domain has more than ``LARGE`` cells.

**Formal guarantees.** One release of a whole data set: central differential privacy for replacing one user, computed
from the exact profile of the law at the exact sensitivity. The learner's plan is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from discreet.base.errors import InvalidInput, Unsupported, check_name
from discreet.base.shape import Shape
from discreet.base.validation import check_count
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.joint_histogram import MarginalTable
from discreet.mechanisms.schedule import Equal
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sparse import SparseChannel, SparseTable, calibrate_sparse
from discreet.mechanisms.sums.blocks import Once
from discreet.noise import DiscreteGaussian, DiscreteLaplace, NoNoise
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.guarantee import Guarantee, Several, about, from_mechanism, nothing
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.units import unit_of
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

LAWS: Mapping[str, Callable[[float], Any]] = {"gaussian": DiscreteGaussian, "laplace": DiscreteLaplace}
OPTIONS: Options = {"release": "one", "rewards": "private", "pooling": "first-visit", "per_user": 1}
TOO_LARGE = 200_000_000  # cells: more than that do not fit in the memory of a small machine
LARGE = 2_000_000  # cells: exact noise for more of them takes minutes
_CHOICES = {"release": ("one", "both"), "rewards": ("private", "known"), "pooling": ("first-visit", "every-visit")}


@dataclass(frozen=True)
class Tables:
    """The tables that one release of counts consists of."""

    encoders: tuple[MarginalTable, ...]

    def sensitivity(self) -> Sensitivity:
        """What one user moves in all tables together, which carry noise of one scale."""
        shifts = [encoder.sensitivity().shifts or () for encoder in self.encoders]
        merged: dict[int, tuple[int, int]] = {}
        for magnitude, up, down in (group for groups in shifts for group in groups):
            before = merged.get(magnitude, (0, 0))
            merged[magnitude] = (before[0] + up, before[1] + down)
        return Sensitivity.worst_shift(*((magnitude, up, down) for magnitude, (up, down) in merged.items()))

    def several(self) -> Several | None:
        """How that follows from one trajectory, where a user may have several."""
        first = self.encoders[0]
        if first.per_user == 1:
            return None
        one = Tables(tuple(replace(encoder, per_user=1) for encoder in self.encoders)).sensitivity()
        pairs = first.shape.states * first.shape.actions
        return Several(first.per_user, one, len(self.encoders) * pairs if first.first_visit else None)

    @property
    def name(self) -> str:
        """The names of all tables, joined by "and"."""
        return " and ".join(encoder.name for encoder in self.encoders)

    @property
    def cells(self) -> int:
        """The number of cells of all tables together."""
        return sum(encoder.size for encoder in self.encoders)


def tables(shape: Shape, options: Options) -> Tables:
    """The tables that the options describe."""
    for name, known in _CHOICES.items():
        check_name(name, options[name], known)
    bits = options["rewards"] == "private"
    first = shape.homogeneous and options["pooling"] == "first-visit"
    m = check_count("per_user", options["per_user"])
    if options["release"] == "one" or shape.horizon == 1:
        return Tables((MarginalTable(shape, bits=bits, first_visit=first, per_user=m),))
    visits = MarginalTable(shape, successors=False, bits=bits, first_visit=first, per_user=m)
    return Tables((visits, MarginalTable(shape, first_visit=first, separate=True, per_user=m)))


def _build(law: str, privacy: Privacy, shape: Shape, users: int, options: Options) -> Privatizer:
    released = tables(shape, options)
    if released.cells > TOO_LARGE:
        raise Unsupported(
            f"{released.cells:,} cells are too many for noise in every one of them: give epsilon= with delta= for a "
            "sparse release, declare homogeneous=True, or merge states"
        )
    sensitivity = released.sensitivity()
    noise = calibrate_noise(LAWS[law], sensitivity, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
    guarantee = from_mechanism(
        noise,
        sensitivity,
        delta=privacy.delta,
        name=released.name,
        cells=released.cells,
        several=released.several(),
    )
    return assemble(f"offline/{law}", released, noise, stated(guarantee, options), options)


def stated(guarantee: Guarantee, options: Options) -> Guarantee:
    """The guarantee with what was declared public and the unit that it protects."""
    return about(
        guarantee, unit=unit_of(options["per_user"]), public=("mean rewards",) if options["rewards"] == "known" else ()
    )


def assemble(name: str, released: Tables, noise: Any, guarantee: Guarantee, options: Options) -> Privatizer:
    """One release of the tables with noise of one law."""
    channels = tuple(Channel(encoder, noise, Once()) for encoder in released.encoders)
    return Privatizer(name, released.encoders[0].shape, channels, Equal(1), guarantee, masked=False, options=options)


def _sparse(law: str, privacy: Privacy, shape: Shape, users: int, options: Options) -> Privatizer:
    """Noise on the cells that occur, and a threshold."""
    if privacy.epsilon is None:
        raise InvalidInput("a sparse release needs epsilon= and delta=: a threshold has no zero-concentrated parameter")
    released = tables(shape, {**options, "release": "one"})
    (table,) = released.encoders
    sensitivity = table.sensitivity()
    chosen = calibrate_sparse(law == "gaussian", sensitivity, epsilon=privacy.epsilon, delta=privacy.delta)
    encoder = SparseTable(table)
    promise = from_mechanism(
        chosen, sensitivity, delta=privacy.delta, name=encoder.name, cells=table.size, several=released.several()
    )
    guarantee = stated(promise, options)
    channel: Any = SparseChannel(encoder, chosen)
    return Privatizer(f"offline/sparse-{law}", shape, (channel,), Equal(1), guarantee, masked=False, options=options)


def _nothing(privacy: Privacy, shape: Shape, users: int, options: Options) -> Privatizer:
    return assemble("offline/none", tables(shape, options), NoNoise(), nothing(), options)


def is_large(shape: Shape, privacy: Privacy) -> bool:
    """Whether a target for this shape gets a sparse release by itself: public sizes decide, never data."""
    options = {**OPTIONS, **{name: value for name, value in privacy.options.items() if name in OPTIONS}}
    if privacy.epsilon is None or privacy.delta == 0:
        return False
    return tables(shape, {**options, "release": "one"}).cells > LARGE


def _suits(law: str, privacy: Privacy, shape: Shape) -> bool:
    """Dense tables; zero-concentrated targets are for Gaussian noise."""
    return not is_large(shape, privacy) and not (privacy.rho is not None and law == "laplace")


def _recipe(law: str) -> Recipe:
    summary = f"one release of successor counts with discrete {law.capitalize()} noise"
    return Recipe(
        f"offline/{law}", "central", summary, partial(_build, law), pure=law == "laplace",
        encoder="successors", law=law, accumulator="once", options=OPTIONS, suits=partial(_suits, law),
    )  # fmt: skip


def _sparse_recipe(law: str) -> Recipe:
    summary = f"successor counts that occur, discrete {law.capitalize()} noise, those above a threshold leave"
    return Recipe(
        f"offline/sparse-{law}", "central", summary, partial(_sparse, law), pure=False,
        encoder="successors", law=law, accumulator="sparse", source="Korolova et al. (2009)", options=OPTIONS,
        suits=lambda privacy, shape: is_large(shape, privacy),
    )  # fmt: skip


RECIPES: tuple[Recipe, ...] = (
    Recipe("offline/none", "none", "the counts as they are; no promise", _nothing, options=OPTIONS),
    *(_recipe(law) for law in LAWS),
    *(_sparse_recipe(law) for law in LAWS),
)
