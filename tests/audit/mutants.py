"""Mutants: mechanisms that were broken on purpose, one mistake each, and what convicts each of them.

This list is the one place where they stand: ``test_mutants.py`` makes every mistake in the running process and expects
the verdict that is written here, ``source_mutants.py`` makes the few that need the source edited, and the page
docs/mutants.md is printed from it (``python tests/audit/mutants.py --write``).

A mistake is either a ``patch`` of methods, made before the privatizer is built, or a ``change`` of the privatizer that
was built (a field of frozen data replaced under an unchanged guarantee).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from on_trial import LAYERS, POOLED, SMALL, TAILS

from discreet.audit import answers, samplers
from discreet.audit.goodness_of_fit import quieter
from discreet.base.shape import Shape
from discreet.mechanisms import continual, focused, session, shuffled, sparse
from discreet.mechanisms.additive import AdditiveRun
from discreet.mechanisms.counts.first_visit import FirstVisit
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.messages import asked_first_visit, sampled_item, shuffled_item
from discreet.mechanisms.messages.answered_bits import ResponseChannel, ResponseRun
from discreet.mechanisms.messages.device_reports import true_answer
from discreet.mechanisms.messages.survey import Report
from discreet.mechanisms.moments import linear_statistics as linear
from discreet.mechanisms.sums import blocks, tree
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.sums.matrix import Matrix
from discreet.noise import (
    BinomialNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    GridGaussian,
    KaryRandomizedResponse,
    RandomizedResponse,
    UnaryEncoding,
)
from discreet.noise.knorm import DiscreteKNorm
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LayeredTransitions, LossTable
from discreet.problems.adversarial.mechanisms import OneBitChannel, SampledLayerChannel, SampledLayerRun
from discreet.problems.heavy_tails.mechanisms import ClippedRewardsRun, RisingThresholds

COUPLING, SAMPLERS, LIKELIHOOD = "coupling", "samplers", "likelihood"


@dataclass(frozen=True)
class Mutant:
    """One mistake, the recipe that it ruins, and the stage of the audit that convicts."""

    what: str
    recipe: str
    stage: str
    patch: Callable[[Any], None] = lambda patch: None
    change: Callable[[Any], Any] = lambda privatizer: privatizer
    shape: Shape = SMALL
    options: tuple[tuple[str, Any], ...] = ()
    delta: float | None = None


class Silent:
    """A source that draws nothing."""

    simulated = True

    def __init__(self, noise=None):
        self.generator = None if noise is None else noise.generator

    def draw(self, law, copies, size):
        return np.zeros(size)


def method(owner, name, make):
    """Replace a method by one that is made from it."""
    return lambda patch: patch.setattr(owner, name, make(getattr(owner, name)))


def returns(owner, name, value):
    """A method or property that always gives this value."""
    return lambda patch: patch.setattr(owner, name, value)


def silenced(owner):
    """A run whose source of noise is silent."""

    def make(honest):
        def begin(self, *arguments, **named):
            honest(self, *arguments, **named)
            self._noise = Silent(self._noise)

        return begin

    return method(owner, "__init__", make)


def law_at(share):
    """Every law of the privatizer at this share of its scale."""

    def change(privatizer):
        return replace(privatizer, channels=tuple(_quiet(channel, share) for channel in privatizer.channels))

    return change


def _quiet(channel, share):
    if isinstance(channel, focused.FocusedChannel):
        return replace(channel, laws=tuple(quieter(law, share) for law in channel.laws))
    answering = sampled_item.ReportChannel | asked_first_visit.AskedChannel
    if isinstance(channel, OneBitChannel | SampledLayerChannel | answering):
        return replace(channel, epsilon=channel.epsilon / share)
    if isinstance(channel, linear.LinearChannel):
        laws = tuple((quieter_matrix(on, share), quieter(off, share)) for on, off in channel.laws)
        return replace(channel, laws=laws)
    if isinstance(channel, sparse.SparseChannel):
        return replace(channel, law=replace(channel.law, scale=channel.law.scale * share))
    return replace(channel, law=quieter(channel.law, share))


def quieter_matrix(law, share):
    return DiscreteSymmetricGaussianMatrix(law.dimension, law.off_diagonal * share**2)


def less(share):
    """Norms of a move that are too small by this factor; the move of one cell stays, for a fraction is refused."""

    def make(honest):
        def sensitivity(self, *arguments):
            own = honest(self, *arguments)
            return Sensitivity(share * own.l1, share * own.l2, own.linf)

        return sensitivity

    return make


def _twice(honest):
    def take(self, tallies, users, context):
        for run, tally in zip(self._runs, tallies, strict=True):
            run.add(tally, users, context)
        return honest(self, tallies, users, context)

    return take


def _doubled(honest):
    return lambda self, tallies, users, context: honest(self, [2 * tally for tally in tallies], users, context)


def _own_sum(values):
    """A block's sum made otherwise: ``values(run, tally, where, draw)`` is what is added to the cells asked about."""

    def make(honest):
        def add(self, tally, users, rows, cells):
            where = np.flatnonzero(cells)
            copies = users if self._per_user else 1

            def draw():
                return self._noise.draw(self._law, copies, len(where))

            self.values[where] += values(self, tally, where, draw)
            self.copies += rows * copies

        return add

    return method(blocks.SumRun, "add", make)


def _reused(run, tally, where, draw):
    if not hasattr(run, "kept"):
        run.kept = draw()
    return tally[where] + run.kept


def _taken_back(run, tally, where, draw):
    before = getattr(run, "kept", 0.0)
    run.kept = draw()
    return tally[where] + run.kept - before


def _half_of_the_cells(run, tally, where, draw):
    noise = draw()
    noise[: len(noise) // 2] = 0.0
    return tally[where] + noise


def _shared(run, tally, where, draw):
    return tally[where] + draw()[0]


def _where_somebody_was(honest):
    def add(self, tally, users, rows, cells):
        honest(self, tally, users, rows, cells & (tally > 0))

    return add


def _unmasked_data(honest):
    def add(self, tally, users, rows, cells):
        honest(self, tally, users, rows, cells)
        self.values[~cells] += tally[~cells]

    return add


def _tree_skips(honest):
    def add(self, tally, users, rows, cells):
        if tally.any():
            honest(self, tally, users, rows, cells)

    return add


def _tree_every_other(honest):
    def add(self, tally, users, rows, cells):
        source = self._noise
        self._noise = source if self._time % 2 else Silent(source)
        honest(self, tally, users, rows, cells)
        self._noise = source

    return add


def _focused_by_data(honest):
    def add(self, tally, users, context):
        seen = self._channel.encoder.marginals(tally)["visits"].values > 0
        wanted = self.wanted
        self.wanted = lambda context, users: wanted(context, users) & seen
        honest(self, tally, users, context)
        del self.wanted

    return add


def _raw_added(honest):
    def add(self, tally, users, context):
        honest(self, tally, users, context)
        self._values = self._values + tally

    return add


def _leaks_variance(honest):
    def add(self, tally, users, context):
        honest(self, tally, users, context)
        self.secret = float(tally[0] + 2 * tally[-1])

    def estimates(self):
        found = self.honest_estimates()
        return {name: one._replace(variance=one.variance + self.secret) for name, one in found.items()}

    def patch(monkeypatch):
        monkeypatch.setattr(AdditiveRun, "honest_estimates", AdditiveRun.estimates, raising=False)
        monkeypatch.setattr(AdditiveRun, "add", add)
        monkeypatch.setattr(AdditiveRun, "estimates", estimates)

    return patch


def _raw_thresholds(patch):
    honest = ClippedRewardsRun.add

    def add(self, tally, users, context):
        self.raw = getattr(self, "raw", 0.0) + self._channel.encoder.marginals(tally)["visits"].values.reshape(-1)
        honest(self, tally, users, context)

    see = RisingThresholds.see
    patch.setattr(ClippedRewardsRun, "add", add)
    patch.setattr(ClippedRewardsRun, "_visits", lambda self: 8.0 * self.raw)
    patch.setattr(RisingThresholds, "see", see)


def _one_copy_for_all(honest):
    def noise_of_each(self, users):
        source = self._noise

        class Once(SimulatedNoise):
            def draw(self, law, copies, size):
                return source.draw(law, 1, size)

        self._noise = Once(source.generator)
        honest(self, users)
        self._noise = source

    return noise_of_each


def _layer_where_she_was(honest):
    def add(self, tally, users, context):
        run, cells = self._run, self._channel.encoder.rows_to_cells
        add = run.add
        run.add = lambda tally, users, rows, where: add(tally, users, rows, where & (tally > 0))
        honest(self, tally, users, context)
        assert cells is not None

    return add


def _sparse_all(keys, counts, law, noise):
    order = np.argsort(keys[counts > 0])
    noisy = counts[counts > 0][order] + noise.draw(law.noise, 1, len(order))
    return keys[counts > 0][order], np.maximum(noisy, 0.0)


def _sparse_silent(keys, counts, law, noise):
    return keys[counts >= law.threshold], counts[counts >= law.threshold]


def _sparse_true_counts(keys, counts, law, noise):
    keys, counts = keys[counts > 0], counts[counts > 0]
    kept = counts + noise.draw(law.noise, 1, len(keys)) >= law.threshold
    return keys[kept], counts[kept]


def _fitted_for_twice(honest):
    return lambda self, users, what=None: honest(self, 2 * users, what)


def _secretly(value):
    return lambda honest: lambda self, *arguments: value(self, honest, *arguments)


def _no_draws(self, size):
    return np.zeros(size, np.int64)


def _repeats(honest):
    kept = {}
    return lambda self, law, copies, size: kept.setdefault((law, copies, size), honest(self, law, copies, size)).copy()


def _rare_lies(self, values, words):
    true = np.arange(self.items) == values[..., None]
    return (words < np.where(true, np.uint64(1 << 61), np.uint64(self._lie // 2))).astype(np.int64)


def _low_threshold(privatizer):
    (channel,) = privatizer.channels
    return replace(
        privatizer, channels=(replace(channel, law=replace(channel.law, threshold=channel.law.threshold - 6)),)
    )


def _pairs_of_cells(self, honest, size):
    return np.repeat(honest(self, size // 2 + 1), 2)[:size]


def _mixes_silently(honest):
    return lambda self, matrix, law, size, noise: honest(self, matrix, law, size, Silent(noise))


def device(owner, says):
    """A device that says otherwise: ``says(honest, channel, record, question, generator, truth)``, truth in clear."""

    def make(honest):
        def answer(channel, record, question, generator=None):
            truth = true_answer(channel, record, question, np.array([0], np.uint64))
            return says(honest, channel, record, question, generator, truth)

        return answer

    return method(owner, "randomize_answer", make)


def _none_in_clear(honest, channel, record, question, generator, truth):
    none = channel.law_of(question % 2).items - 1
    return Report(question, np.array([none])) if truth == none else honest(channel, record, question, generator)


def _silent_if_none(honest, channel, record, question, generator, truth):
    there = truth < channel.law_of(question % 2).items - 1
    return honest(channel, record, question, generator) if there else None


def _rather_true(honest, channel, record, question, generator, truth):
    return honest(replace(channel, epsilon=channel.epsilon + 0.05), record, question, generator)


def _where_she_was(honest, channel, record, question, generator, truth):
    row = int(record.states[0, 0]) * channel.encoder.shape.actions + int(record.actions[0, 0])
    asked = 2 * row + question % 2 if record.lengths[0] else question
    return honest(channel, record, asked, generator)


def _both_questions(honest, channel, record, question, generator, truth):
    return [honest(channel, record, asked, generator) for asked in (question, question ^ 1)]


class _LoudBits(asked_first_visit.AskedChannel):
    """Reward bits with half an epsilon more than is stated."""

    def law_of(self, question):
        return super().law_of(question) if question == 0 else KaryRandomizedResponse(self.epsilon + 0.5, 3)


def _loud_bits(privatizer):
    ((encoder, epsilon, response),) = ((one.encoder, one.epsilon, one.response) for one in privatizer.channels)
    return replace(privatizer, channels=(_LoudBits(encoder, epsilon, response),))


def _only_of_visitors(honest):
    def drawn(channel, truths, asked, generator):
        encoder = channel.encoder
        there = np.stack([encoder.successors(truths).sum(axis=0), encoder.bits(truths).sum(axis=0)], axis=1)
        return honest(channel, truths, there, generator)

    return drawn


def _more_of_the_last(honest):
    return lambda self: honest(replace(self, weights=tuple(range(1, self.rows + 1))))


LAPLACE, GAUSSIAN = "central/joint-histogram-laplace", "central/joint-histogram-gaussian"
FIRST, TABLES = "central/first-visit-laplace", "central/three-tables-laplace"
LOCAL, STEP = "local/joint-histogram-laplace", "local/sampled-step"
ASKED = "local/asked-first-visit"
TREE = "central/three-tables-laplace-tree"
FOCUSED, MATRIX = "central/focused-first-visit-laplace", "central/first-visit-matrix"
LOSSES, BITS = "central/loss-tables", "shuffle/joint-histogram-binomial"
ANSWERED = "shuffle/joint-histogram-randomised-response"
ITEM = "shuffle/sampled-item"
KARY, UNARY = (("response", "kary"),), (("response", "unary"),)

MUTANTS = (
    # Noise that is missing, or not what it was.
    Mutant("a block's sum gets no noise", LAPLACE, COUPLING, silenced(blocks.SumRun)),
    Mutant("a user's message gets no noise", LOCAL, COUPLING, silenced(blocks.SumRun)),
    Mutant("a focused block gets no noise", FOCUSED, COUPLING, silenced(focused.FocusedRun), shape=POOLED),
    Mutant(
        "the matrix mechanism publishes without noise", MATRIX, COUPLING,
        method(continual._Mixed, "__init__", _mixes_silently), shape=POOLED,
    ),
    Mutant("a tree draws no noise", TREE, COUPLING, silenced(tree.TreeRun)),
    Mutant("a tree draws noise for every other node", TREE, COUPLING, method(tree.TreeRun, "add", _tree_every_other)),
    Mutant("a heavy-tailed tree draws no noise", "central/heavy-tailed", COUPLING, silenced(ClippedRewardsRun),
           shape=TAILS),
    Mutant("shuffled bits carry no noise", BITS, COUPLING, silenced(shuffled.ShuffledRun)),
    Mutant(
        "noise is halved after it was drawn", LAPLACE, COUPLING,
        _own_sum(lambda run, tally, where, draw: tally[where] + draw() / 2),
    ),
    Mutant("the second block reuses the noise of the first", LAPLACE, COUPLING, _own_sum(_reused)),
    Mutant("a block takes the noise of the last one back", LAPLACE, COUPLING, _own_sum(_taken_back)),
    Mutant("all cells share one draw", LAPLACE, COUPLING, _own_sum(_shared)),
    Mutant("half of the cells get no noise", TABLES, COUPLING, _own_sum(_half_of_the_cells)),
    Mutant("noise is drawn only where somebody was", LAPLACE, COUPLING,
           method(blocks.SumRun, "add", _where_somebody_was)),
    Mutant(
        "one draw for a block in the local model", LOCAL, COUPLING,
        returns(
            blocks.Total, "start",
            lambda self, size, rows, law, noise: blocks.SumRun(size, rows, law, noise, False),
        ),
    ),
    Mutant(
        "one draw for a block of heavy-tailed messages", "local/heavy-tailed", COUPLING,
        method(ClippedRewardsRun, "_noise_of_each", _one_copy_for_all), shape=TAILS,
    ),
    # Data that are counted too often, or leave as they are.
    Mutant("every block is added twice", LAPLACE, COUPLING, method(session.Intake, "take", _twice)),
    Mutant("every tally is doubled before its noise", GAUSSIAN, COUPLING, method(session.Intake, "take", _doubled)),
    Mutant("users who defy the policy leave clear counts", LAPLACE, COUPLING,
           method(blocks.SumRun, "add", _unmasked_data)),
    Mutant("the stated variance tells what was counted", LAPLACE, COUPLING, _leaks_variance(AdditiveRun.add)),
    Mutant("the matrix releases raw counts beside the noisy ones", MATRIX, COUPLING,
           method(continual.ContinualRun, "add", _raw_added), shape=POOLED),
    Mutant("a tree's clock stands still for empty records", TREE, COUPLING, method(tree.TreeRun, "add", _tree_skips)),
    Mutant("a focused block asks about rows that were visited", FOCUSED, COUPLING,
           method(focused.FocusedRun, "add", _focused_by_data), shape=POOLED),
    Mutant("thresholds follow raw counts", "central/heavy-tailed", COUPLING, _raw_thresholds, shape=TAILS,
           options=(("thresholds", "released"),)),
    Mutant("a sampled layer has noise only where she was", "local/observed-losses", COUPLING,
           method(SampledLayerRun, "add", _layer_where_she_was), shape=LAYERS),
    # Sensitivities, levels and scales that are off.
    Mutant("the joint histogram's sensitivity is 10% too small", LAPLACE, COUPLING,
           method(JointHistogram, "sensitivity", less(0.9))),
    Mutant("the joint histogram's sensitivity is 10% too small, Gaussian noise", GAUSSIAN, COUPLING,
           method(JointHistogram, "sensitivity", less(0.9))),
    Mutant("first visits are taken to move up only", FIRST, COUPLING, method(
        FirstVisit, "sensitivity", lambda honest: lambda self: Sensitivity.unit_shifts(honest(self).cells // 2, 0)),
        shape=POOLED),
    Mutant("three tables are taken to have no rewards", TABLES, COUPLING, method(
        ThreeTables, "sensitivity", lambda honest: lambda self: Sensitivity.unit_shifts(3, 3))),
    Mutant("a tree is taken to have one level less", TREE, COUPLING,
           returns(tree.Tree, "levels", property(lambda self: self.users.bit_length() - 1))),
    Mutant("the column norm of the matrix is forgotten", MATRIX, COUPLING,
           returns(Matrix, "column_norm", property(lambda self: 1.0)), shape=POOLED),
    Mutant("a loss table is taken to move one entry less", "central/loss-tables-gaussian", COUPLING, method(
        LossTable, "sensitivity", lambda honest: lambda self: Sensitivity.unit_shifts(self.size - 2, 0)), shape=LAYERS),
    Mutant("transitions of layers are taken not to move", LOSSES, COUPLING, method(
        LayeredTransitions, "sensitivity", lambda honest: lambda self: Sensitivity.unit_shifts(1, 0)), shape=LAYERS,
        options=(("split", 0.5),)),
    Mutant("tables in a tree are noised as if shown half as often", LOSSES, COUPLING, change=law_at(0.5), shape=LAYERS,
           options=(("accumulator", "tree"), ("blocks", None), ("losses", "k-norm"))),
    Mutant("the law has 0.9 of its scale", LAPLACE, COUPLING, change=law_at(0.9)),
    Mutant("the law has 0.9 of its scale, Gaussian noise", GAUSSIAN, COUPLING, change=law_at(0.9)),
    Mutant("the laws of focused blocks have 0.9 of their scale", FOCUSED, COUPLING, change=law_at(0.9), shape=POOLED),
    Mutant("the noise of the matrix has 0.9 of its scale", MATRIX, COUPLING, change=law_at(0.9), shape=POOLED),
    Mutant("the noise of a data set has 0.9 of its scale", "offline/laplace", COUPLING, change=law_at(0.9)),
    Mutant("the noise of loss tables has 0.9 of its scale", LOSSES, COUPLING, change=law_at(0.9), shape=LAYERS),
    Mutant("a focused block has the noise of one row", FOCUSED, COUPLING, change=lambda p: replace(p, channels=(
        replace(p.channels[0], laws=(p.channels[0].laws[0],) * len(p.channels[0].laws)),)), shape=POOLED),
    Mutant("noise bits are fitted to twice as many users", BITS, COUPLING,
           method(shuffled.ShuffledChannel, "bits", _fitted_for_twice)),
    Mutant("answers are fitted to twice as many users", ANSWERED, COUPLING,
           method(ResponseChannel, "response", _fitted_for_twice)),
    # Answers.
    Mutant("bits of a loss table are answered truly", "local/loss-tables", COUPLING,
           returns(RandomizedResponse, "_answer", lambda self, values, words, coins: (coins < values).astype(np.int64)),
           shape=LAYERS),
    Mutant("lies of a loss table are half as frequent", "local/loss-tables", COUPLING, method(
        RandomizedResponse, "_answer", lambda honest: lambda self, values, words, coins: honest(
            self, values, words * np.uint64(2), coins)), shape=LAYERS),
    Mutant("reported items are the true ones", STEP, COUPLING,
           returns(KaryRandomizedResponse, "_report", lambda self, values, words: values), options=KARY),
    Mutant("the whole epsilon is spent at each of two steps", STEP, COUPLING, change=law_at(0.5),
           options=(("steps", 2), *KARY)),
    Mutant("unary bits lie half as often", STEP, COUPLING, returns(UnaryEncoding, "_bits", _rare_lies), options=UNARY),
    Mutant("answered bits share epsilon among too few", "local/three-tables-randomised-response", COUPLING,
           change=law_at(0.8)),
    Mutant("items behind a shuffler lie as if alone with half an epsilon more", ITEM, COUPLING, method(
        shuffled_item.ItemChannel, "response", lambda honest: lambda self, users, items: KaryRandomizedResponse(
            honest(self, users, items).epsilon + 0.5, items)), shape=POOLED),
    Mutant("items are fitted to twice as many users", ITEM, COUPLING,
           method(shuffled_item.ItemChannel, "response", lambda honest: lambda self, users, items: honest(
               self, 2 * users, items)), shape=POOLED),
    Mutant("false items are drawn from half of the items", ITEM, COUPLING, returns(
        KaryRandomizedResponse, "_report", lambda self, values, words: np.where(
            words < np.uint64(self._truth), values,
            (values + ((words.astype(np.int64) - self._truth) // self._each + 2) // 2) % self.items)), shape=POOLED),
    Mutant("a device sends the same item whatever it holds, and no lies", ITEM, COUPLING, returns(
        answers, "randomize_item", lambda channel, record, policy, users, generator=None, masked=True: 0),
        shape=POOLED),
    Mutant("simulated messages of a batch are true", ITEM, SAMPLERS, returns(
        shuffled_item, "draw_messages",
        lambda law, items, clear, users, generator: np.where(items.cells, clear, 0.0)), shape=POOLED),
    Mutant("devices report the truth", STEP, SAMPLERS,
           returns(KaryRandomizedResponse, "randomize_securely", lambda self, item: np.asarray(item)), options=KARY),
    Mutant("devices send true unary bits", STEP, SAMPLERS, returns(
        UnaryEncoding, "randomize_securely",
        lambda self, item: (np.arange(self.items) == np.asarray(item)[..., None]).astype(np.int64)), options=UNARY),
    Mutant("devices answer bits truly", ANSWERED, SAMPLERS,
           returns(RandomizedResponse, "randomize_securely", lambda self, x: np.asarray(x, np.int64))),
    Mutant("simulated reports are true", STEP, SAMPLERS, returns(
        sampled_item, "draw_reports",
        lambda channel, domain, items, asked, generator: np.where(domain.cells, items, 0.0)), options=KARY),
    Mutant("simulated answers of a batch are true", ANSWERED, SAMPLERS,
           returns(ResponseRun, "_ones", lambda self, law, true: true)),
    # Answers to one question.
    Mutant("answers about first visits are the true ones", ASKED, COUPLING,
           returns(KaryRandomizedResponse, "_report", lambda self, values, words: values), shape=POOLED, options=KARY),
    Mutant("unary answers about first visits lie half as often", ASKED, COUPLING,
           returns(UnaryEncoding, "_bits", _rare_lies), shape=POOLED, options=UNARY),
    Mutant("answers are randomised with twice the epsilon", ASKED, COUPLING, change=law_at(0.5), shape=POOLED),
    Mutant("reward bits are answered with half an epsilon more", ASKED, COUPLING, change=_loud_bits, shape=POOLED),
    Mutant("a device says in clear that it was never there", ASKED, COUPLING, device(answers, _none_in_clear),
           shape=POOLED, options=KARY),
    Mutant("a device that was never there stays silent", ASKED, COUPLING, device(answers, _silent_if_none),
           shape=POOLED),
    Mutant("a device tells the truth a little more often", ASKED, COUPLING, device(answers, _rather_true),
           shape=POOLED, options=KARY),
    Mutant("a device tells the truth a little more often, unary bits", ASKED, COUPLING, device(answers, _rather_true),
           shape=POOLED, options=UNARY),
    Mutant("a device answers about the row that it visited", ASKED, COUPLING, device(answers, _where_she_was),
           shape=POOLED),
    Mutant("a device answers both questions, each with the whole epsilon", ASKED, COUPLING,
           device(answers, _both_questions), shape=POOLED),
    Mutant("in earnest, devices that were never there say so", ASKED, SAMPLERS, device(samplers, _none_in_clear),
           shape=POOLED, options=KARY),
    Mutant("in earnest, devices answer truly", ASKED, SAMPLERS,
           returns(KaryRandomizedResponse, "randomize_securely", lambda self, item: np.asarray(item)), shape=POOLED,
           options=KARY),
    Mutant("simulated answers about first visits are true", ASKED, SAMPLERS, returns(
        asked_first_visit, "answers_of", lambda channel, truths, asked, generator: truths.copy()), shape=POOLED,
        options=UNARY),
    Mutant("simulated lies come only from users who were there", ASKED, SAMPLERS,
           method(asked_first_visit, "answers_of", _only_of_visitors), shape=POOLED, options=KARY),
    Mutant("simulated coins ask about some rows more than about others", ASKED, SAMPLERS,
           method(AskedFirstVisit, "arrays", _more_of_the_last), shape=POOLED),
    # Thresholds, rounding and linear answers.
    Mutant("a sparse release has no threshold", "offline/sparse-laplace", COUPLING,
           returns(sparse, "release_sparse", _sparse_all)),
    Mutant("a sparse release has no noise", "offline/sparse-laplace", COUPLING,
           returns(sparse, "release_sparse", _sparse_silent)),
    Mutant("a sparse release shows true counts above the threshold", "offline/sparse-laplace", COUPLING,
           returns(sparse, "release_sparse", _sparse_true_counts)),
    Mutant("the threshold of a sparse release is six lower", "offline/sparse-laplace", COUPLING, change=_low_threshold),
    Mutant("the noise of linear answers has half of its scale", "offline/linear", COUPLING, change=law_at(0.5)),
    Mutant("rows on the grid are not clipped", "offline/linear", COUPLING, method(
        linear, "on_grid", lambda honest: lambda rows, grid: 2 * honest(rows, grid))),
    # Samplers.
    Mutant("simulated Laplace draws are a quarter", LAPLACE, SAMPLERS, method(
        DiscreteLaplace, "draw_sum", _secretly(lambda self, honest, *a: honest(self, *a) // 4))),
    Mutant("simulated Gaussian draws have 0.9 of their scale", GAUSSIAN, SAMPLERS, method(
        DiscreteGaussian, "draw_sum", _secretly(
            lambda self, honest, copies, rng, size: honest(DiscreteGaussian(0.9 * self.sigma), copies, rng, size)))),
    Mutant("simulated grid draws are halved", MATRIX, SAMPLERS, method(
        GridGaussian, "draw", _secretly(lambda self, honest, *a: honest(self, *a) / 2)), shape=POOLED),
    Mutant("secure Laplace noise is zero", LAPLACE, SAMPLERS, returns(DiscreteLaplace, "secure", _no_draws)),
    Mutant("secure Laplace noise is Gaussian of the same scale", LAPLACE, SAMPLERS, returns(
        DiscreteLaplace, "secure", lambda self, size: DiscreteGaussian(self.scale).secure(size))),
    Mutant("secure Gaussian noise has 0.8 of its scale", GAUSSIAN, SAMPLERS, method(
        DiscreteGaussian, "secure", _secretly(lambda self, honest, size: honest(
            DiscreteGaussian(0.8 * self.sigma), size)))),
    Mutant("secure grid noise has 0.8 of its scale", MATRIX, SAMPLERS, method(
        GridGaussian, "secure", _secretly(lambda self, honest, size: 0.8 * honest(self, size))), shape=POOLED),
    Mutant("our own sampler of Laplace noise has 0.9 of its scale", LAPLACE, SAMPLERS, method(
        DiscreteLaplace, "secure_by", _secretly(lambda self, honest, sampler, size: honest(
            DiscreteLaplace(0.9 * self.scale) if sampler == "discreet" else self, sampler, size)))),
    Mutant("our own sampler of Gaussian noise has one sign", GAUSSIAN, SAMPLERS, method(
        DiscreteGaussian, "secure_by", _secretly(lambda self, honest, sampler, size: np.abs(
            honest(self, sampler, size)) if sampler == "discreet" else honest(self, sampler, size)))),
    Mutant("secure noise bits are tossed once for two cells", BITS, SAMPLERS,
           method(BinomialNoise, "secure", _secretly(_pairs_of_cells))),
    Mutant("secure noise for tables lies in half of the cube", LOSSES, SAMPLERS, method(
        DiscreteKNorm, "secure", _secretly(lambda self, honest, size: honest(self, size) // 2)), shape=LAYERS),
    Mutant("secure matrix noise has one variance everywhere", "offline/linear", SAMPLERS, returns(
        DiscreteSymmetricGaussianMatrix, "_laws", property(
            lambda self: (DiscreteGaussian(np.sqrt(self.off_diagonal)),) * 2))),
    Mutant("the source of real noise forgets copies", LAPLACE, SAMPLERS, method(
        SecureNoise, "draw", _secretly(lambda self, honest, law, copies, size: honest(self, law, 1, size)))),
    Mutant("the source of simulated noise starts anew with every call", LAPLACE, SAMPLERS,
           method(SimulatedNoise, "draw", _repeats)),
    Mutant("the compiled kernel has half of the scale", LAPLACE, SAMPLERS, method(
        DiscreteLaplace, "kernel", _secretly(lambda self, honest: honest(DiscreteLaplace(self.scale / 2))))),
    Mutant("the compiled kernel has half of the scale, seen in transcripts", LAPLACE, LIKELIHOOD, method(
        DiscreteLaplace, "kernel", _secretly(lambda self, honest: honest(DiscreteLaplace(self.scale / 2))))),
    Mutant("the law has half of its scale, seen in transcripts", GAUSSIAN, LIKELIHOOD, change=law_at(0.5)),
)  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """A mistake in the source, such as one in compiled code, and the test that turns red."""

    what: str
    file: str
    old: str
    new: str
    test: str


EDITS = (
    Edit("the compiled Laplace kernel is halved", "noise/laplace.py",
         "magnitude = np.floor(-law.scale * (fast_log", "magnitude = np.floor(-0.5 * law.scale * (fast_log",
         "tests/audit/test_samplers.py::test_what_is_drawn_is_what_is_stated"),
    Edit("the compiled grid kernel is halved", "noise/discrete_gaussian.py",
         "base, sigma, step = state[0], law.sigma / law.step, law.step",
         "base, sigma, step = state[0], law.sigma / (2 * law.step), law.step",
         "tests/audit/test_samplers.py::test_what_is_drawn_is_what_is_stated"),
    Edit("the compiled kernel of tables draws a cube of half the size", "noise/knorm.py",
         "out[i] += below(state, 2 * radius + 1) - radius", "out[i] += (below(state, 2 * radius + 1) - radius) // 2",
         "tests/audit/test_samplers.py::test_what_is_drawn_is_what_is_stated"),
    Edit("the exact sampler takes words that do not decide for decided", "noise/exact_sampler.py",
         "if h == entries or (h > 0 and u < law.above[h - 1]):", "if h == entries:",
         "tests/noise/test_exact_sampler.py::test_a_careless_fast_path_is_seen"),
    Edit("the exact sampler trusts its exponent to the last bit", "noise/exact_sampler.py",
         "g_high = g_low + h + np.uint64(4)", "g_high = g_low",
         "tests/noise/test_exact_sampler.py::test_step_2_is_the_defined_one_next_to_its_bound"),
    Edit("the compiled tree keeps its old node", "mechanisms/sums/tree.py",
         "    exchange_noise(law, base, old, new, cells, stream)\n    tree.current[0] = low",
         "    if t % 2 == 1:\n        exchange_noise(law, base, old, new, cells, stream)\n    tree.current[0] = low",
         "tests/audit/test_audit_reports.py::test_ratios_of_a_tree_add_up_over_its_levels"),
    Edit("the joint histogram counts every step twice", "mechanisms/counts/joint_histogram.py",
         "cells[(row * (S + 1) + successor) * 2 + bit] += 1.0", "cells[(row * (S + 1) + successor) * 2 + bit] += 2.0",
         "tests/audit/test_coupling.py::test_no_session_loses_more_than_its_guarantee_says"
         "[central/joint-histogram-laplace]"),
    Edit("first visits count double", "mechanisms/counts/first_visit.py",
         "cells[(pair * (S + 1) + successor) * 2 + bit] += 1.0", "cells[(pair * (S + 1) + successor) * 2 + bit] += 2.0",
         "tests/audit/test_coupling.py::test_no_session_loses_more_than_its_guarantee_says"
         "[central/first-visit-laplace]"),
    Edit("simulated questions are about what the user did first", "mechanisms/counts/first_visit_question.py",
         "    about_bit = uniform(stream) < 0.5\n",
         "    row = states[0] * A + actions[0] if length > 0 else row\n    about_bit = uniform(stream) < 0.5\n",
         "tests/mechanisms/counts/test_first_visit_question.py::test_who_is_asked_what_does_not_depend_on_the_record"),
    Edit("all visits of a row answer the question", "mechanisms/counts/first_visit_question.py",
         "                cells[states[h + 1] * R + row] += 1.0\n            break",
         "                cells[states[h + 1] * R + row] += 1.0",
         "tests/mechanisms/counts/test_first_visit_question.py::test_the_kernel_counts_what_a_slow_reading_of_the_record_says"),
    Edit("zeros of losses are counted twice", "problems/adversarial/encoders.py",
         "cells[zero] += 1.0 - share", "cells[zero] += 2.0 - 2.0 * share",
         "tests/audit/test_coupling.py::test_no_session_loses_more_than_its_guarantee_says"
         "[central/observed-losses-blocks]"),
)  # fmt: skip

PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"
_SEEN_BY = {
    COUPLING: "the coupling check, or the law read off the code",
    SAMPLERS: "the test of samplers",
    LIKELIHOOD: "the likelihood stage",
}


def page() -> str:
    """The page about mutants, in full."""
    rows = [f"| {i} | {one.what} | `{one.recipe}` | {one.stage} |" for i, one in enumerate(MUTANTS, 1)]
    edits = [f"| {one.what} | `{one.file}` | `{one.test.split('::')[1]}` |" for one in EDITS]
    by_stage = ", ".join(f"{sum(one.stage == stage for one in MUTANTS)} by {how}" for stage, how in _SEEN_BY.items())
    return f"""# Mutants

A test suite and an audit are worth what they catch. Here are {len(MUTANTS) + len(EDITS)} mechanisms that were broken on
purpose, with one mistake each: noise dropped, halved, shared or drawn where data say so; sensitivities, levels and
scales that are off by a tenth; masks, clocks, thresholds and rounding; samplers of a neighbouring law; devices that
tell the truth. `discreet audit` convicts every one of the first table, and the test that is named turns red for every
one of the second.

The mistakes of the first table are made in the running process, on the classes and objects that run in earnest
({by_stage}). `make test` makes all of them (`tests/audit/test_mutants.py`) and checks that this page, which is printed
from the list in `tests/audit/mutants.py`, is up to date. What the stages are is said in [Privacy](privacy.md#audits).

| | mistake | recipe | convicted by |
|---|---|---|---|
{chr(10).join(rows)}

Mistakes in compiled code cannot be made in a running process. `make mutants` makes these in a copy of the source and
expects the test to fail there:

| mistake | file | test that turns red |
|---|---|---|
{chr(10).join(edits)}
"""


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    print(f"{len(MUTANTS)} mutants, {len(EDITS)} edits of the source")
