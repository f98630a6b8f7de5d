r"""What epsilon and delta mean for a person: the sentences that receipts, pages and guides say, and their numbers.

P and Q are the laws of everything that is released, with her record and with another one in its place.

* *Bound.* P(S) <= e^epsilon Q(S) + delta for every set S of outcomes: that is the definition.
* *Odds.* Somebody who knows everybody else's record holds odds between two records that she may have. An outcome
  multiplies them by the ratio P / Q of its probabilities; where the true one is P, that ratio is above e^epsilon with
  probability P(loss > epsilon) at most, and never if delta is 0.
* *Beliefs that tie her to others.* The odds of an event E after an outcome are the prior ones times P_E / P_F, where
  P_E mixes the laws of the data sets in E, and P_F those of the others; after a release with another record in her
  place they are times Q_E / Q_F. If delta is 0 then P_E / Q_E and Q_F / P_F are at most e^epsilon each, so both odds
  differ by e^(2 epsilon) at most (Kasiviswanathan and Smith 2014), whatever the prior.
* *The world.* Nothing bounds what an outcome teaches about everybody: P and Q may both depend on it in the same way.

**P(loss > epsilon)** is not delta. Let S be the outcomes with P / Q > e^epsilon, or any set with P(S) >= e^epsilon
Q(S). For every e below epsilon

    delta(e) >= P(S) - e^e Q(S) >= (1 - e^(e - epsilon)) P(S),

so P(S) <= min over e < epsilon of delta(e) / (1 - e^(e - epsilon)), for every pair of records, and for whatever is
computed from a release as well, because post-processing has the same profile. Where the profile is that of one pair
this is attained: take S = {loss > e}, with e so that P(S) = e^epsilon Q(S). For the noisy numbers themselves and one
pair P(loss > epsilon) = delta(epsilon) - delta'(epsilon), which is less (16 times delta for Gaussian noise at
(1, 1e-5), where the bound is 42 times it); but neither a function of the release nor another pair of records needs to
keep to that.

Everything is rounded so that it never sounds better than it is.
"""

from __future__ import annotations

import math

from discreet.privacy.profiles import Profile
from discreet.privacy.words import rounded_up

_MANY = 1e6
_LARGE = 5.0  # from here on odds grow by more than a hundred
_POINTS = 80  # epsilons below the stated one, each 2^(1/4) nearer to it: any of them gives a true bound

BOUND = (
    "No outcome of {seen} is more than {factor} times as likely with {whose} record as it would be with any other in "
    "its place"
)
ODDS = (
    "Somebody who knows the records of everybody else and wonders which of two is {whose} own: seeing {seen} "
    "multiplies the odds of the true one by at most {factor}"
)
TIED = (
    "Somebody who believes that {whose} record tells about others', or theirs about it: all odds differ by a factor of "
    "at most {twice} from those after a release with another record in its place"
)
WORLD = (
    "What the data teach about people like {whom} is not bounded: it applies to {whom} whether or not {whose} record "
    "is there."
)
DELTA = (
    "Delta{value} is the most by which the probability of any set of outcomes can exceed {factor} times what it would "
    "be with another record in its place. It is not the probability that more is learned"
)
BEYOND = (
    "an outcome that {whose} record makes more than {factor} times as likely comes about with a probability of at "
    "most {beyond}"
)


def as_printed(epsilon: float) -> float:
    """The loss that the printed factor stands for, which sentences are about: a little above epsilon.

    >>> round(as_printed(1.0), 6), as_printed(50.0)
    (1.000264, 50.0)
    """
    shown = factor(epsilon)
    return float(rounded_up(epsilon)) if shown.startswith("e^") else math.nextafter(math.log(float(shown)), 0.0)


def exceeded(profile: Profile, epsilon: float) -> float:
    """P(loss > epsilon) at most, for epsilon as it is printed."""
    return above(profile, as_printed(epsilon))


def above(profile: Profile, loss: float) -> float:
    """P(loss > epsilon) at most: min over e < epsilon of delta(e) / (1 - e^(e - epsilon)); 0 without delta.

    >>> from discreet.privacy import GaussianProfile, PureProfile
    >>> above(PureProfile(1.0), 1.0)
    0.0
    >>> gaussian = GaussianProfile(0.26805112)
    >>> round(gaussian.delta(1.0) * 1e5, 2), round(above(gaussian, 1.0) * 1e5, 1)
    (1.0, 41.4)
    """
    if profile.delta(loss) == 0:
        return 0.0
    steps = (loss * 2.0 ** (-k / 4) for k in range(_POINTS))
    found = (profile.delta(loss - step) / -math.expm1(-step) for step in steps if step > 0)
    return min(1.0, min(found, default=1.0) * (1 + 1e-12))


def bound_words(epsilon: float, beyond: float, seen: str, you: bool = False) -> str:
    """What epsilon bounds, in a sentence; ``beyond`` is what ``exceeded`` gives.

    >>> print(bound_words(1.0, 0.0, "it"))
    No outcome of it is more than 2.719 times as likely with her record as it would be with any other in its place.
    """
    exceptions = ", but for the exceptions that delta allows" if beyond else ""
    return f"{BOUND.format(seen=seen, factor=factor(epsilon), **_of(you))}{exceptions}."


def odds_words(epsilon: float, beyond: float, seen: str, you: bool = False) -> list[str]:
    """What follows for odds: of who knows the others, of who believes in ties, and what is not bounded."""
    who = {"factor": factor(epsilon), **_of(you)}
    unless = f", except with a probability of at most {one_in(beyond)}" if beyond else ""
    tied = ", outside of exceptions whose probability is not stated here" if beyond else ""
    found = [
        f"{ODDS.format(seen=seen, **who)}{unless}. From even odds, 50%, that is to at most {likely(epsilon)}.",
        f"{TIED.format(twice=factor(2 * epsilon), **who)}{tied}.",
        WORLD.format(**who),
    ]
    if epsilon >= _LARGE:
        found.append(f"This epsilon is large: at odds of {factor(epsilon)} to one it excludes little by itself.")
    return found


def delta_words(epsilon: float, delta: float, beyond: float, you: bool = False) -> str:
    """What delta is and what it is not, with P(loss > epsilon) beside it; nothing if there is no delta.

    >>> delta_words(1.0, 0.0, 0.0)
    ''
    """
    if not delta:
        return ""
    who = {"factor": factor(epsilon), **_of(you)}
    said = DELTA.format(value=f", {rounded_up(delta, 3)},", **who)
    if not beyond:
        return f"{said}; here none of it is needed, and no outcome is an exception."
    often = f"{rounded_up(beyond, 3)} ({one_in(beyond)})" if beyond < 0.5 else rounded_up(beyond, 3)
    return f"{said}: {BEYOND.format(beyond=often, **who)}, {rounded_up(beyond / delta, 3)} times delta."


def _of(you: bool) -> dict[str, str]:
    return {"whose": "your", "whom": "you"} if you else {"whose": "her", "whom": "her"}


def factor(epsilon: float) -> str:
    """e^epsilon, rounded up, for people.

    >>> factor(1.0), factor(0.1), factor(50.0)
    ('2.719', '1.106', 'e^50')
    """
    value = math.exp(min(epsilon, 700.0))
    return f"e^{rounded_up(epsilon)}" if value > _MANY else rounded_up(value)


def likely(epsilon: float) -> str:
    """What even odds, 50%, can become, rounded up.

    >>> likely(1.0), likely(0.0), likely(20.0)
    ('73.2%', '50%', '100%')
    """
    share = 100 / (1 + math.exp(-min(epsilon, 700.0)))
    return f"{math.ceil(share * 10 - 1e-9) / 10:g}%"


def one_in(delta: float) -> str:
    """A small probability as one in so many, never understated.

    >>> one_in(1e-6), one_in(3e-7), one_in(0.6)
    ('one in 1,000,000', 'one in 3,333,333', '0.6')
    """
    return rounded_up(delta, 3) if delta > 0.5 else f"one in {math.floor(1 / delta * (1 + 1e-12)):,}"
