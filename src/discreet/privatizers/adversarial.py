"""Recipes for layered problems with adversarial losses: full information (``loss-tables``) and bandit feedback.

Two channels share the budget (option ``split``: the part for counts). Counts of transitions determine visits, and the
last step is certain, so one table over (x, a, x') of the layers before it is all that is counted: replacing a user
moves 2 (H - 1) cells. Losses:

* full information: every entry of her table may move. Central: K-norm noise, once per block of users, or in a binary
  tree after every user (``accumulator="tree"``; ``"even-tree"`` gives all releases one law), where one answered bit per
  user may be quieter (``losses="auto"`` decides from public numbers; local privacy implies central). Local: one
  answered bit. More blocks are more noise and less waiting: without ``blocks`` there are K / (3.5 sd), sd being that of
  the noise in one entry, which balances K / sqrt(blocks) against sd sqrt(blocks) up to a constant that was tuned.
* bandit: the losses on the path, 2 H cells, released user by user with discrete Laplace noise: local by itself.

``losses_private=False`` declares that the loss tables are not the users' own: they are then published whole, un-noised,
and the guarantee says so. Bandit losses cannot be declared public: where a loss was observed shows where she went.

The ``published`` recipes have the papers' continuous noise (simulation only). Their guarantee is computed like any
other, and the claim stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from discreet.accumulators.base import Accumulator
from discreet.accumulators.schedule import Equal, EveryEpisode, Schedule
from discreet.accumulators.stream import EvenTree, Stream
from discreet.accumulators.sums import Blocks, Total
from discreet.accumulators.tree import Tree
from discreet.encoders.base import Encoder
from discreet.encoders.layered import LayeredTransitions, LayeredVisits, LossTable, ObservedLosses
from discreet.errors import InvalidInput, Unsupported, unknown_name
from discreet.layered_shape import LayeredShape
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Laplace, NoNoise
from discreet.privacy.calibration import calibrate_noise
from discreet.privacy.guarantee import (
    Claim,
    Guarantee,
    billboard,
    compose,
    from_mechanism,
    from_reports,
    locally,
    nothing,
    parallel,
)
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.privatizers.channel import AnyChannel, Channel, Privatizer
from discreet.privatizers.layered_reports import OneBitChannel, SampledLayerChannel, TableNoise, unrounded
from discreet.privatizers.recipe import Options, Recipe
from discreet.privatizers.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_count

_PAPER = "Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen, adversarial losses"
_WHY = "replacing one user moves counts and losses together, and their noises are independent"
_LOSSES = ("auto", "k-norm", "laplace", "one-bit")
_ACCUMULATORS = ("blocks", "tree", "even-tree")
_PATIENCE = 3.5  # users per block, in deviations of the noise of a block
Part = tuple[AnyChannel, Guarantee | None]


def silenced(privatizer: Privatizer) -> Privatizer:
    """The same channels with their noise off and their losses not rounded: it promises nothing, and is for tests."""
    channels = []
    for channel in privatizer.channels:
        if not isinstance(channel, Channel):
            raise Unsupported("only additive noise can be switched off; a randomised report has none to leave out")
        rounds = isinstance(channel.encoder, LossTable | ObservedLosses)
        encoder = replace(channel.encoder, rounded=False) if rounds else channel.encoder  # type: ignore[type-var]
        channels.append(replace(channel, encoder=encoder, law=NoNoise()))
    return replace(privatizer, channels=tuple(channels), guarantee=nothing())


def _none(full: bool, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    shape = _layered(shape)
    losses: Encoder = LossTable(shape, rounded=False) if full else ObservedLosses(shape, rounded=False)
    channels = [Channel(losses, NoNoise(), Total() if full else Stream())]
    if shape.horizon > 1:
        channels.insert(0, Channel(LayeredTransitions(shape), NoNoise(), Total()))
    name = "none/loss-tables" if full else "none/observed-losses"
    return Privatizer(name, shape, tuple(channels), EveryEpisode(), nothing(), masked=False)


def _central_tables(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    shape, epsilon = _layered(shape), _epsilon(privacy)
    if options["losses"] not in _LOSSES:
        raise unknown_name("kind of loss release", str(options["losses"]), _LOSSES)
    for_counts, for_losses = _split(shape, epsilon, options)
    accumulator = _central_accumulator(episodes, options)
    parts = _counts(shape, for_counts, accumulator, privacy.delta)
    if not options["losses_private"]:
        parts.append((Channel(LossTable(shape, rounded=False), NoNoise(), Total(), share=0.0), None))
    else:
        parts.append(_central_losses(shape, for_losses, accumulator, episodes, privacy.delta, options))
    return _assembled("central/loss-tables", shape, parts, accumulator, episodes, privacy.delta, options)


def _central_losses(
    shape: LayeredShape, epsilon: float, accumulator: Accumulator, episodes: int, delta: float, options: Options
) -> Part:
    encoder, times = LossTable(shape), _times(accumulator)
    k_norm = TableNoise(encoder.size, times / epsilon)
    draws = _draws(accumulator)
    laplace = DiscreteLaplace(encoder.size * times / epsilon)
    one_bit = OneBitChannel(unrounded(encoder), epsilon)
    variances = {"k-norm": k_norm.variance * draws, "laplace": laplace.variance * draws}
    if times > 1 or options["losses"] == "one-bit":
        variances["one-bit"] = one_bit.variance * episodes
    chosen = options["losses"] if options["losses"] != "auto" else min(variances, key=lambda name: variances[name])
    if chosen == "one-bit" and isinstance(accumulator, Blocks):
        raise Unsupported("one-bit reports come from every user by herself: set accumulator='tree', or take k-norm")
    if chosen == "one-bit":
        return one_bit, _one_bit_guarantee(one_bit, delta)
    moves = _seen(encoder.sensitivity(), times)
    law = laplace if chosen == "laplace" else k_norm
    return Channel(encoder, law, accumulator), _mechanism(law, moves, delta, "loss tables")


def _central_observed(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    shape, tree = _layered(shape), Tree(users=episodes)
    for_counts, for_losses = _split(shape, _epsilon(privacy), options)
    parts = _counts(shape, for_counts, tree, privacy.delta)
    parts.append(_observed(shape, for_losses, privacy.delta))
    return _assembled("central/observed-losses", shape, parts, tree, episodes, privacy.delta, options)


def _gaussian(full: bool, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Zero-concentrated: rhos add up over channels, so the target is turned into a rho and split."""
    shape = _layered(shape)
    rho = privacy.rho if privacy.rho is not None else _largest_rho(_epsilon(privacy), privacy.delta)
    for_counts, for_losses = _split(shape, rho, options)
    accumulator = _central_accumulator(episodes, options) if full else Tree(users=episodes)
    encoders: list[tuple[Encoder, Accumulator, float, str]] = []
    if for_counts > 0:
        encoders.append((LayeredTransitions(shape), accumulator, for_counts, "transitions"))
    if full:
        encoders.append((LossTable(shape), accumulator, for_losses, "loss tables"))
    else:
        encoders.append((ObservedLosses(shape), Stream(), for_losses, "observed losses"))
    parts: list[Part] = []
    for encoder, way, share, what in encoders:
        moves = _norms(_seen(encoder.sensitivity(), _times(way)))
        law = calibrate_noise(DiscreteGaussian, moves, rho=share)
        parts.append((Channel(encoder, law, way), from_mechanism(law, moves, delta=privacy.delta, name=what)))
    name = "central/loss-tables-gaussian" if full else "central/observed-losses-gaussian"
    return _assembled(name, shape, parts, accumulator, episodes, privacy.delta, options)


def _local(full: bool, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    shape = _layered(shape)
    for_counts, for_losses = _split(shape, _epsilon(privacy), options)
    parts: list[Part] = []
    if for_counts > 0:
        layer = SampledLayerChannel(LayeredTransitions(shape), for_counts)
        what = "the transition of one layer, picked by public coins"
        parts.append((layer, from_mechanism(layer.law, layer.moves, delta=privacy.delta, name=what)))
    if full:
        one_bit = OneBitChannel(unrounded(LossTable(shape)), for_losses)
        parts.append((one_bit, _one_bit_guarantee(one_bit, privacy.delta)))
    else:
        parts.append(_observed(shape, for_losses, privacy.delta))
    whole = locally(compose(_promises(parts), delta=privacy.delta, why=_WHY))
    name = "local/loss-tables" if full else "local/observed-losses"
    return Privatizer(name, shape, _channels(parts), EveryEpisode(), whole, False, options)


def _published(full: bool, model: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """The papers' scales: 3 H log2(K) / epsilon per tree node, 3 H / epsilon for what is released once."""
    shape, epsilon = _layered(shape), _epsilon(privacy)
    H = shape.horizon
    tree = model == "central"
    once = Laplace(3 * H / epsilon)
    counting = Laplace(3 * H * math.log2(max(episodes, 2)) / epsilon) if tree else once
    accumulator: Accumulator = Tree(users=episodes) if tree else Total()
    laws: list[tuple[Encoder, Laplace, Accumulator, str]] = []
    if H > 1:
        laws += [
            (LayeredVisits(shape), counting, accumulator, "visits"),
            (LayeredTransitions(shape), counting, accumulator, "transitions"),
        ]
    if full:
        laws.append((LossTable(shape, rounded=False), counting, accumulator, "loss tables"))
    else:
        laws.append((ObservedLosses(shape, rounded=False), once, Stream(), "observed losses"))
    parts: list[Part] = [
        (Channel(encoder, law, way), _mechanism(law, _seen(encoder.sensitivity(), _times(way)), privacy.delta, what))
        for encoder, law, way, what in laws
    ]
    whole = compose(_promises(parts), delta=privacy.delta, why=_WHY)
    guarantee = replace(billboard(whole) if tree else locally(whole), claimed=Claim(epsilon, 0.0, _PAPER))
    name = f"{model}/{'loss-tables' if full else 'observed-losses'}-published"
    return Privatizer(name, shape, _channels(parts), EveryEpisode(), guarantee, False, options)


def _assembled(
    name: str,
    shape: LayeredShape,
    parts: list[Part],
    accumulator: Accumulator,
    episodes: int,
    delta: float,
    options: Options,
) -> Privatizer:
    schedule = _schedule(parts[-1][0], accumulator, options, episodes)
    promises = _promises(parts)
    if not promises:
        raise InvalidInput("nothing is released with noise: with public losses and split=0 no privacy is at stake")
    whole = compose(promises, delta=delta, why=_WHY)
    if not isinstance(schedule, EveryEpisode):
        whole = parallel(whole, f"every user is in exactly one block ({schedule.describe()})")
    whole = billboard(whole)
    if any(promise is None for _, promise in parts):
        whole = replace(whole, public=("the loss tables, which are published as they are",))
    return Privatizer(name, shape, _channels(parts), schedule, whole, False, options)


def _counts(shape: LayeredShape, epsilon: float, accumulator: Accumulator, delta: float) -> list[Part]:
    if epsilon == 0:
        return []
    encoder = LayeredTransitions(shape)
    moves = _norms(_seen(encoder.sensitivity(), _times(accumulator)))
    law = calibrate_noise(DiscreteLaplace, moves, epsilon=epsilon)
    return [(Channel(encoder, law, accumulator), _mechanism(law, moves, delta, "transitions"))]


def _observed(shape: LayeredShape, epsilon: float, delta: float) -> Part:
    encoder = ObservedLosses(shape)
    moves = _norms(encoder.sensitivity())
    law = calibrate_noise(DiscreteLaplace, moves, epsilon=epsilon)
    return Channel(encoder, law, Stream()), _mechanism(law, moves, delta, "observed losses")


def _one_bit_guarantee(channel: OneBitChannel, delta: float) -> Guarantee:
    moves = f"the one of {channel.encoder.size} entries that a coin picked, which is rounded to a bit"
    law = f"RandomizedResponse with epsilon {channel.law.shipped_epsilon:.6g}"
    return from_reports(channel.profile, delta=delta, name="loss tables", moves=moves, law=law)


def _mechanism(law: Any, moves: Sensitivity, delta: float, name: str) -> Guarantee:
    # Laplace noise needs the L1 norm alone for its supremum; hundreds of cells need no convolution.
    return from_mechanism(law, _norms(moves), delta=delta, name=name)


def _seen(sensitivity: Sensitivity, times: int) -> Sensitivity:
    """What one user moves in all of the releases that show her."""
    return Sensitivity.worst_shift(*((m, up * times, down * times) for m, up, down in sensitivity.shifts or ()))


def _norms(sensitivity: Sensitivity) -> Sensitivity:
    return replace(sensitivity, shifts=None, unit=False)


def _times(accumulator: Accumulator) -> int:
    return accumulator.levels if isinstance(accumulator, Tree | EvenTree) else 1


def _central_accumulator(episodes: int, options: Options) -> Accumulator:
    kind = options["accumulator"]
    if kind not in _ACCUMULATORS:
        raise unknown_name("accumulator", str(kind), _ACCUMULATORS)
    if kind != "blocks" and options["blocks"] is not None:
        raise InvalidInput(f"accumulator={kind!r} releases after every user: leave out blocks")
    if kind == "blocks":
        return Blocks()
    return EvenTree(users=episodes) if kind == "even-tree" else Tree(users=episodes)


def _schedule(losses: AnyChannel, accumulator: Accumulator, options: Options, episodes: int) -> Schedule:
    """A release after every user, or blocks whose number is given or suits the noise of the losses."""
    if not isinstance(accumulator, Blocks):
        return EveryEpisode()
    if options["blocks"] is not None:
        return Equal(min(check_count("blocks", options["blocks"]), episodes))
    assert isinstance(losses, Channel)
    deviation = math.sqrt(losses.law.variance)
    return Equal(min(episodes, max(1, round(episodes / max(_PATIENCE * deviation, 1.0)))))


def _draws(accumulator: Accumulator) -> float:
    """How many draws of noise a late release carries, on average; laws are compared on the same blocks."""
    if isinstance(accumulator, Tree):
        return (accumulator.levels + 1) / 2
    return float(_times(accumulator))


def _split(shape: LayeredShape, budget: float, options: Options) -> tuple[float, float]:
    """The parts for counts and for losses."""
    share = options["split"]
    if not 0 <= share <= 1:
        raise InvalidInput(f"split is the part of the budget for counts and must lie in [0, 1], got {share!r}")
    if not options.get("losses_private", True):
        return (budget, 0.0) if LayeredTransitions(shape).sensitivity().l1 else (0.0, 0.0)
    if share == 1:
        raise InvalidInput("split=1 leaves nothing for private losses: choose less, or declare losses_private=False")
    if not LayeredTransitions(shape).sensitivity().l1:
        return 0.0, budget
    return share * budget, budget - share * budget


def _largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho that implies (epsilon, delta)."""
    if delta == 0:
        raise Unsupported("Gaussian noise cannot give pure privacy: set delta above 0, or take another recipe")
    low, high = 0.0, epsilon
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if ZeroConcentratedProfile(middle).delta(epsilon) <= delta else (low, middle)
    return low


def _layered(shape: Shape) -> LayeredShape:
    if not isinstance(shape, LayeredShape):
        raise Unsupported("this recipe serves layered worlds only (discreet.worlds.layered, or unroll a tabular one)")
    return shape


def _epsilon(privacy: Privacy) -> float:
    if privacy.epsilon is None:
        raise Unsupported("this recipe is calibrated to epsilon: give epsilon, or a Gaussian recipe and rho")
    return privacy.epsilon


def _promises(parts: Sequence[Part]) -> list[Guarantee]:
    return [promise for _, promise in parts if promise is not None]


def _channels(parts: Sequence[Part]) -> tuple[AnyChannel, ...]:
    return tuple(channel for channel, _ in parts)


Build = Callable[[Privacy, Shape, int, Options], Privatizer]
_SPLIT: dict[str, Any] = {"split": 0.5}
_TABLES: dict[str, Any] = {**_SPLIT, "losses": "auto", "accumulator": "blocks", "blocks": None, "losses_private": True}
_TREES: dict[str, Any] = {**_SPLIT, "accumulator": "blocks", "blocks": None}


def _recipe(
    name: str, summary: str, build: Build, law: str, accumulator: str, options: Options, *, source: str = "discreet"
) -> Recipe:
    model, kind = name.split("/")
    encoder = "layered-tables" if kind.startswith("loss-tables") else "layered-observed"
    return Recipe(
        name, model, summary, build, pure="gaussian" not in kind, automatic="published" not in kind,
        encoder=encoder, law=law, accumulator=accumulator, source=source, options=options,
    )  # fmt: skip


RECIPES = (
    _recipe("none/loss-tables", "layered worlds, full information as it is", partial(_none, True), "", "total", {}),
    _recipe("none/observed-losses", "layered worlds, bandit losses as seen", partial(_none, False), "", "total", {}),
    _recipe(
        "central/loss-tables",
        "layered worlds: counts and loss tables (K-norm noise) of blocks of users, or by tree after every user",
        _central_tables, "laplace, k-norm", "blocks", _TABLES,
    ),
    _recipe(
        "central/loss-tables-gaussian",
        "layered worlds: counts and loss tables with discrete Gaussian noise, of blocks of users or by tree",
        partial(_gaussian, True), "gaussian", "blocks", _TREES,
    ),
    _recipe(
        "central/observed-losses",
        "layered worlds: counts by tree, observed losses user by user with discrete Laplace noise",
        _central_observed, "laplace", "tree, stream", _SPLIT,
    ),
    _recipe(
        "central/observed-losses-gaussian",
        "layered worlds: counts by tree, observed losses user by user, discrete Gaussian noise",
        partial(_gaussian, False), "gaussian", "tree, stream", _SPLIT,
    ),
    _recipe(
        "local/loss-tables",
        "layered worlds: the transition of one sampled layer, and one bit of the loss table",
        partial(_local, True), "laplace, randomised response", "total", _SPLIT,
    ),
    _recipe(
        "local/observed-losses",
        "layered worlds: the transition of one sampled layer, and observed losses with discrete Laplace noise",
        partial(_local, False), "laplace", "total, stream", _SPLIT,
    ),
    *(
        _recipe(
            f"{model}/{'loss-tables' if full else 'observed-losses'}-published",
            "the paper's noise for layered worlds, with what it really promises (continuous: simulation only)",
            partial(_published, full, model), "continuous laplace", "tree" if model == "central" else "total", {},
            source=_PAPER,
        )
        for model in ("central", "local")
        for full in (True, False)
    ),
)  # fmt: skip
