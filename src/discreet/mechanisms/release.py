"""What learners see, and what they may ask for. Learners know nothing else about the world or its users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.notebook import counted, one_line, table_html
from discreet.base.policies import AnyPolicy, check_policy
from discreet.base.types import Floats
from discreet.base.validation import check_array, check_count, check_positive
from discreet.privacy.guarantee import Guarantee

# Among what a learner needs: releases that serve point estimates (little noise) rather than confidence bounds. Recipes
# that can serve either way say so, see ``Recipe.options_for``.
ESTIMATES = "estimates"
# Among what a learner needs: it asks for one step at a time where a recipe answers that, see :class:`Layer`.
LAYERS = "layers"
# Among what a learner needs: nothing more, but it weighs blocks by what they tell, and plays side by side what noise
# does not tell apart, so that noise does less harm to it than to other learners. "auto" reckons with that.
WEIGHS = "weighed blocks"
# Among what a learner needs: nothing more, but it tries everything at random in a long first block, if it is given one.
OPENING = "a first block at random"
# What serves a need as well as the statistic of that name: losses above one half in place of the losses themselves.
SERVED_BY = {"observed_losses": "signed_losses"}


@dataclass(frozen=True)
class Layer:
    """Ask for the statistics of one step only."""

    step: int

    def __post_init__(self) -> None:
        # A number and nothing else that indexes: True or a slice would be all steps, with the noise of one.
        object.__setattr__(self, "step", check_count("step", self.step, at_least=0))


@dataclass(frozen=True)
class Linear:
    """Ask for linear statistics of one step: sums over users of w phi phi^T and of w phi x, w the weight of (s, a).

    ``weights`` (S, A) lie in [0, 1]. ``targets`` (T, reward levels, S + 1) are T tables of x by reward level and
    successor, the last one being the end. ``bound`` is the public bound on the absolute value of a target; the
    privatizer clips to it, so that the noise can be calibrated before the question is known: the noise in an answer is
    proportional to it. All of this may depend on earlier releases, never on data, and must be finite: a NaN would show
    in the answer just when somebody is in its cell.
    """

    step: int
    targets: Floats
    weights: Floats
    bound: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", check_count("step", self.step, at_least=0))
        object.__setattr__(self, "bound", check_positive("bound", self.bound))
        for name in ("targets", "weights"):
            table = np.array(check_array(name, getattr(self, name)))
            table.flags.writeable = False
            object.__setattr__(self, name, table)


@dataclass(frozen=True)
class Request:
    """One question to the privatizer: plain public data, a function of earlier releases and public coins.

    ``users`` is how many users should act under ``policy`` before the answer; None leaves it to the schedule.
    ``what`` narrows the answer; None asks for everything that the recipe releases.
    """

    policy: AnyPolicy
    users: int | None = None
    what: Layer | Linear | None = None

    def __post_init__(self) -> None:
        check_policy("the policy of a Request", self.policy)
        if self.users is not None:
            object.__setattr__(self, "users", check_count("users", self.users))


class Estimate(NamedTuple):
    """Unbiased values and the exact variance of the noise in them (not of the sampling)."""

    values: Floats
    variance: Floats


class MixedBlocks(NamedTuple):
    """How blocks are mixed before they get noise of their own, from which releases are computed.

    With x_b what a row's block b brought, noise is added to x_b + sum of c_j x_(b - j) over j >= 1, c_j = sum_i of
    ``weights[i] * decays[i] ** j``; ``noise`` is the variance of one draw in each statistic. Plain sums mix nothing:
    the arrays are empty, and so is ``noise``, because the variance of a block's noise is what it adds to the release.
    """

    decays: Floats
    weights: Floats
    noise: Mapping[str, Floats]


UNMIXED = MixedBlocks(np.zeros(0), np.zeros(0), {})


@dataclass(frozen=True)
class Release:
    """An answer: unbiased statistics of ``users`` users so far, their noise, and the guarantee that covers all of it.

    ``statistics`` maps visits, transitions, rewards (and others that a recipe offers) to estimates over
    (group, state, action[, successor]). Rewards are in units of the declared range, so each lies in [0, 1].
    ``public`` carries what was declared public and needs no noise. ``width_of`` bounds the noise in sums of cells, and
    ``widths_of`` that of single statistics where their noises differ. ``noise_lasts`` says that these are prefix sums,
    whose noise hardly grows from release to release and hardly changes, either. ``mixing`` says what blocks told one by
    one, each with noise of its own; None where that cannot be recovered. ``answers`` says that users were each asked
    about one row only, so that counts are of those who were asked about it. ``first_visits`` says that of a user's
    visits of a row only the first one counts.
    """

    statistics: Mapping[str, Estimate]
    users: int
    guarantee: Guarantee
    width_of: Callable[[int, float], Floats] = field(repr=False)
    public: Mapping[str, Floats] = field(default_factory=dict)
    radius_of: Callable[[str, float], Floats] | None = field(default=None, repr=False)
    widths_of: Mapping[str, Callable[[int, float], Floats]] = field(default_factory=dict, repr=False)
    noise_lasts: bool = False
    mixing: MixedBlocks | None = None
    answers: bool = False
    first_visits: bool = False

    def __repr__(self) -> str:
        return one_line("Release", " ".join(self.statistics), counted(self.users, "user"), self.guarantee.brief())

    def _repr_html_(self) -> str:
        rows = [
            [name, " x ".join(map(str, estimate.values.shape)), f"{np.sqrt(np.mean(estimate.variance)):.4g}"]
            for name, estimate in self.statistics.items()
        ]
        title = f"Release about {counted(self.users, 'user')}"
        return table_html(title, ["statistic", "cells", "noise (sd)"], rows, self.guarantee.statement())

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.statistics:
            raise Unsupported(f"this release has no {name}; it has {', '.join(sorted(self.statistics))}")
        return self.statistics[name]

    def width(self, cells_summed: int, failure_probability: float, statistic: str | None = None) -> Floats:
        """For each (group, state, action): a bound on the noise in a sum of that many cells of the row.

        It is exceeded with at most the given probability, by the exact law of the accumulated noise. The cells are
        those of ``statistic``; without one, those of the statistics that the recipe lists first.
        """
        if statistic is None:
            return self.width_of(cells_summed, failure_probability)
        self[statistic]  # refused if it is not there
        return self.widths_of.get(statistic, self.width_of)(cells_summed, failure_probability)

    def radius(self, statistic: str, failure_probability: float) -> Floats:
        """For each (group, state, action): a bound on the noise in one count that holds for all releases at once.

        It may be used however the policies were chosen from earlier releases. "followed" is the sum of a pair's
        transitions; other names are those of the statistics.
        """
        if self.radius_of is None:
            raise Unsupported("this recipe states no bound that holds for all of its releases at once: use width")
        return self.radius_of(statistic, failure_probability)


class Statistics(NamedTuple):
    """The arrays of a release as compiled learners take them, with the standard deviations of the noise in them.

    One row per (group, state, action), in this order: row = (g * S + s) * A + a. Transitions are kept by successor, so
    that planners go through many rows at once.
    """

    visits: Floats  # (rows,)
    transitions: Floats  # (S, rows)
    rewards: Floats  # (rows,)
    visit_noise: Floats  # (rows,)
    transition_noise: Floats  # (rows,), in the count of one successor
    reward_noise: Floats  # (rows,)
