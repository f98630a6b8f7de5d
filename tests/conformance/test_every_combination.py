"""Every recipe with every learner in every kind of world runs and keeps its promise, or is refused for a known reason.

``refusal`` says which combinations nobody has proved correct, or lack what they need, and why. It reads public facts
(what a recipe is for, what a learner needs, what a world declares) and tries nothing out. Whatever it lets through has
to run; of what it stops, every recipe is refused once for every reason, with the sentence that says so. Layered worlds
have a file of their own.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import discreet
from discreet.base.policies import MIXED
from discreet.learners.registry import LEARNERS, make_learner
from discreet.mechanisms.counts.arm_reward import ArmReward, is_bandit
from discreet.mechanisms.counts.first_visit import FirstVisit, FirstVisitTables
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.release import LAYERS, OPENING, WEIGHS
from discreet.privacy.guarantee import drawn
from discreet.recipes.recipe import HEAVY, LAYERED, TABULAR
from discreet.recipes.registry import build, recipes
from discreet.simulation import episode_loop

EPISODES, EPSILON, DELTA = 24, 1.0, 1e-6
TARGETS = {
    "none": lambda recipe: discreet.NoPrivacy(recipe=recipe.name),
    "central": lambda recipe: discreet.Central(EPSILON, 0.0 if recipe.pure else DELTA, recipe=recipe.name),
    "local": lambda recipe: discreet.Local(
        EPSILON, 0.0 if recipe.pure else DELTA, recipe=recipe.name, options=_rarely(recipe)
    ),
    "shuffle": lambda recipe: discreet.Shuffle(
        EPSILON, DELTA, recipe=recipe.name, options={"blocks": 2} if "blocks" in recipe.options else _rarely(recipe)
    ),
}


def _rarely(recipe):
    """Options that let a recipe release rarely, where it would release after every user: nothing to compile."""
    return {"growth": 0.5} if recipe.options.get("growth", 0) is None else {}


SERVES = {recipe.name: problem for problem in (TABULAR, HEAVY, LAYERED) for recipe in recipes(problem=problem)}
RECIPES = {recipe.name: recipe for recipe in recipes() if recipe.name in SERVES}
ONLINE = [name for name in LEARNERS if "matrix" not in LEARNERS[name].make().needs]
NEEDS = {name: make_learner(name).needs for name in ONLINE}
COUNTS = frozenset({"visits", "transitions", "rewards", MIXED, LAYERS, WEIGHS, OPENING})
PROMISES = {"none": "none", "central": "joint", "local": "local", "shuffle": "shuffle"}

FIRST_VISITS = {FirstVisit.name, FirstVisitTables.name, AskedFirstVisit.name, "first-visit-two-tables"}
EVERY_VISIT = {JointHistogram.name: JointHistogram, ThreeTables.name: ThreeTables, "two-tables": TwoTables}
# Their users answer bits step by step, and the answers are pooled behind the shuffler.
POOLED_LATER = {"shuffle/three-tables-randomised-response", "shuffle/published-prefix"}
# A shuffler that counts one batch at a time can count one step of it; the first adds up everybody so far, and in the
# second nobody knows which step a user drew.
NO_BATCHES = {"shuffle/published-prefix", "shuffle/sampled-item"}


def _wide_rewards():
    rng = np.random.default_rng(0)
    transitions, rewards = rng.dirichlet(np.ones(2), size=(2, 2)), rng.uniform(-3, 5, size=(2, 2))
    return discreet.worlds.from_arrays(
        transitions, rewards, horizon=2, start=[0.5, 0.5], reward_range=(-3, 5), reward_law="deterministic"
    )


WORLDS = {
    "river": discreet.worlds.river_swim(states=3, horizon=3),
    "per-step": discreet.worlds.river_swim(states=2, horizon=2).with_time(homogeneous=False),
    "random": discreet.worlds.random_mdp(),
    "bandit": discreet.worlds.bandit(arms=3),
    "wide-rewards": _wide_rewards(),
    "heavy-tails": discreet.worlds.river_swim(states=2, horizon=2, rewards="stable"),
    "heavy-per-step": discreet.worlds.river_swim(states=2, horizon=2, rewards="stable").with_time(homogeneous=False),
}


# The kinds of refusal, and what each says.
REASONS = {
    "heavy tails": "needs rewards with a range, and this world declares heavy tails",
    "rewards with a range": "rewards of this world have a range: use a recipe that is not for heavy tails",
    "layered worlds only": "serves layered worlds only",
    "a law per step": "need a world that is declared time-homogeneous",
    "moves above one": r"counts pooled over \d steps move by more than one",
    "no loss tables": "does not release losses, which the learner needs",
    "no observed losses": "does not release observed_losses, which the learner needs",
    "steps pooled": "policy elimination estimates every step by itself: declare the world per step",
    "no bandits": "worlds of one step have no successors to ask about",
    "bandits only": "rewards of arms are for bandits, which have one state and one step",
    "one action": "serves policies that say one action for everybody, and this learner mixes actions",
    "one step asked": "answers whole tables only, not a Layer request",
}


def _moves_by_one(recipe, shape):
    return recipe.encoder not in EVERY_VISIT or EVERY_VISIT[recipe.encoder](shape).sensitivity().unit


def refusal(recipe, learner, world):
    """The reason why a combination is refused, the first of REASONS that applies; None if it must run."""
    shape, problem = world.shape, SERVES[recipe.name]
    if shape.moments is not None and problem != HEAVY:
        return "heavy tails"
    if shape.moments is None and problem == HEAVY:
        return "rewards with a range"
    if problem == LAYERED:
        return "layered worlds only"
    if recipe.encoder == ArmReward.name and not is_bandit(shape):
        return "bandits only"
    if recipe.encoder == AskedFirstVisit.name and is_bandit(shape):
        return "no bandits"
    if not shape.homogeneous and recipe.encoder in FIRST_VISITS:
        return "a law per step"  # first visits are draws of one law only if it is the same at every step
    if recipe.model == "shuffle" and recipe.name not in POOLED_LATER and not _moves_by_one(recipe, shape):
        return "moves above one"  # a bit does not
    missing = NEEDS[learner] - COUNTS  # losses, which no recipe for such worlds releases
    if missing:
        return "no observed losses" if "observed_losses" in missing else "no loss tables"
    if recipe.encoder == ArmReward.name and MIXED in NEEDS[learner]:
        return "one action"
    if learner == "policy-elimination" and shape.horizon > 1:
        if shape.homogeneous:
            return "steps pooled"
        if recipe.model not in ("shuffle", "none") or recipe.name in NO_BATCHES:
            return "one step asked"
    return None


def _sort():
    """The combinations that must run, and one that is refused for each recipe and reason."""
    run, refused = [], {}
    for recipe, learner, world in product(RECIPES, ONLINE, WORLDS):
        reason = refusal(RECIPES[recipe], learner, WORLDS[world])
        if reason is None:
            run.append((recipe, learner, world))
        else:
            refused.setdefault((recipe, reason), (learner, world))
    return run, [(recipe, learner, world, reason) for (recipe, reason), (learner, world) in refused.items()]


RUN, REFUSED = _sort()


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "learner", "world"), RUN)
def test_a_combination_runs_and_keeps_its_promise(recipe, learner, world):
    recipe, world = RECIPES[recipe], WORLDS[world]
    privacy = TARGETS[recipe.model](recipe)
    playing = make_learner(learner)
    result = discreet.simulate(world, playing, privacy, episodes=EPISODES, runs=2, seed=5)
    assert result.recipe == recipe.name
    assert result.guarantee.model == PROMISES[recipe.model]
    if recipe.source != "discreet":
        assert result.guarantee.claimed.epsilon == EPSILON  # what is true of printed noise has tests of its own
    elif recipe.model != "none":
        assert 0.97 * EPSILON < result.guarantee.epsilon <= EPSILON
        assert result.guarantee.delta == privacy.delta
        assert result.guarantee.delta_at(EPSILON) <= privacy.delta
    built = build(privacy, world.shape, EPISODES, playing.needs).guarantee
    assert result.guarantee.explain() == drawn(built, simulated=True).explain()
    assert np.isfinite(result.regret).all()
    assert (np.diff(result.regret, axis=1) >= 0).all()
    assert (result.final_gap >= 0).all()


@pytest.mark.parametrize(("recipe", "learner", "world", "reason"), REFUSED)
def test_a_combination_is_refused_with_the_reason(recipe, learner, world, reason):
    privacy = TARGETS[RECIPES[recipe].model](RECIPES[recipe])
    with pytest.raises(discreet.Unsupported, match=REASONS[reason]):
        discreet.simulate(WORLDS[world], make_learner(learner), privacy, episodes=EPISODES)


def test_no_combination_is_lost():
    """``refusal`` cannot grow unseen: what ran once has to run, and every reason is one that somebody meets."""
    assert len(RUN) >= 1244
    assert {reason for *_, reason in REFUSED} == set(REASONS)
    assert {recipe for recipe, *_ in RUN} == {name for name in SERVES if SERVES[name] != LAYERED}
    assert {learner for _, learner, _ in RUN} == {name for name in ONLINE if NEEDS[name] <= COUNTS}


AUTOMATIC = [discreet.Central(1.0), discreet.Central(1.0, DELTA), discreet.Local(1.0), discreet.Shuffle(1.0, DELTA)]


SERVED = [
    (p, world) for p, world in product(AUTOMATIC, WORLDS) if p.model != "shuffle" or not world.startswith("heavy")
]


@pytest.mark.parametrize(
    ("privacy", "world"), SERVED, ids=lambda p: p if isinstance(p, str) else f"{p.model}-{p.delta:g}"
)
def test_auto_serves_every_world(privacy, world):
    result = discreet.simulate(WORLDS[world], make_learner("ucbvi"), privacy, episodes=EPISODES)
    assert result.guarantee.epsilon <= 1.0


def test_auto_has_nothing_for_heavy_tails_through_a_shuffler():
    with pytest.raises(discreet.Unsupported, match="there is none for such problems yet"):
        build(discreet.Shuffle(1.0, DELTA), WORLDS["heavy-tails"].shape, EPISODES)


@pytest.mark.parametrize("learner", [name for name in ONLINE if NEEDS[name] <= COUNTS])
def test_every_learner_that_counts_is_served_per_step(learner):
    assert {recipe for recipe, name, world in RUN if (name, world) == (learner, "per-step")}


def test_few_combinations_have_a_compiled_loop():
    """Each is compiled once per machine and kind of reward: a dozen at most for first long runs to wait for.

    Without ``dp-ucbvi``, which is there to be compared with and which nobody waits for.
    """
    compiled = []
    for recipe, learner, world in RUN:
        if learner == "dp-ucbvi":
            continue
        target = TARGETS[RECIPES[recipe].model](RECIPES[recipe])
        if world == "river" and episode_loop.compiles(
            make_learner(learner), build(target, WORLDS[world].shape, 10_000)
        ):
            compiled.append((recipe, learner))
    assert ("none", "ucbvi") in compiled
    assert len(compiled) <= 12


def test_short_runs_compile_no_loop(monkeypatch):
    def refuse(*_arguments):
        raise AssertionError("the episode loop was compiled for a short run")

    monkeypatch.setattr(episode_loop, "_episode_loop", refuse)
    discreet.simulate(WORLDS["river"], make_learner("ucbvi"), episodes=999)
    with pytest.raises(AssertionError, match="short run"):
        discreet.simulate(WORLDS["river"], make_learner("ucbvi"), episodes=1_000)
