r"""What recipes for layered worlds share: what is decided before any data, and how channels become a privatizer.

**Blocks of bandit losses.** A policy is held for m users and their summed losses carry noise of variance v per entry.
Mirror descent then has regret proportional to sqrt(K (m s + v / m)), where s = H / (4 d) is what the losses themselves
add (:mod:`discreet.problems.adversarial.learners`), so m = sqrt(v / s) is best. Twice as long blocks do as well in
practice.

**Blocks of loss tables.** The same balance with s = 1, up to a constant that was tuned: m = 3.5 sqrt(v). What "auto"
compares is the predicted squared error K (m / 3.5^2 + v / m), with m = 1 for one answered bit per user, and that of a
tree. After t users the error per user is the deviation of the noise over t: summed over a run that is 2 sqrt(K v / m)
for noise that adds up, and D (1 + ln(K / D)) for the noise of a tree, whose deviation D is as large from the beginning.

**Counts.** Blocks add one draw of noise each; a tree over B blocks shows a user floor(log2 B) + 1 times and carries
about half as many draws. The quieter of the two at the end of the run is taken.

**The split.** Transitions are learned from counts, and a confidence box says nothing while the bound E on the noise of
a row is half of its visits or more. If that is so at the end of the run even with half of the budget, on a row that is
visited as often as others, counts get a twentieth (``split="auto"``); otherwise they get half.

**For learners that plan with estimates** (``split`` and ``blocks`` are "estimates"; the constants were chosen on tuning
worlds). With s the noise of one release in a loss, over what a pair shows in the whole run (K users with full
information, K H / d visits with bandit feedback), there are 12 (s / 0.1)^-0.25 blocks: about 12 where noise is large,
30 to 40 where it is small. Counts get half of the budget if, with half, they can tell rows apart at the end: if the
noise in what follows a row, in units of the range of values and with half of its successors good, is below 0.5.
Otherwise they get a tenth. Their noise is one draw per block; the noise of a tree cannot be told apart by blocks.

**Promises.** One user moves counts and losses together and their noises are independent, so the parts of a promise
compose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import LayeredShape, Shape
from discreet.base.validation import check_count, shown
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.schedule import EveryEpisode, Schedule, blocks_for
from discreet.mechanisms.session import Privatizer, unnamed
from discreet.mechanisms.sums.accumulator import Accumulator
from discreet.mechanisms.sums.blocks import Blocks
from discreet.mechanisms.sums.tree import EvenTree, Tree
from discreet.noise.distribution import Law
from discreet.privacy.guarantee import Guarantee, about, billboard, compose, from_reports, parallel
from discreet.privacy.messages import AnsweredBits
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.words import rounded_up
from discreet.problems.adversarial.encoders import LayeredTransitions
from discreet.problems.adversarial.mechanisms import OneBitChannel
from discreet.recipes.recipe import Options
from discreet.recipes.targets import Privacy

HALF, LITTLE = 0.5, 0.05
FOR_ESTIMATES = "estimates"  # the value of an option that suits learners who plan with estimates
_SOME = 0.1  # the share of counts that cannot tell rows apart
_TELLING = 0.5  # noise in what follows a row, in units of the range of values
_USUAL_BLOCKS, _USUAL_NOISE, _BLOCKS_POWER, _MOST_BLOCKS = 12, 0.1, -0.25, 100
_TABLES_PATIENCE = 3.5  # users per block, in deviations of the noise of a block
_FAILURE = 0.05


def bandit_blocks(variance: float, shape: LayeredShape, episodes: int, given: Any = None) -> int:
    """How many blocks suit losses (above one half) whose sum over a block has noise of this variance."""
    if given == FOR_ESTIMATES:
        return blocks_for_estimates(math.sqrt(variance) * shape.pairs / shape.horizon, episodes)
    return _given_or(math.sqrt(4 * variance * shape.pairs / shape.horizon), 1.0, episodes, given)


def table_blocks(variance: float, episodes: int, given: Any = None) -> int:
    """How many blocks suit loss tables whose sum over a block has noise of this variance."""
    if given == FOR_ESTIMATES:
        return blocks_for_estimates(math.sqrt(variance), episodes)
    return _given_or(math.sqrt(variance), _TABLES_PATIENCE, episodes, given)


def blocks_for_estimates(deviation: float, episodes: int) -> int:
    """How many blocks suit a learner with estimates; ``deviation``: of one release's noise in all users' losses."""
    relative = max(deviation / episodes, 1e-9)
    blocks = _USUAL_BLOCKS * math.pow(relative / _USUAL_NOISE, _BLOCKS_POWER)
    return min(episodes, _MOST_BLOCKS, max(1, round(blocks)))


def _given_or(deviation: float, users_per_deviation: float, episodes: int, given: Any) -> int:
    if given is not None:
        return min(check_count("blocks", given), episodes)
    return blocks_for(deviation, users_per_deviation, episodes, fewest=1, most=episodes)


def table_error(users: float, noise: float, episodes: int, constant: bool = False) -> float:
    """The predicted squared error of waiting for blocks of ``users`` and of noise in the summed tables at the end.

    ``constant``: the noise is as large after the first release as after the last.
    """
    if constant:
        deviation = math.sqrt(noise)
        noise = (deviation * (1 + math.log(max(episodes / max(deviation, 1.0), 1.0))) / 2) ** 2
    return episodes * users / _TABLES_PATIENCE**2 + noise


def quieter_counts(law_of: Callable[[Accumulator], Law], blocks: int) -> Accumulator:
    """Sums over blocks or a tree over them, whichever has less noise at the end."""
    tree, sums = Tree(users=blocks), Blocks()
    return tree if law_of(tree).variance * draws(tree) < law_of(sums).variance * blocks else sums


def draws(accumulator: Tree) -> float:
    """How many draws of noise a late release of a tree carries, on average."""
    return (accumulator.levels + 1) / 2


def share_of_counts(
    option: Any, shape: LayeredShape, episodes: int, variance_at_half: Callable[[], float], losses_private: bool = True
) -> float:
    """The part of the budget for counts; ``variance_at_half``: of the noise in one count at the end, if it is half."""
    if not (option in ("auto", FOR_ESTIMATES) or (isinstance(option, int | float) and 0 <= option <= 1)):
        raise InvalidInput(
            "split is the part of the budget for counts: 'auto', 'estimates' or a number in [0, 1], "
            f"got {shown(option)}"
        )
    countable = LayeredTransitions(shape).sensitivity().l1 > 0
    if not losses_private:
        return float(countable)
    if option == 1:
        raise InvalidInput("split=1 leaves nothing for private losses: choose less, or declare losses_private=False")
    if not countable:
        return 0.0
    if option == FOR_ESTIMATES:
        return HALF if tells_rows_apart(variance_at_half(), shape, episodes) else _SOME
    if option != "auto":
        return float(option)
    return HALF if tells(variance_at_half(), shape, episodes) else LITTLE


def tells(variance: float, shape: LayeredShape, episodes: int) -> bool:
    """Whether counts with this noise at the end narrow the confidence box of a row that is visited like others."""
    visits, successors = _visits_and_successors(shape, episodes)
    log = math.log(4 * shape.unknown * episodes / _FAILURE)
    error = 4 * math.sqrt(2 * log * successors * variance)
    return 2 * error < visits


def tells_rows_apart(variance: float, shape: LayeredShape, episodes: int) -> bool:
    """Whether counts with this noise at the end tell apart what follows two rows that are visited like others."""
    visits, successors = _visits_and_successors(shape, episodes)
    return math.sqrt(variance * successors) / 2 < _TELLING * visits


def _visits_and_successors(shape: LayeredShape, episodes: int) -> tuple[float, int]:
    """The visits of a row in a whole run if all are visited alike, and the successors of the widest one."""
    rows = [(x * shape.actions, y) for x, y in pairwise(shape.sizes[:-1])]
    return episodes * len(rows) / sum(number for number, _ in rows), max(size for _, size in rows)


WHY = "replacing one user moves counts and losses together, and their noises are independent"


Part = tuple[AnyChannel, Guarantee | None]  # nothing is promised about what was declared public


def layered(shape: Shape) -> LayeredShape:
    """The shape itself if it is layered; any other shape is refused."""
    if not isinstance(shape, LayeredShape):
        raise Unsupported(
            "this recipe serves layered worlds only (discreet.problems.adversarial.world, or unroll a tabular one)"
        )
    return shape


def epsilon_of(privacy: Privacy) -> float:
    """The target's epsilon; a target that has only rho is refused."""
    if privacy.epsilon is None:
        raise Unsupported("this recipe is calibrated to epsilon: give epsilon, or a Gaussian recipe and rho")
    return privacy.epsilon


def divisible(privacy: Privacy) -> float:
    """The target's epsilon, less what the sum of its parts may be rounded up by."""
    return epsilon_of(privacy) * (1 - 2**-50)


def norms(sensitivity: Sensitivity) -> Sensitivity:
    """The same sensitivity without its worst shift: Laplace noise needs the L1 norm only, and profiles stay cheap."""
    return replace(sensitivity, shifts=None, unit=False)


def times_shown(accumulator: Accumulator) -> int:
    """The number of noisy sums that one user is in: the levels of a tree, otherwise one."""
    return accumulator.levels if isinstance(accumulator, Tree | EvenTree) else 1


def one_bit_guarantee(channel: OneBitChannel, delta: float) -> Guarantee:
    """The guarantee of the one answered bit that a user sends of her loss table."""
    moves = f"the one of {channel.encoder.size} entries that a coin picked, which is rounded to a bit"
    law = f"RandomizedResponse with epsilon {rounded_up(channel.law.shipped_epsilon, 6)}"
    message = AnsweredBits(channel.law.lie, 1)
    return from_reports(channel.profile, delta=delta, name="loss tables", moves=moves, law=law, message=message)


def promises(parts: Sequence[Part]) -> list[Guarantee]:
    """The guarantees of the parts, without those of parts that were declared public."""
    return [promise for _, promise in parts if promise is not None]


def channels(parts: Sequence[Part]) -> tuple[AnyChannel, ...]:
    """The channels of the parts, in their order."""
    return tuple(channel for channel, _ in parts)


def assembled(
    shape: LayeredShape, parts: Sequence[Part], schedule: Schedule, delta: float, options: Options
) -> Privatizer:
    """A central privatizer: parts composed, blocks in parallel, joint privacy by the billboard lemma."""
    private = promises(parts)
    if not private:
        raise InvalidInput("nothing is released with noise: with public losses and split=0 no privacy is at stake")
    whole = compose(private, delta=delta, why=WHY)
    if not isinstance(schedule, EveryEpisode):
        whole = parallel(whole, f"every user is in exactly one block ({schedule.describe()})")
    whole = billboard(whole)
    if len(private) < len(parts):
        whole = about(whole, public=("the loss tables, which are published as they are",))
    return unnamed(shape, channels(parts), schedule, whole, False, options)
