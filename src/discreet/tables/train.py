"""``offline.train``: a policy and a receipt from a table of trajectories. Real noise, real data, one release.

Values are stated in the owner's units: the expected sum of rewards, as her table has them, until the episode ends
(:mod:`discreet.worlds.planning.reward_units`). What is too large for this machine is refused before noise is drawn.

With ``holdout`` some users are not learned from: they judge the policy, at no further cost to anybody, because a user
is in one part only (:mod:`discreet.tables.holdout_evaluation`). Of one step everybody judges
(:mod:`discreet.tables.everybody`).

With a ledger the order is: count; begin a transaction; charge the budget, draw the noise, store the release; commit;
only then learn from it. So a run that was killed is finished by the same call at no further cost, and what would go
over the budget is refused when no more than the column of users has been read, to know how many there are.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet.base.errors import EmptyTable, InvalidInput, Unsupported
from discreet.base.notebook import facts_html, one_line
from discreet.base.policies import AnyPolicy, labelled
from discreet.base.shape import check_size
from discreet.base.types import ArrayLike, Floats, Mask
from discreet.base.validation import check_options
from discreet.learners.apvi import APVI
from discreet.learners.base import Problem
from discreet.learners.evidence import first_states
from discreet.learners.lower_bound import lower_bound
from discreet.learners.registry import offline_learner
from discreet.ledger.paying import paid
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.release import Release
from discreet.mechanisms.session import Privatizer, Session
from discreet.mechanisms.sums.accumulator import SecureNoise
from discreet.noise.exact_sampler import check_sampler
from discreet.privacy.guarantee import Guarantee, drawn
from discreet.recipes.outcomes import recipe_for
from discreet.recipes.targets import Central
from discreet.simulation.data_sets import known_table, learn, privatizer_for
from discreet.simulation.progress import progress_bar
from discreet.tables.apply import written
from discreet.tables.evaluation.interval import Interval
from discreet.tables.evaluation.presence import DECLARATIONS, presence_of, present_facts
from discreet.tables.evaluation.split import Split
from discreet.tables.evaluation.verdict import Verdict
from discreet.tables.everybody import everybody_judges, judgement_of
from discreet.tables.holdout import Jury
from discreet.tables.holdout_evaluation import (
    Budget,
    Judgement,
    judgement_from,
    of_both_parts,
    with_judgement,
    without_judgement,
)
from discreet.tables.policy_arrays import AnyBehaviour, policy_table
from discreet.tables.private_clip import bought_clip, check_clip, epsilon_left, of_both
from discreet.tables.read.columns import Declaration
from discreet.tables.read.table import Table, TableUsers
from discreet.tables.read.user_subsets import PartUsers
from discreet.tables.receipt import (
    Worth,
    judgement_facts,
    noise_facts,
    training_facts,
    value_facts,
    versions,
    why_no_bound,
    write_receipt,
)
from discreet.tables.receipt_words import adds_up
from discreet.tables.requests import declaration_hash, train_request
from discreet.tables.stored_release import StoredAnswers, collect, count_ahead, pack
from discreet.worlds.planning.reward_units import in_owner_units

_BYTES_PER_CELL = 64  # estimates, repaired counts, probabilities, and what is held while they are computed
_COINS = 0  # planners here break no ties at random, so public coins are a constant


@dataclass(frozen=True)
class Fit:
    """What training leaves: a policy, the guarantee of the release that it was planned from, and its receipt.

    Args:
        policy: What was learned.
        values: What it is estimated to be worth in each state, (S,), in the units of the table.
        guarantee: The promise to the users.
        recipe: The mechanism that was used.
        facts: The content of the receipt.
        value: Of the policy, as its judges say: held-out users, or everybody.
        behaviour: Of what users did.
        difference: Value less behaviour.
        verdict: Better, worse, about the same, cannot be told, or not judged, and why.
        split: Who was held out.
        bound: What the policy is worth at least, (S,), with the stated probability.
        release: The noisy statistics that the policy was planned from.
        declaration: What was declared about the table.

    Examples:
        >>> import polars, discreet.data, discreet.offline
        >>> visits = polars.DataFrame({"who": range(20), "day": [0] * 20, "state": [0] * 20, "drug": [0, 1] * 10})
        >>> table = discreet.data.read(
        ...     visits, user="who", step="day", state="state", action="drug", states=1, actions=2, horizon=1
        ... )
        >>> fit = discreet.offline.train(table, epsilon=1.0, known_rewards=[[0.0, 1.0]])
        >>> fit.policy.horizon, fit.guarantee.simulated
        (1, False)
    """

    policy: AnyPolicy
    values: Floats  # (H + 1, S): an estimate of what the policy is worth from a step and state on, in the owner's units
    guarantee: Guarantee
    recipe: str
    facts: Mapping[str, Any] = field(repr=False)
    value: Interval | None = None  # with holdout: of the policy, judged by held-out users
    behaviour: Interval | None = None  # of what users did themselves
    difference: Interval | None = None
    verdict: Verdict | None = None
    split: Split | None = field(default=None, repr=False)  # who was held out: keep it with the data
    bound: Floats | None = None  # (H + 1, S): what it is worth at least; facts["values"] says with which probability

    release: Release | None = field(default=None, repr=False)
    declaration: Declaration | None = field(default=None, repr=False)

    def table(self) -> Any:
        """The released table, with the deviation of its noise: a frame of pandas or polars, or a dictionary of arrays.

        A row for every step, state and action, with ``visits`` and, where rewards are released, ``reward_shares``: the
        sum of rewards as shares of the declared range. It is post-processing of the release and costs nothing.
        """
        from discreet.tables.released_table import released_table

        if self.release is None or self.declaration is None:
            raise InvalidInput("this fit holds no release: train again")
        return released_table(self.release, self.declaration)

    def __repr__(self) -> str:
        return one_line("Fit", f"{self.facts['learner']['name']} by {self.recipe}", self.guarantee.brief())

    def _repr_html_(self) -> str:
        facts = [("recipe", self.recipe), ("policy", repr(self.policy)), ("promise", self.guarantee.statement())]
        judged = [] if self.verdict is None else [("verdict", self.verdict.sentence())]
        return facts_html(f"{self.facts['learner']['name']} learned from a table", [*facts, *judged])

    def receipt(self, path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None) -> None:
        """Write the privacy receipt: .json for programs, .html for people.

        ``key`` is a file of the key that signs it; without one it is your own, which is made at the first signing. A
        receipt is not signed where no key can be kept.
        """
        write_receipt(path, self.facts, key)

    def summary(self) -> str:
        """One line: what was released and what it promises."""
        return f"{self.facts['learner']['name']} by {self.recipe}: {self.guarantee.statement()}"

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Any = None, theme: str | None = None) -> Any:
        """Draw what the policy and the behaviour are worth, with intervals, and return the axes; needs ``holdout``.

        With a path (.png, .svg, .pdf) the picture is written there; ``ax`` are axes of yours to draw into.
        """
        from discreet.tables.interval_plots import plot_intervals

        if self.facts["evaluation"] is None:
            raise InvalidInput("nobody judged this policy: train with holdout=0.35 to draw what it is worth")
        return plot_intervals(self.facts["evaluation"], path, ax=ax, theme=theme)


def train(
    data: Table,
    learner: str | Any = "apvi",
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    recipe: str = "auto",
    known_rewards: ArrayLike | None = None,
    features: ArrayLike | None = None,
    options: Mapping[str, Any] | None = None,
    recipe_options: Mapping[str, Any] | None = None,
    holdout: float | None = None,
    judge: str | None = None,
    clip: str | None = None,
    behaviour: AnyBehaviour | None = None,
    returns: tuple[float, float] | None = None,
    safe: bool = False,
    split: Split | str | os.PathLike[str] | None = None,
    confidence: float = 0.95,
    ledger: str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    sampler: str | None = None,
    seed: object = None,
    progress: bool = False,
) -> Fit:
    """Learn a policy from a table under differential privacy, with noise from the operating system.

    Args:
        data: The table that :func:`discreet.data.read` declared.
        learner: ``apvi``, ``vapvi``, ``pevi`` or a learner.
        epsilon: With ``delta``, or ``rho``: what the release may cost.
        delta: By how much a probability may exceed the bound.
        rho: Zero-concentrated differential privacy in place of epsilon.
        recipe: The mechanism by name.
        known_rewards: The table of mean rewards if it is public, (S, A) or (H, S, A); otherwise rewards are released.
        features: (S, A, d), for linear learners; those longer than one are shortened.
        options: Knobs of the learner: none of them touches privacy, but choosing them by looking at private results
            does.
        recipe_options: Options of the recipe.
        holdout: The share of users who are not learned from and judge the policy: ``fit.value``, ``fit.behaviour`` and
            ``fit.difference`` are then intervals in the units of the table.
        judge: "everybody": the table of one step that is learned from judges, too, at no further cost (the default of
            one step without ``holdout``); "nobody".
        clip: "auto": a tenth of epsilon buys an interval that outcomes of one step are clipped to, so that a wide range
            of rewards costs little; everything that is said is then about clipped outcomes.
        behaviour: The policy that users followed (a policy, its file, "uniform", or probabilities (A,), (S, A) or
            (H, S, A)), which makes intervals far narrower, and which ``apvi`` falls back on instead of the released one
            where nothing is surer to be better.
        returns: The range of the sum of rewards from any step on.
        safe: Keep to the declared behaviour where few users show what an action does.
        split: A file that records who was held out, written before anything is drawn, or read if it is there: it
            belongs with the data.
        confidence: Of the intervals.
        ledger: A file or a PostgreSQL address: the release is charged to a budget there, which refuses what would go
            over. The same call again uses the stored release, at no further cost: ``fit.facts["ledger"]["reused"]``.
        dataset: The name of the data set in the ledger.
        sampler: Who draws discrete Laplace and Gaussian noise, "opendp" or "discreet"; by default OpenDP does, up to
            100,000 cells, and our own sampler beyond.
        seed: Refused: noise that can be replayed can be subtracted.
        progress: Show how far it is.

    Examples:
        >>> import polars, discreet.data, discreet.offline
        >>> visits = polars.DataFrame({"who": range(20), "day": [0] * 20, "state": [0] * 20, "drug": [0, 1] * 10})
        >>> table = discreet.data.read(
        ...     visits, user="who", step="day", state="state", action="drug", states=1, actions=2, horizon=1
        ... )
        >>> fit = discreet.offline.train(table, epsilon=1.0, known_rewards=[[0.0, 1.0]])
        >>> fit.guarantee.epsilon <= 1.0
        True
    """
    if seed is not None:  # before anything else is looked at
        raise InvalidInput("a real release takes no seed: noise that can be replayed can be subtracted")
    if sampler is not None:
        check_sampler(sampler)
    if not isinstance(data, Table):
        raise InvalidInput(f"train needs a table that discreet.data.read declared, got {type(data).__name__}")
    if (ledger is None) != (dataset is None):
        raise InvalidInput("a ledger holds the budgets of several data sets: give ledger= and dataset= together")
    chosen = _told_of_ends(offline_learner(learner, **check_options("options", options)), data.declaration.early_end)
    known = known_table(data.shape, known_rewards)
    if known is None and data.declaration.columns.reward is None:
        raise InvalidInput("there is no reward column and no known_rewards=: declare one of them")
    if "matrix" in chosen.needs:
        if known is not None:
            raise InvalidInput(f"learner {chosen.name} regresses rewards too: leave known_rewards out")
        chosen = _with_features(chosen, features)
        if holdout is None and behaviour is not None:
            raise InvalidInput(f"learner {chosen.name} falls back on no behaviour: give holdout=, or leave it out")
    check_size(data.shape)
    budget = Budget(epsilon, delta, rho)
    jury = Jury.asked_for(
        data, holdout=holdout, behaviour=behaviour, returns=returns, safe=safe, confidence=confidence, split=split
    )
    if ledger is not None and jury.split is not None and split is None:
        raise InvalidInput("a release that a ledger keeps needs its split again later: give split=, a file for it")
    people: TableUsers | PartUsers = TableUsers(data) if jury.people is None else jury.counted_users()
    users = data.users() if jury.split is None else jury.split.learned_from
    target = Central(epsilon, delta, rho, recipe, check_options("recipe_options", recipe_options))
    if clip is not None:
        options_apart = {"rho": rho is not None, "a ledger": ledger is not None, "holdout": holdout is not None,
                         "returns": returns is not None, "known_rewards": known is not None}  # fmt: skip
        check_clip(clip, data, options_apart)
        target = replace(target, epsilon=epsilon_left(epsilon or 0.0))
    if recipe == "auto" and not recipe_options and known is None and getattr(chosen, "penalty", "") == "noise":
        target = replace(target, recipe=recipe_for(target, data.shape, data.declaration.per_user))
        if target.recipe != "auto" and judge != "nobody" and "penalty_scale" not in (options or {}):
            chosen = replace(chosen, penalty_scale=0.0)  # the best by its mean is judged: that is what caution is for
    # What the table declares comes last: an option must not contradict the bound that the query enforces.
    privatizer = privatizer_for(
        chosen, target, data.shape, users, known=known is not None, per_user=data.declaration.per_user
    )
    jury.check(privatizer, budget, safe)
    everybody = everybody_judges(judge, holdout, data.declaration, privatizer, known is not None)
    cells = sum(part.cells for channel in privatizer.channels for part in channel.mechanisms())
    check_memory(sum(channel.encoder.size for channel in privatizer.channels if isinstance(channel, Channel)))
    clipped = None
    if clip is not None and epsilon is not None:
        clipped = bought_clip(data, epsilon, users, SecureNoise(sampler=sampler))
        range_declared, data = data.shape.rewards, clipped.data
        people = TableUsers(data)
        jury = Jury.asked_for(data, holdout=None, behaviour=behaviour, returns=None, safe=safe, confidence=confidence)
        privatizer = privatizer_for(chosen, target, data.shape, users, per_user=data.declaration.per_user)
    problem, coins, bought = Problem(data.shape, users), np.full(1, _COINS, np.uint64), None

    def planned(session: Session | StoredAnswers) -> Planned:
        state, release = learn(chosen, session, problem, coins, known, declared=jury.declared())
        learned, values = chosen.policy(state), in_owner_units(data.shape, state.values)
        kept, kind = _said_by(chosen, state)
        if safe:
            learned, values = jury.safe_policy(learned, release, users)
            kept, kind = None, "a cautious estimate, for the safe policy,"
        worth = _worth(chosen, data, privatizer, jury, release, learned, values, kind)
        meaning = value_facts(worth, jury.limits, chosen.failure_probability, kept)
        declared = data.declaration
        policy = labelled(learned, declared.state_labels, declared.action_labels, written(declared))
        return Planned(policy, worth, meaning, release)

    what = f"train {chosen.name} by {privatizer.recipe}"

    def draw() -> bytes:
        jury.remember(what, budget)
        with progress_bar("drawing noise", cells, progress) as tick:
            noise = SecureNoise(tick=tick, sampler=sampler)
            table = pack(collect(chosen, privatizer.open(people, noise, users), problem, coins, known), _made(noise))
        if jury.split is None:
            return table
        found = planned(StoredAnswers(privatizer, users, table))
        return with_judgement(table, jury.judge(found.policy, found.release, users, budget, noise))

    if ledger is not None and dataset is not None:
        promise = jury.promise(drawn(privatizer.guarantee, simulated=False), users, budget)
        bought = paid(
            ledger, dataset,
            {**train_request(data, chosen, target, privatizer, users, known), **jury.request(safe)}, promise, draw,
            what=what, declaration=declaration_hash(data.declaration),
            who=data.declaration.columns.who,
            count=lambda: count_ahead(people, privatizer, chosen.ask(chosen.init(problem, coins)), users),
        )  # fmt: skip
        table, judged = (bought.content, None) if jury.split is None else without_judgement(bought.content)
        stored = StoredAnswers(privatizer, users, table)
        found, made = planned(stored), stored.made
        judgement = None
        if judged is not None:
            promise = jury.stored(judged, found.release.guarantee, users)
            judgement = judgement_from(judged, promise)
    else:
        jury.remember(what, budget)
        with progress_bar("drawing noise", cells, progress) as tick:
            noise = SecureNoise(tick=tick, sampler=sampler)
            found = planned(privatizer.open(people, noise, users))
            judgement = jury.judge(found.policy, found.release, users, budget, noise)
        made, promise = _made(noise), found.release.guarantee
        if judgement is not None and jury.split is not None:
            promise = of_both_parts(promise, judgement.guarantee, (users, jury.split.held_out), promise)
    if clipped is not None:
        promise = of_both(clipped.guarantee, promise, delta)
    presence = presence_of(data.shape, found.release, users)
    if presence.may_be_empty:
        kept = "" if bought is None else ", and the ledger keeps the release"
        raise EmptyTable(
            f"{presence.words()}, so it may be empty and no policy is handed out: its budget ({promise.brief()}) is "
            f"spent{kept}; check the declarations ({DECLARATIONS}) with discreet check"
        )
    if everybody:
        judgement = judgement_of(
            data.declaration, privatizer, found.release, found.policy, jury.behaviour, jury.limits, users, confidence
        )
    asked = jury.asked(what, budget)
    facts = training_facts(data, chosen, privatizer, promise, found.policy, users, known is None)
    present = present_facts(data.shape, found.release, users, data.declaration.per_user)
    facts["values"] = {**found.meaning, "present": present}
    if clipped is not None:
        facts["declared"] |= {"rewards": list(range_declared), "clip": clipped.words}
    facts |= {
        **made,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "data": {
            "dataset": dataset,
            "declaration": declaration_hash(data.declaration),
            "user": data.declaration.columns.user,
        },
        "ledger": None if bought is None else bought.facts(),
        "adds_up": adds_up(asked, bought is not None),
        "evaluation": None if judgement is None else judgement_facts(judgement.facts, facts["mechanisms"]),
    }
    fit = Fit(found.policy, found.worth.values, promise, privatizer.recipe, facts, bound=found.worth.bound,
        release=found.release, declaration=data.declaration)  # fmt: skip
    return fit if judgement is None else judged_fit(fit, judgement, asked)


class Planned(NamedTuple):
    """What was planned from a release: the policy, its values and what they mean."""

    policy: AnyPolicy
    worth: Worth
    meaning: dict[str, Any]
    release: Release


def _said_by(learner: Any, state: Any) -> tuple[Mask | None, str]:
    """Where the policy does what users did, and what kind of estimate the learner's values are."""
    cautious = "a cautious estimate, less penalties for what is not known,"
    if not isinstance(learner, APVI):
        return None, cautious
    return state.kept, cautious if state.kept is None else "an estimate, from the noisy counts,"


def _worth(
    learner: Any, data: Table, privatizer: Privatizer, jury: Jury, release: Release, policy: AnyPolicy, values: Floats,
    kind: str,
) -> Worth:  # fmt: skip
    """What a policy is worth by the release: an estimate and, apart from it, a lower bound, within what is possible."""
    shape, limits, declaration = data.shape, jury.limits, data.declaration
    worst, best = limits.worst[:, None], limits.best[:, None]
    values = np.clip(values, worst, best)
    first = first_states(shape, release)
    average = None if first is None else float(first @ values[0])
    missing = why_no_bound(learner, shape, privatizer, declaration.per_user)
    if missing:
        return Worth(values, None, average, None, missing, kind)
    found = lower_bound(
        shape, release, policy_table("the policy", policy, declaration), ends=declaration.early_end,
        failure_probability=learner.failure_probability, repair=learner.repair,
    )  # fmt: skip
    bound = np.clip(in_owner_units(shape, found.values), worst, best)
    certain = None
    if found.average is not None and declaration.per_user == 1:
        certain = shape.horizon * shape.rewards[0] + shape.reward_span * found.average
        certain = float(np.clip(certain, limits.worst[0], limits.best[0]))
    return Worth(values, bound, average, certain, "", kind)


def judged_fit(fit: Fit, judgement: Judgement, split: Split | None) -> Fit:
    """A fit with what held-out users say about its policy."""
    return replace(
        fit, value=judgement.value, behaviour=judgement.behaviour, difference=judgement.difference,
        verdict=judgement.verdict, split=split,
    )  # fmt: skip


def _made(noise: SecureNoise) -> dict[str, Any]:
    """How a release was drawn: kept with it, because it may be used again later."""
    return {"noise": noise_facts(noise.used), "versions": versions()}


def _told_of_ends(learner: Any, ends: bool) -> Any:
    """The learner, told what the table declares: whether episodes may end early is not a choice of the learner's."""
    return replace(learner, ends=ends) if any(knob.name == "ends" for knob in fields(learner)) else learner


def check_memory(cells: int) -> None:
    """Refuse, before noise is drawn, a table of which planning would need more memory than is free."""
    needed, free = cells * _BYTES_PER_CELL, free_memory()
    if free is not None and needed > free:
        raise Unsupported(
            f"planning with {cells:,} noisy cells takes about {needed >> 20:,} MiB of memory and {free >> 20:,} are "
            "free: merge states or steps, declare homogeneous=True, or use a larger machine"
        )


def free_memory() -> int | None:
    """The bytes of memory that are free for programs, where the system tells."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _with_features(learner: Any, features: ArrayLike | None) -> Any:
    given = learner.features if features is None else features
    if given is None:
        raise InvalidInput(f"learner {learner.name} needs features= of shape (S, A, d), with norms of at most one")
    return replace(learner, features=given)
