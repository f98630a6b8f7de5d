"""What training and offline simulation share: a learner by name, a privacy target, and the questions in between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput, unknown_name
from discreet.learners.base import OfflineLearner, Problem
from discreet.learners.pessimistic import APVI
from discreet.linear.channel import LinearPrivatizer, bounded_features, build_linear
from discreet.linear.learners import PEVI, VAPVI
from discreet.recipes.trust import Privacy
from discreet.release import Release, Request
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats
from discreet.validation import check_array

LEARNERS: dict[str, type[Any]] = {"apvi": APVI, "vapvi": VAPVI, "pevi": PEVI}


class Answers(Protocol):
    """Whoever answers the questions of a learner: the only one who holds data."""

    def answer(self, request: Request) -> Release:
        """A private answer, charged to the budget."""


def offline_learner(learner: str | Any, **knobs: Any) -> Any:
    """A learner by name, or as it is; knobs that it has not set are taken from the declarations."""
    if isinstance(learner, str):
        if learner not in LEARNERS:
            raise unknown_name("offline learner", learner, LEARNERS)
        fields = LEARNERS[learner].__dataclass_fields__
        return LEARNERS[learner](**{name: value for name, value in knobs.items() if name in fields})
    if getattr(learner, "name", None) not in LEARNERS:
        name = getattr(learner, "name", type(learner).__name__)
        raise InvalidInput(f"{name} learns online; learners from data are {', '.join(LEARNERS)}")
    return learner


def is_linear(learner: Any) -> bool:
    """Whether a learner asks linear questions instead of planning from tables."""
    return "matrix" in learner.needs


def linear_privatizer(
    learner: Any, privacy: Privacy, shape: Shape, users: int, features: ArrayLike, per_user: int = 1
) -> tuple[Any, LinearPrivatizer]:
    """The learner with its features, and the privatizer whose budget fits its questions."""
    phi = bounded_features(features if learner.features is None else learner.features, shape)
    learner, problem = replace(learner, features=phi), Problem(shape, users)
    unknown = set(privacy.options) - {"as_printed", "rewards", "per_user"}
    if privacy.recipe not in ("auto", "offline/linear", "offline/linear-as-printed") or unknown:
        raise InvalidInput(
            f"learner {learner.name} asks linear questions: its recipes are offline/linear and "
            "offline/linear-as-printed, without options"
        )
    privatizer = build_linear(
        privacy, shape, phi, learner.vectors(problem), parts=learner.parts(problem), per_user=per_user,
        as_printed=privacy.recipe == "offline/linear-as-printed",
    )  # fmt: skip
    return learner, privatizer


def known_table(shape: Shape, known_rewards: ArrayLike | None) -> Floats | None:
    """Declared mean rewards as shares of the declared range, (groups, S, A); None where rewards are private."""
    if known_rewards is None:
        return None
    table = check_array("known_rewards", known_rewards)
    cells = (shape.states, shape.actions)
    if table.shape not in (cells, (shape.horizon, *cells), (1, *cells)):
        raise InvalidInput(f"known_rewards must have shape {cells} or {(shape.horizon, *cells)}, got {table.shape}")
    low, high = shape.rewards
    if table.min() < low or table.max() > high:
        raise InvalidInput(f"known_rewards must lie in the declared range {shape.rewards}")
    steps = table.reshape(-1, *cells)
    if shape.homogeneous and len(steps) > 1:
        raise InvalidInput("known_rewards differ from step to step, but laws were declared homogeneous")
    return np.ascontiguousarray(np.broadcast_to((steps - low) / (high - low), (shape.groups, *cells)))


def learn(
    learner: OfflineLearner, session: Answers, problem: Problem, coins: Stream, known: Floats | None
) -> tuple[Any, Release]:
    """Let a learner ask all its questions; what it knows in the end, and the last answer."""
    state = learner.init(problem, coins)
    for _ in range(learner.questions(problem)):
        release = session.answer(learner.ask(state))
        if "threshold" in release.statistics:
            release = replace(release, thresholded=True)
        if known is not None:
            release = replace(release, public={"rewards": known})
        state = learner.update(state, release)
    return state, release
