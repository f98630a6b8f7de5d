"""A privatizer: channels over the same users, the session that answers requests, and nothing that leaks.

``Privatizer`` is frozen data: what is released, with which noise, under which guarantee. Two objects put it to work:

* ``Intake`` takes: it says what the next users are to be encoded with, is handed the sums of their encodings, adds
  noise and releases. It asks nobody for data, so a service can feed it with what has arrived. In the local and shuffle
  models (``collect``) it is handed messages that devices have randomised, and adds nothing.
* ``Session`` pulls: it answers a request by letting users act, and feeds an intake with their tallies.

Both see raw tallies on their way to a release only, and never a record. An intake can be saved after each release and
resumed in another process (:mod:`discreet.mechanisms.saved_intakes`): everything after is bit for bit as it would have
been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.notebook import counted, one_line
from discreet.base.policies import MIXED, AnyPolicy, Policy
from discreet.base.saved_arrays import Savable, Saved, check_form, taken_from, under
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers, NDArray
from discreet.mechanisms.continual import ContinualChannel
from discreet.mechanisms.counts.encoder import Context, Encoder, check_tally
from discreet.mechanisms.mechanism import AnyChannel, MessageChannel, MessageRun, WidthOf
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.device_reports import count_items
from discreet.mechanisms.messages.shuffled_item import ItemRun
from discreet.mechanisms.messages.survey import Report, Survey, SurveyRun
from discreet.mechanisms.moved import moved_by, moved_in
from discreet.mechanisms.release import (
    ESTIMATES,
    LAYERS,
    OPENING,
    SERVED_BY,
    WEIGHS,
    Estimate,
    Layer,
    Linear,
    MixedBlocks,
    Release,
    Request,
)
from discreet.mechanisms.saved_intakes import SavedIntake, identity, load_books, save_books
from discreet.mechanisms.schedule import (
    EveryEpisode,
    OpeningThenEqual,
    OpeningThenGrowing,
    PerPolicy,
    SameUsers,
    Schedule,
)
from discreet.mechanisms.sums.accumulator import DeviceNoise, NoiseSource
from discreet.mechanisms.sums.tree import EqualLawTree, EvenTree, Tree
from discreet.mechanisms.trajectories import Users
from discreet.privacy.guarantee import Guarantee, drawn


@runtime_checkable
class Accumulated(Protocol):
    """A channel that has an accumulator."""

    @property
    def accumulator(self) -> Any:
        """How its tallies become releases."""


@dataclass(frozen=True)
class Privatizer:
    """What leaves, with which noise, under which guarantee. ``masked``: known zeros carry no noise."""

    recipe: str
    shape: Shape
    channels: tuple[AnyChannel, ...]
    schedule: Schedule
    guarantee: Guarantee
    masked: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    users: int | None = None  # for how many it was built; None where nothing depends on their number

    def __post_init__(self) -> None:
        times = Counter(name for channel in self.channels for name in channel.encoder.statistics)
        twice = sorted(name for name, channels in times.items() if channels > 1)
        if twice:
            raise Unsupported(
                f"recipe {self.recipe!r} has several channels that release {', '.join(twice)}, and a release has one "
                "estimate of each statistic: leave one channel to each"
            )
        if isinstance(self.schedule, SameUsers) and any(channel.answers != {Linear} for channel in self.channels):
            raise Unsupported(
                f"recipe {self.recipe!r} would ask the same users again, which only channels do that count the "
                "questions of their budget: give every user one block"
            )

    def __repr__(self) -> str:
        return one_line("Privatizer", self.recipe, counted(len(self.channels), "channel"), self.guarantee.brief())

    @property
    def parts(self) -> tuple[object, ...]:
        """All that its guarantee depends on."""
        return (self.shape, self.schedule, self.masked, *self.channels)

    def check_unchanged(self) -> None:
        """Refuse a guarantee that was computed for other parts, and noise or moves that it was not computed from."""
        now, then = self.parts, self.guarantee.parts or self.parts  # none: put together by hand, beside the guarantee
        if len(now) != len(then) or any(part is not before for part, before in zip(now, then)):
            raise Unsupported(
                f"the channels, schedule, mask, shape or guarantee of recipe {self.recipe!r} were changed after its "
                "guarantee was computed, so what it promises is not known: build it anew with the options you want"
            )
        if self.guarantee.model == "none":
            return
        stated = moved_by(self.guarantee.derivation)
        for law, moved in moved_in(self.channels).items():
            if not moved.within(stated.get(law)):
                raise Unsupported(
                    f"the guarantee of recipe {self.recipe!r} is not about its noise, {law.kind}, and what one user "
                    "moves under it: build it by the rules of discreet.privacy.guarantee from the laws and the "
                    "sensitivities that its channels have"
                )

    @property
    def opening(self) -> int:
        """How many users its long first block has, in which learners act at random; zero if it has none."""
        return self.schedule.opening if isinstance(self.schedule, OpeningThenEqual | OpeningThenGrowing) else 0

    @property
    def mixing(self) -> MixedBlocks | None:
        """How all of its channels mix blocks; None where they do not say, or do not agree."""
        first = self.channels[0].mixing
        return first if all(channel.mixing is first for channel in self.channels) else None

    @property
    def statistics(self) -> frozenset[str]:
        """The statistics that a release has."""
        return frozenset().union(*(channel.encoder.statistics for channel in self.channels))

    def check(self, needs: frozenset[str]) -> None:
        """Refuse a learner that needs what this recipe does not release, or policies that it does not serve."""
        released = self.statistics
        unserved = needs - released - {MIXED, ESTIMATES, LAYERS, WEIGHS, OPENING}
        missing = {need for need in unserved if SERVED_BY.get(need) not in released}
        if missing:
            raise Unsupported(
                f"recipe {self.recipe!r} does not release {', '.join(sorted(missing))}, which the learner needs"
            )
        if MIXED in needs and not all(channel.mixes for channel in self.channels):
            raise Unsupported(
                f"recipe {self.recipe!r} serves policies that say one action for everybody, and this learner mixes "
                "actions: take another recipe"
            )

    def check_users(self, total_users: int) -> None:
        """Refuse more users than it was built for, or more than a release after every one of them was paid for."""
        accumulators = (channel.accumulator for channel in self.channels if isinstance(channel, Accumulated))
        trees = (tree.users for tree in accumulators if isinstance(tree, Tree | EqualLawTree | EvenTree))
        every = trees if isinstance(self.schedule, EveryEpisode) else ()
        built = min((users for users in (self.users, *every) if users is not None), default=total_users)
        if total_users > built:
            raise Unsupported(
                f"recipe {self.recipe!r} was built for {built:,} users and would be opened for {total_users:,}: build "
                "it for all of them, so that its noise and its guarantee are for all of them"
            )

    def take_in(self, noise: NoiseSource, total_users: int) -> Intake:
        """Start taking in tallies of users, whoever brings them."""
        return Intake(self, noise, total_users)

    def collect(self, total_users: int) -> Intake:
        """Start collecting messages that devices have randomised, one by one or shuffled: no noise is drawn here."""
        return Intake(self, DeviceNoise(), total_users)

    def resume(self, saved: SavedIntake, total_users: int, noise: NoiseSource | None = None) -> Intake:
        """An intake that goes on where a saved one stood; without ``noise`` one that collects what devices send."""
        intake = self.collect(total_users) if noise is None else self.take_in(noise, total_users)
        intake.load(saved)
        return intake

    def open(self, users: Users, noise: NoiseSource, total_users: int) -> Session:
        """Start answering requests about these users."""
        return Session(self, users, noise, total_users)


class Intake:
    """Takes in tallies, adds noise, releases. ``served`` users of ``total_users`` have been counted so far."""

    def __init__(self, privatizer: Privatizer, noise: NoiseSource, total_users: int) -> None:
        privatizer.check_users(total_users)
        if not noise.simulated:
            privatizer.check_unchanged()
        if isinstance(noise, DeviceNoise):
            _check_collected(privatizer)
        elif not noise.simulated and privatizer.guarantee.model in ("local", "shuffle"):
            raise Unsupported(
                f"recipe {privatizer.recipe!r} promises privacy in the {privatizer.guarantee.model} model, where nobody"
                " holds sums of what users did: real noise is drawn on their devices, and this is for simulation"
            )
        self.privatizer, self.total_users, self.served = privatizer, total_users, 0
        self._collects, self._real = isinstance(noise, DeviceNoise), not noise.simulated
        same = privatizer.guarantee.simulated == noise.simulated
        self._guarantee = privatizer.guarantee if same else drawn(privatizer.guarantee, noise.simulated)
        self._followed: Counter[AnyPolicy] = Counter()  # users of each policy so far, where blocks depend on that
        self._runs = [channel.start(privatizer.shape, noise, privatizer.masked) for channel in privatizer.channels]

    @property
    def left(self) -> int:
        """How many users have not been counted yet."""
        return self.total_users - self.served

    def users_for(self, request: Request) -> int:
        """How many users answer this request: as many as it asks for, or as the schedule has next."""
        self._check_served(request.what)
        users = request.users or self.next_block(request.policy)
        self._check_left(users)
        return users

    def next_block(self, policy: AnyPolicy) -> int:
        """How many users the schedule has next, if they follow this policy."""
        schedule = self.privatizer.schedule
        if isinstance(schedule, PerPolicy) and schedule.mixed is not None and not isinstance(policy, Policy):
            return schedule.mixed.next_block(self.served, self.total_users)
        if isinstance(schedule, PerPolicy):
            return schedule.next_block_of(self._followed[policy], self.left)
        return schedule.next_block(self.served, self.total_users)

    def encoders(self, context: Context) -> list[Encoder]:
        """What the next users are to be encoded with, one encoder for each channel."""
        return [run.encoder_now(context) for run in self._runs]

    def take(self, tallies: Sequence[Floats], users: int, context: Context) -> Release:
        """Take in the sums of the encodings of ``users`` users, one for each channel, and release.

        All of them must have acted under the context's policy and been encoded by :meth:`encoders`, asked after the
        last release: that is what their noise and the guarantee are for.
        """
        if len(tallies) != len(self._runs):
            raise InvalidInput(
                f"{len(tallies)} tallies were brought for {len(self._runs)} channels: bring one for each"
            )
        self._check_served(context.what)
        self._check_left(users)
        if self._real:
            for run, tally in zip(self._runs, tallies, strict=True):
                check_tally(run.encoder_now(context), np.asarray(tally), users)
        for run, tally in zip(self._runs, tallies, strict=True):
            run.add(tally, users, context)
        self._book(context.policy, users)
        return self.release_now()

    def receive(self, groups: Iterable[tuple[AnyPolicy, Sequence[Sequence[Report]]]]) -> Release:
        """Take in messages of devices, and release: for each policy the messages of those who acted under it.

        Several policies at once are for messages that come late: they count under the policy that they name. Messages
        are all checked before any of them counts.
        """
        counted = []
        for policy, messages in groups:
            counts, asked = self._collecting().channel.count(policy, messages, masked=self.privatizer.masked)
            counted.append((policy, len(messages), counts, asked))
        self._check_left(sum(users for _policy, users, _counts, _asked in counted))
        for policy, users, counts, asked in counted:
            if users:
                self._collecting().add_reports(counts, asked, users, Context(policy))
                self._book(policy, users)
        return self.release_now()

    def receive_messages(self, counts: Integers, users: int, policy: AnyPolicy) -> Release:
        """Take in the messages of a shuffled batch of users who acted under one policy, and release.

        ``counts[v]`` of the readable messages said v. The batch has the size that its devices randomised for.
        """
        (run,) = self._runs
        if not self._collects or not isinstance(run, MessageRun):
            raise Unsupported("batches are received where devices add the noise: open the intake with collect")
        self._check_left(users)
        run.add_messages(counts, users, Context(policy))
        self._book(policy, users)
        return self.release_now()

    def receive_batch(self, policy: AnyPolicy, messages: Sequence[int], planned: int) -> Release:
        """Take in the messages of one batch as a shuffler hands them on, one item each, and release.

        ``planned`` is the size of the batch that devices were told: their law is the one for that size, and a batch of
        which more than the declared share is missing is refused.
        """
        run = self._runs[0]
        if not self._collects or not isinstance(run, ItemRun):
            raise Unsupported("batches of items are received where devices send one each: open the intake with collect")
        sent = count_items(run.channel, policy, messages, masked=self.privatizer.masked)
        self._check_left(len(messages))
        needed = run.channel.present(planned)
        if len(messages) < needed:
            raise Unsupported(
                f"{len(messages)} messages are too few of a batch of {planned}, whose promise counts on {needed}: "
                "discard them, and declare more dropouts or smaller batches"
            )
        run.add_batch(sent, len(messages), policy, planned=planned)
        self._book(policy, len(messages))
        return self.release_now()

    def question_weights(self, policy: AnyPolicy) -> tuple[int, ...] | None:
        """How likely each (state, action) is to be asked about next; None where nobody is asked such questions."""
        run = self._runs[0]
        return run.weights(policy) if isinstance(run, SurveyRun) else None

    def _collecting(self) -> SurveyRun:
        run = self._runs[0]
        if not self._collects or not isinstance(run, SurveyRun):
            raise Unsupported("messages are received where devices add the noise: open the intake with collect")
        return run

    def _book(self, policy: AnyPolicy, users: int) -> None:
        self.served += users
        if isinstance(self.privatizer.schedule, PerPolicy):
            self._followed[policy] += users

    def save(self) -> SavedIntake:
        """All that the next process needs, public and secret apart; to be called after a release."""
        saved = save_books(self._mechanism, self.served, self._followed)
        for number, run in enumerate(self._savable()):
            state = under(f"channel{number}", run.save())
            saved = Saved(saved.public | state.public, saved.secret | state.secret)
        return saved

    def load(self, saved: SavedIntake) -> None:
        """Go on where a saved intake of the same mechanism stood; refused for any other."""
        served, followed = load_books(saved, self._mechanism, self.total_users)
        states = [taken_from(f"channel{number}", saved) for number in range(len(self._runs))]
        runs, parts = self._savable(), sum(len(part) for state in states for part in state)
        books = sum(name.startswith("books.") for name in saved.public)
        if parts + books != len(saved.public) + len(saved.secret):
            raise InvalidInput("the saved state has parts that no channel knows: restore it from a whole copy")
        for run, state in zip(runs, states, strict=True):
            check_form(run.save(), state)
        for run, state in zip(runs, states, strict=True):
            run.load(state)
        self.served, self._followed = served, followed

    @cached_property
    def _mechanism(self) -> NDArray[Any]:
        return identity(self.privatizer, self.total_users)

    def _savable(self) -> list[Savable]:
        runs: list[Savable] = [run for run in self._runs if isinstance(run, Savable)]
        if len(runs) < len(self._runs):
            raise Unsupported(
                f"recipe {self.privatizer.recipe!r} is for simulation: its state cannot be saved between releases"
            )
        return runs

    def _check_served(self, what: object) -> None:
        kind = type(what)
        # Where nothing is promised, whole tables answer who asked for one step of them.
        if what is None or (kind is Layer and self.privatizer.guarantee.model == "none"):
            return
        if not all(kind in channel.answers for channel in self.privatizer.channels):
            remedy = ": let the learner ask for whole tables (one_layer=False, or --option one_layer=false)"
            raise Unsupported(
                f"recipe {self.privatizer.recipe!r} answers whole tables only, not a {kind.__name__} request"
                + (remedy if kind is Layer else "")
            )

    def _check_left(self, users: int) -> None:
        if isinstance(self.privatizer.schedule, SameUsers):
            self.served = 0  # another question about the same users
        if users > self.left:
            raise Unsupported(f"a request for {users} users with {self.left} left")

    def release_now(self) -> Release:
        """What has been released so far, again: a function of the state, which draws no noise."""
        statistics: dict[str, Estimate] = {}
        public: dict[str, Floats] = {}
        widths = [run.width_now() for run in self._runs]
        widths_of: dict[str, WidthOf] = {}
        for run, width in zip(self._runs, widths, strict=True):
            estimates = run.estimates()
            statistics |= estimates
            widths_of |= dict.fromkeys(estimates, width)
            public |= run.public
        return Release(
            statistics,
            self.served,
            self._guarantee,
            widths[0],
            public=public,
            radius_of=self._runs[0].radius_now() if len(self._runs) == 1 else None,
            widths_of=widths_of,
            noise_lasts=all(isinstance(channel, ContinualChannel) for channel in self.privatizer.channels),
            mixing=self.privatizer.mixing,
            answers=all(isinstance(channel, AskedChannel) for channel in self.privatizer.channels),
            first_visits=any("first-visit" in channel.encoder.name for channel in self.privatizer.channels),
        )


def _check_collected(privatizer: Privatizer) -> None:
    """Refuse to collect messages that no device makes yet."""
    if privatizer.guarantee.model == "shuffle":
        if len(privatizer.channels) == 1 and isinstance(privatizer.channels[0], MessageChannel):
            privatizer.channels[0].form(privatizer.masked)
            return
        raise Unsupported(
            f"recipe {privatizer.recipe!r} has no messages that a device randomises by itself: take "
            "'shuffle/sampled-item' or one of the recipes 'shuffle/...-randomised-response'"
        )
    (channel, *others) = privatizer.channels
    if privatizer.guarantee.model != "local" or others or not isinstance(channel, Survey):
        raise Unsupported(
            f"recipe {privatizer.recipe!r} has no messages that a device randomises by itself: take the recipe "
            "'local/asked-first-visit' or 'local/sampled-step', or take_in where a trusted curator adds the noise"
        )


class Session:
    """Answers requests: hands the policy to the users, and what they leave behind to an intake."""

    def __init__(self, privatizer: Privatizer, users: Users, noise: NoiseSource, total_users: int) -> None:
        self._users, self._intake = users, privatizer.take_in(noise, total_users)

    @property
    def privatizer(self) -> Privatizer:
        """What is released, and under which guarantee."""
        return self._intake.privatizer

    @property
    def total_users(self) -> int:
        """How many users there are in all."""
        return self._intake.total_users

    @property
    def served(self) -> int:
        """How many users have been asked."""
        return self._intake.served

    @property
    def left(self) -> int:
        """How many users have not been asked yet."""
        return self._intake.left

    def answer(self, request: Request) -> Release:
        """Let users act under the request's policy and release what they leave behind."""
        users = self._intake.users_for(request)
        context = Context(request.policy, request.what)
        tallies = self._users.tally(self._intake.encoders(context), context, users)
        return self._intake.take(tallies, users, context)


def unnamed(
    shape: Shape, channels: tuple[AnyChannel, ...], schedule: Schedule, guarantee: Guarantee, masked: bool,
    options: Mapping[str, Any],
) -> Privatizer:  # fmt: skip
    """A privatizer that will be named by the recipe which assembles it."""
    return Privatizer("", shape, channels, schedule, guarantee, masked, options)
