"""Learning from data that are there already: ``train`` on a real table, ``simulate`` on data from known worlds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discreet.base.packages import lazily

if TYPE_CHECKING:
    from discreet.base.types import ArrayLike
    from discreet.learners.base import Learner
    from discreet.recipes.registry import Target
    from discreet.simulation.plots import plot_values
    from discreet.simulation.result import OfflineResult
    from discreet.simulation.simulate import AnyWorld, Behaviour
    from discreet.tables.evaluate import Evaluation, evaluate
    from discreet.tables.evaluation.interval import Interval
    from discreet.tables.evaluation.split import Split, load_split
    from discreet.tables.plan import Plan, plan
    from discreet.tables.receipt import policy_hash
    from discreet.tables.train import Fit, train

__all__ = [
    "Evaluation", "Fit", "Interval", "OfflineResult", "Plan", "Split", "evaluate", "load_split", "plan", "plot_values",
    "policy_hash",
    "simulate", "train",
]  # fmt: skip


def simulate(
    world: AnyWorld,
    learner: Learner | str = "apvi",
    privacy: Target | None = None,
    *,
    users: int = 10_000,
    behaviour: Behaviour = "uniform",
    runs: int = 10,
    seed: int = 0,
    known_rewards: bool | ArrayLike = False,
    options: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> OfflineResult:
    """Draw ``users`` trajectories of the behaviour policy, learn a policy from one private release, and evaluate it.

    This is ``discreet.simulate`` with a ``behaviour`` policy.

    Args:
        world: A world.
        learner: A learner for data sets, or its name.
        privacy: A trust model, or a mechanism of your own.
        users: How many act.
        behaviour: The policy that they act under.
        runs: How many data sets are drawn.
        seed: The seed of all randomness.
        known_rewards: The mean rewards are declared public.
        options: Knobs of a learner that is given by its name.
        progress: Show how far it is.

    Examples:
        >>> import discreet.offline
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> private = discreet.offline.simulate(world, "apvi", discreet.Central(1.0), users=100, runs=2)
        >>> private.guarantee.model
        'central'
    """
    from discreet.base.validation import check_options
    from discreet.learners.registry import offline_learner
    from discreet.simulation.simulate import simulate as run

    chosen = offline_learner(learner, **check_options("options", options))
    return run(
        world, chosen, privacy, episodes=users, behaviour=behaviour, runs=runs, seed=seed, known_rewards=known_rewards,
        progress=progress,
    )  # fmt: skip


__getattr__, __dir__ = lazily(
    __name__,
    {
        "Evaluation": "discreet.tables.evaluate",
        "Fit": "discreet.tables.train",
        "Interval": "discreet.tables.evaluation.interval",
        "OfflineResult": "discreet.simulation.result",
        "Plan": "discreet.tables.plan",
        "Split": "discreet.tables.evaluation.split",
        "evaluate": "discreet.tables.evaluate",
        "load_split": "discreet.tables.evaluation.split",
        "plan": "discreet.tables.plan",
        "plot_values": "discreet.simulation.plots",
        "policy_hash": "discreet.tables.receipt",
        "simulate": "discreet.offline",
        "train": "discreet.tables.train",
    },
)
