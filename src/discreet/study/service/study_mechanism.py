"""What a declaration amounts to: a privatizer, a learner, the guarantee of a participant, what her device sends.

One report is calibrated to the r-th part of the promise where a participant may send r of them, and the promise is the
composition of r such reports: she is in at most r rounds, each round has the same guarantee whatever its policy is, and
rounds without her do not touch her data. Which rounds she is in may depend on everything she has seen.

``recipe="auto"`` is resolved among the recipes that can be served. What it chose is kept with the study, so that
another version of this library, which might choose otherwise, goes on with the same mechanism or refuses.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from discreet.base.errors import DiscreetError, InvalidInput, Unsupported, of_kind
from discreet.base.policies import MIXED, AnyPolicy, Policy, StochasticPolicy
from discreet.base.streams import COINS, stream
from discreet.base.types import NDArray
from discreet.learners.base import Learner, Problem
from discreet.learners.psrl import PSRL
from discreet.learners.registry import make_learner
from discreet.learners.saved_learners import check_savable
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.deployable import check_shippable
from discreet.mechanisms.mechanism import MessageChannel, MessageTerms
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.mechanisms.release import OPENING
from discreet.mechanisms.saved_intakes import SavedIntake
from discreet.mechanisms.session import Intake, Privatizer
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.privacy.guarantee import Guarantee, about, compose, drawn
from discreet.privacy.odds import bound_words, exceeded
from discreet.privacy.units import ALL_REPORTS, reports_of
from discreet.privacy.words import rounded_up
from discreet.recipes.auto import Score, choose
from discreet.recipes.predicted_regret import expected_regret
from discreet.recipes.recipe import TABULAR
from discreet.recipes.registry import build, find, recipes
from discreet.recipes.shuffle import largest_batch, without_shuffler
from discreet.recipes.targets import Privacy
from discreet.study.dashboard.page_words import SEEN
from discreet.study.service.declaration import Study

_LOCAL, _ASKED, _ITEM = "local/sampled-step", "local/asked-first-visit", "shuffle/sampled-item"
BY_DEVICES = frozenset({_LOCAL, _ASKED})  # local recipes that devices have randomisers for
_ROOM = 1.005
_WEAK = 8.0  # a local epsilon above which nobody should rely on it


@dataclass(frozen=True)
class Mechanism:
    """A study at work: everything that follows from its declaration."""

    study: Study
    privatizer: Privatizer
    learner: Learner
    part: Guarantee  # of one report, with real noise
    whole: Guarantee  # of all reports of a participant

    @property
    def problem(self) -> Problem:
        """What the learner is told."""
        return Problem(self.study.shape, self.study.total)

    @cached_property
    def channel(self) -> ReportChannel | AskedChannel:
        """The channel that devices of a local study report through."""
        (channel,) = self.privatizer.channels
        if not isinstance(channel, ReportChannel | AskedChannel):
            raise Unsupported(f"devices cannot report through {type(channel).__name__}")
        return channel

    @cached_property
    def messages(self) -> MessageChannel:
        """The channel that devices of a shuffled study send their messages through."""
        (channel,) = self.privatizer.channels
        if not isinstance(channel, MessageChannel):
            raise Unsupported(f"devices cannot send messages through {type(channel).__name__}")
        return channel

    def terms(self, policy: AnyPolicy, users: int) -> MessageTerms:
        """What each device of a shuffled batch of that size sends under a policy."""
        return self.messages.terms(Context(policy), users, self.privatizer.masked)

    def most_messages(self, users: int) -> int:
        """How many messages a device of a shuffled batch of that size sends at most, whatever the policy is."""
        shape = self.study.shape
        anything = StochasticPolicy(np.full((shape.horizon, shape.states, shape.actions), 1 / shape.actions))
        return self.terms(anything, users).messages

    @cached_property
    def largest_batch(self) -> int:
        """Shuffled studies: no batch of the schedule has more users; the shuffler takes none that has."""
        return largest_batch(self.privatizer)

    @property
    def alone(self) -> float | None:
        """Shuffled studies: the local epsilon that is left if both parties act together; None: nothing is left.

        It is what the declaration says, because devices refuse every law that does not keep it, whoever asks.
        """
        declared = self.study.local_epsilon
        return None if isinstance(declared, str) else declared

    @cached_property
    def least_alone(self) -> float:
        """The least ``local_epsilon`` that a declaration can have: the laws of the schedule's batches need it.

        In the largest batch devices answer most truthfully. Laws are calibrated one by one, and that of a smaller batch
        may lose a little more (.13% were seen), so there is half a percent on top.
        """
        return float(rounded_up(without_shuffler(self.privatizer).epsilon * _ROOM, 3))

    def check_local_epsilon(self) -> None:
        """Refuse a shuffled study that does not say what is left if both act together, or less than there is."""
        declared, least = self.study.local_epsilon, self.least_alone
        if declared == "":
            raise InvalidInput(
                f"[shuffle] of this study does not say what is left if coordinator and shuffler act together: write  "
                f'local_epsilon = {least:g}  there, or "none" if nothing is promised then'
            )
        if isinstance(declared, float) and declared < least:
            raise InvalidInput(
                f"local_epsilon = {declared:g} in [shuffle] is less than batches of {self.largest_batch:,} people "
                f"need, so devices would refuse: write {least:g}, or more blocks in the options of the recipe"
            )

    def first(self, noise: NoiseSource) -> tuple[Intake, Any]:
        """The intake and the state of the learner before the first report."""
        total = self.study.total
        intake = self.privatizer.take_in(noise, total) if self.study.sealed else self.privatizer.collect(total)
        return intake, self.learner.init(self.problem, stream(self.study.declaration["learner"]["seed"], 0, COINS))

    @property
    def epsilon(self) -> float:
        """Of all reports of a participant: the exact composition, or the plain sum where that is known to be less."""
        r = self.study.most_reports
        fits = Fraction(self.part.delta) * r <= Fraction(self.whole.delta)
        return min(self.whole.epsilon, math.nextafter(self.part.epsilon * r, math.inf)) if fits else self.whole.epsilon

    @property
    def statement(self) -> str:
        """The promise in one line."""
        kind, delta = self.whole.model, self.whole.delta
        numbers = f"epsilon {rounded_up(self.epsilon)}" + (f", delta {rounded_up(delta, 3)}" if delta else "")
        return f"{'' if delta else 'pure '}{kind} differential privacy, {numbers}, for {ALL_REPORTS}"

    def promise(self) -> dict[str, Any]:
        """What a participant is promised, in numbers and words."""
        whole, epsilon = self.whole, self.epsilon
        beyond = exceeded(whole.profile, epsilon) if whole.delta else 0.0
        words = bound_words(epsilon, beyond, SEEN[self.study.model], you=True)
        promised: dict[str, Any] = {"epsilon": epsilon, "delta": whole.delta, "unit": ALL_REPORTS, "words": words}
        if beyond:
            promised["exceeded"] = beyond
        if self.study.shuffled:
            promised["alone"] = {"epsilon": self.alone, "words": self.collusion()}
        return promised

    def collusion(self) -> str:
        """Shuffled studies: whom the promise counts on, and what is left if shuffler and coordinator collude."""
        return f"You are hidden by the other people of your batch: {self.crowd()}. {self._left()}"

    def crowd(self) -> str:
        """Shuffled studies: how many people of a batch may fail the others, and whether anybody knows who they are."""
        shares = self.study.declaration["shuffle"]
        failing = shares["dropouts"] + shares["colluding"]
        who = f"a share of {failing:.4g} of them, and no more," if failing else "none of them"
        seen = "" if self.study.invited else ", and nobody checks who they are"
        return f"{who} may side with the coordinator or fail to randomise{seen}"

    def _left(self) -> str:
        left = self.alone
        if left is None:
            return "If the shuffler and the coordinator act together, nothing of this promise is left."
        odds = f"no outcome becomes more than e^{rounded_up(left)} times as likely"
        weak = ", which protects next to nothing" if left > _WEAK else ""
        return (
            "If the shuffler and the coordinator act together, whatever they ask for, what is left is the randomness "
            f"of your own device, which refuses to send anything that says more: {odds} (local epsilon "
            f"{rounded_up(left)}){weak}."
        )

    def report_kind(self) -> dict[str, Any]:
        """What a device sends, for clients."""
        if self.study.sealed:
            return {"kind": "record"}
        if self.study.shuffled:
            return self.messages.form(self.privatizer.masked) | {"early_end": self.study.early_end}
        return self.channel.form(self.privatizer.masked) | {"epsilon": self.part.epsilon}

    def laws(self, policy: AnyPolicy, users: int) -> list[dict[str, Any]]:
        """How a device randomises under a policy, in a round of so many users: a function of what is public.

        Local studies have a law for each step, or one for questions about successors and one for those about reward
        bits, whatever the round; shuffled ones those of the batch.
        """
        if self.study.shuffled:
            return [{"items": items, "lie": str(lie)} for items, lie in self.terms(policy, users).laws]
        laws = self.channel.laws_of(policy, self.privatizer.masked)
        return [{"items": law.items, "lie": str(law.threshold)} for law in laws]

    @property
    def asks(self) -> bool:
        """Whether devices are asked one question each, about their first visit of a state and action."""
        return isinstance(self.privatizer.channels[0], AskedChannel)

    def questions(self, saved: Mapping[str, NDArray[Any]], policy: AnyPolicy) -> list[int]:
        """How likely each (state, action) is to be asked about in a round with this policy, as whole numbers.

        ``saved`` is the public state of the intake when the round opened, which is entered with the round: every
        coordinator finds the same numbers in it, and finds them again after a restart.
        """
        weights = self.privatizer.resume(SavedIntake(dict(saved), {}), self.study.total).question_weights(policy)
        assert weights is not None
        return list(weights)


def prepare(study: Study, recipe: str | None = None) -> Mechanism:
    """The mechanism of a study; ``recipe`` is what "auto" chose when it was opened."""
    learner = _learner(study)
    privatizer = _privatizer(study, learner, recipe)
    check_shippable(privatizer, study.most_reports, learner.needs)
    if study.shuffled and privatizer.guarantee.model != "shuffle":
        raise Unsupported(
            f"recipe {privatizer.recipe!r} is not one of the shuffle model: name one of that, or declare its own model"
        )
    part = drawn(privatizer.guarantee, simulated=False)
    made = Mechanism(study, privatizer, learner, part, _composed(part, privatizer.recipe, study))
    if study.shuffled:
        made.check_local_epsilon()
    return made


def completed(study: Study) -> Study:
    """The study; a shuffled one that does not say its ``local_epsilon`` with the least that it can have."""
    if not study.shuffled or study.local_epsilon != "":
        return study
    plain = dict(study.declaration)
    promises_nothing = replace(study, declaration={**plain, "shuffle": {**plain["shuffle"], "local_epsilon": "none"}})
    least = prepare(promises_nothing).least_alone
    return replace(study, declaration={**plain, "shuffle": {**plain["shuffle"], "local_epsilon": least}})


def policy_message(policy: AnyPolicy) -> dict[str, Any]:
    """A policy as it is sent to devices."""
    match policy:
        case Policy():
            return {"kind": "deterministic", "actions": policy.actions.tolist()}
        case StochasticPolicy():
            return {"kind": "stochastic", "probabilities": policy.probabilities.tolist()}
    raise Unsupported("mixtures of policies are not served yet: take a learner that deploys one policy at a time")


def policy_from(message: dict[str, Any]) -> AnyPolicy:
    """The policy that a message describes."""
    if message["kind"] == "deterministic":
        return Policy(message["actions"])
    return StochasticPolicy(message["probabilities"])


_LABELLED = ("states", "actions")


def labelled_policy(study: Study, message: str) -> AnyPolicy:
    """The policy of a stored message with the labels that the study declares."""
    problem = study.declaration["problem"]
    states, actions = (tuple(problem[name]) if isinstance(problem[name], list) else None for name in _LABELLED)
    found = policy_from(json.loads(message))
    if isinstance(found, Policy):
        return Policy(found.actions, states, actions)
    return StochasticPolicy(of_kind(StochasticPolicy, found).probabilities, states, actions)


def _learner(study: Study) -> Learner:
    asked = study.declaration["learner"]
    learner = make_learner(asked["name"], **asked["options"])
    check_savable(learner)
    if isinstance(learner, PSRL) and learner.draws > 1:
        raise Unsupported("psrl mixes several policies, which is not served yet: set options = { draws = 1 }")
    return learner


def needs_in_study(learner: Learner) -> frozenset[str]:
    """What a learner needs but for a long first block: rounds have the sizes that the study declares."""
    return learner.needs - {OPENING}


def _privatizer(study: Study, learner: Learner, recipe: str | None) -> Privatizer:
    target = study.target(recipe)
    options = dict(target.options)
    if study.model == "local" and target.recipe in ("auto", _LOCAL):
        return _local_privatizer(study, learner, target)
    if target.recipe == _ITEM:
        target = replace(target, options={"early_end": study.early_end, **options})
    if target.recipe != "auto":
        return build(target, study.shape, study.total, needs_in_study(learner))
    # What says that a record has ended early is an option of this recipe, which "auto" does not set.
    names = {_ITEM} if study.early_end else set()
    served = [each for each in recipes(study.model, TABULAR) if each.name not in names]
    served = [each for each in served if _is_served(each.name, study, learner)]
    if not served:
        raise Unsupported(f"no recipe of the {study.model} model serves this study: name one in [privacy] to see why")
    needs = needs_in_study(learner)
    return choose(served, (), target, study.shape, study.total, needs, _score(needs))


def _local_privatizer(study: Study, learner: Learner, target: Privacy) -> Privatizer:
    """Items of a step, or with "auto" answers about first visits where these can be served and are expected to do more.

    What a device draws by itself, and what says that a record has ended early, are options of the sampled step alone.
    """
    needs, usual = needs_in_study(learner), {"early_end": study.early_end, "own_actions": MIXED in learner.needs}
    sampled, asked = (find(name, study.model) for name in (_LOCAL, _ASKED))
    if target.recipe == "auto" and _is_served(_ASKED, study, learner):
        sampled = replace(sampled, options={**sampled.options, **usual})
        return choose([sampled, asked], (), target, study.shape, study.total, needs, _score(needs))
    named = replace(target, recipe=_LOCAL, options={**usual, **target.options})
    return build(named, study.shape, study.total, needs)


def _score(needs: frozenset[str]) -> Score:
    return partial(expected_regret, needs=needs)


def _is_served(recipe: str, study: Study, learner: Learner) -> bool:
    try:
        made = build(study.target(recipe), study.shape, study.total, needs_in_study(learner))
        check_shippable(made, study.most_reports, learner.needs)
        _composed(made.guarantee, made.recipe, study)
    except DiscreetError:
        return False
    return True


def _composed(part: Guarantee, recipe: str, study: Study) -> Guarantee:
    r = study.most_reports
    if r > 1 and study.shuffled:
        raise Unsupported(
            f"what {r} reports of one participant cost behind a shuffler has not been worked out: set reports_per_user "
            "= 1, or take the local or the central model"
        )
    why = f"a participant reports in at most {r} rounds, which all have the same guarantee"
    try:
        whole = compose([part] * r, delta=study.declaration["privacy"]["delta"], why=why)
    except DiscreetError:
        raise Unsupported(
            f"what {r} reports of one participant cost under recipe {recipe!r} has not been worked out: take one with "
            "blocks of one law, such as 'central/first-visit-gaussian', or reports_per_user = 1"
        ) from None
    return about(drawn(whole, simulated=False), unit=reports_of(r))
