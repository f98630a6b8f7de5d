"""What a user's device runs where it is asked one question: her record in, one randomised answer out.

A question is a number: 2 r + 0 asks where her first visit of row r = state * actions + action led, 2 r + 1 which reward
bit it brought. It is drawn before she acts (:func:`draw_question`), by weights that are public, and sent along with the
answer. ``randomize_answer`` draws from the operating system's entropy; with a generator it is a simulation. On the
server's side ``count_answers`` refuses what no device sends, and counts the rest for
:meth:`~discreet.mechanisms.messages.asked_first_visit.AskedRun.add_reports`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.policies import AnyPolicy, Mixture, Policy
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Mask
from discreet.mechanisms.counts.encoder import Context, reward_bit
from discreet.mechanisms.counts.first_visit_question import SUCCESSOR
from discreet.mechanisms.mechanism import asked_rows
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.device_reports import Report, check_records
from discreet.mechanisms.trajectories import Trajectories


def draw_question(weights: Sequence[int], coins: np.random.Generator) -> int:
    """The question that a user is asked: public, and drawn before she acts."""
    shares = np.array(weights, np.float64)
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
        raise InvalidInput("weights of questions are numbers that are not negative, nor all zero")
    row = int(coins.choice(len(shares), p=shares / shares.sum()))
    return 2 * row + int(coins.integers(2))


def randomize_answer(
    channel: AskedChannel, record: Trajectories, question: int, generator: np.random.Generator | None = None
) -> Report:
    """The answer of one user to a question; without a generator, from the operating system's entropy."""
    if len(record) != 1:
        raise InvalidInput(f"a device holds one user's record, got {len(record)}")
    check_records(channel.encoder.shape, record)
    if type(question) is not int or not 0 <= question < 2 * channel.encoder.rows:
        raise InvalidInput(f"a question is a number in 0..{2 * channel.encoder.rows - 1}, got {question!r}")
    seed = generator.integers(2**64, dtype=np.uint64) if generator is not None else secrets.randbits(64)
    coins: Stream = np.array([seed], np.uint64)  # for rounding rewards only, which is not what privacy rests on
    law, answer = channel.law_of(question % 2), true_answer(channel, record, question, coins)
    sent = law.randomize_securely(answer) if generator is None else law.randomize(answer, generator)
    return Report(question, np.atleast_1d(sent))


def true_answer(channel: AskedChannel, record: Trajectories, question: int, coins: Stream) -> int:
    """What a record answers to a question, before it is randomised; the last answer is "none"."""
    shape, length = channel.encoder.shape, int(record.lengths[0])
    (row, about), none = divmod(question, 2), channel.law_of(question % 2).items - 1
    visited = np.flatnonzero(record.states[0, :length] * shape.actions + record.actions[0, :length] == row)
    if not len(visited):
        return none
    h = int(visited[0])
    if about == SUCCESSOR:
        return int(record.states[0, h + 1]) if h + 1 < length else none
    return int(reward_bit(float(record.rewards[0, h]), shape.rewards[0], shape.reward_span, coins))


def check_answer(channel: AskedChannel, playable: Mask, message: Sequence[Report]) -> None:
    """Refuse a message that no device makes: another number of answers, other questions, other answers."""
    if len(message) != 1:
        raise InvalidInput(f"a message is one answer, got {len(message)}")
    ((question, sent),) = message
    if type(question) is not int or not 0 <= question < 2 * len(playable) or not playable[question // 2]:
        raise InvalidInput("a message answers one question about a state and action that this policy can play")
    law = channel.law_of(question % 2)
    unary = question % 2 == SUCCESSOR and channel.response == "unary"
    size, most = (law.items, 1) if unary else (1, law.items - 1)
    if sent.shape != (size,) or sent.dtype.kind not in "iu" or int(sent.min()) < 0 or int(sent.max()) > most:
        what = f"{size} bits" if unary else f"one answer in 0..{most}"
        raise InvalidInput(f"a message has {what} to question {question}")


def count_answers(
    channel: AskedChannel, policy: AnyPolicy, messages: Sequence[Sequence[Report]], *, masked: bool = True
) -> tuple[Floats, Floats]:
    """How often each answer was given by users under one policy, and how many were asked either question about a row.

    All messages are checked before any of them is counted. The last answer, "none", is counted nowhere.
    """
    encoder = channel.encoder
    _check_policy(encoder.shape, policy)
    playable = asked_rows(encoder.shape, Context(policy), masked).reshape(-1)
    for message in messages:
        check_answer(channel, playable, message)
    answers, asked = np.zeros(encoder.layout.size), np.zeros((encoder.rows, 2))
    for ((question, sent),) in messages:
        row, about = divmod(question, 2)
        asked[row, about] += 1
        table = encoder.successors(answers) if about == SUCCESSOR else encoder.bits(answers)
        said = np.flatnonzero(sent) if about == SUCCESSOR and channel.response == "unary" else sent
        table[said[said < len(table)], row] += 1
    return answers, asked


def _check_policy(shape: Shape, policy: AnyPolicy) -> None:
    """Refuse a policy for other sizes: it would be taken for one that plays the same at every step."""
    table = (shape.horizon, shape.states)
    for part in policy.components if isinstance(policy, Mixture) else (policy,):
        if isinstance(part, Policy):
            fits = part.actions.shape == table and part.actions.max() < shape.actions
        else:
            fits = part.probabilities.shape == (*table, shape.actions)
        if not fits:
            raise InvalidInput(
                f"a policy must have an action below {shape.actions} for {shape.horizon} steps and "
                f"{shape.states} states"
            )
