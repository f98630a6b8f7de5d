"""A study as a device knows it: the declaration that a person agreed to, named by its hash, and what a report is.

The declaration is public and fixed: shape of the problem, trust model, epsilon, reports per user, reporting window and
the key that signs policies. Its hash is its name, so whoever serves it cannot change a word of it. What a report is
(``report`` in the answer of the service) is not part of the hash, and need not be: a device reports randomised items or
answers only, with laws that it has checked against the declared epsilon, unless the declaration itself says that the
coordinator is trusted (``model = "central"``). In shuffled studies (``model = "shuffle"``) laws are checked against the
declared ``local_epsilon``, which is what is left if coordinator and shuffler act together ("none": nothing is, and any
law is taken); and the device tells the shuffler what it was asked for and by which laws it has randomised it, so that
the shuffler takes only what it has certified for the batch.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from discreet.client.errors import Refused
from discreet.client.words import digest, field, finite, number, whole

_LARGEST = 1 << 22  # cells of a policy or of a step
_KINDS = {  # of reports, by trust model
    "central": ("record",),
    "local": ("sampled-items", "asked-first-visit"),
    "shuffle": ("answered-bits", "one-item"),
}
_LAYOUTS = ("joint", "tables", "two-tables")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Kind(NamedTuple):
    """What a report is: the record itself (``model`` central), or ``steps`` items, randomised by ``response``.

    Or the answer to one question about a first visit, randomised by ``response``; its ``steps`` are one. In shuffled
    studies: answered bits, one message each, of counters in a ``layout``, or one item in one message; ``steps`` are
    then the bits that two records can set differently, or one. All of them: :mod:`discreet.client.questions`.
    """

    name: str
    steps: int = 0
    response: str = ""
    masked: bool = True
    layout: str = ""
    groups: int = 1
    first_visits: bool = False
    stated: str = ""  # shuffled: the hash of all of this as the service has stated it


class Study(NamedTuple):
    """What a device needs to know of a declaration."""

    hash: str
    title: str
    states: int
    actions: int
    horizon: int
    state_labels: tuple[str, ...] | None
    action_labels: tuple[str, ...] | None
    start: int | None
    rewards: tuple[float, float]
    early_end: bool
    model: str
    epsilon: float
    delta: float
    cap: int
    window: int
    key: str
    kind: Kind
    sealing: str = ""  # shuffled: the key that messages are sealed to
    shuffler: str = ""  # shuffled: where they are sent, if the declaration says so
    alone: float | None = None  # shuffled: the local epsilon that is left if both parties act together; None: nothing

    @property
    def per_step(self) -> Fraction | None:
        """What an item or answer may cost: the agreed epsilon, shared by all reports and their steps, exactly.

        In shuffled studies the part of what is left without a shuffler; None: nothing is, so it may cost anything.
        """
        agreed = self.alone if self.model == "shuffle" else self.epsilon
        return None if agreed is None else Fraction(agreed) / (self.cap * self.kind.steps)


def read_study(answer: dict[str, Any], agreed: str) -> Study:
    """The study in an answer of the service; refused unless its hash is the one that was agreed to."""
    declaration = field(answer, "study", dict)
    found = digest(declaration)
    if found != agreed:
        raise Refused(
            f"this is not the study that was agreed to: its hash is {found}, and {agreed} was expected; do not take "
            "part before you have read the new declaration"
        )
    problem, privacy = field(declaration, "problem", dict), field(declaration, "privacy", dict)
    states, state_labels = _named(problem, "states")
    actions, action_labels = _named(problem, "actions")
    horizon = whole(problem, "horizon", 1, _LARGEST)
    if states * actions * horizon > _LARGEST:
        raise Refused("this study has more states, actions and steps than a device can report on")
    low, high = _range(problem)
    model = field(privacy, "model", str)
    shuffle = field(declaration, "shuffle", dict) if model == "shuffle" else {}
    study = Study(
        hash=found,
        title=field(declaration, "title", str),
        states=states,
        actions=actions,
        horizon=horizon,
        state_labels=state_labels,
        action_labels=action_labels,
        start=_start(problem, states, state_labels),
        rewards=(low, high),
        early_end=field(problem, "early_end", bool),
        model=model,
        epsilon=number(privacy, "epsilon"),
        delta=number(privacy, "delta"),
        cap=whole(field(declaration, "users", dict), "reports_per_user", 1, 10**9),
        window=seconds(field(field(declaration, "reporting", dict), "window", str)),
        key=field(field(declaration, "keys", dict), "signing", str),
        kind=Kind(""),
        sealing=field(field(declaration, "keys", dict), "sealing", str) if model == "shuffle" else "",
        shuffler=field(shuffle, "address", str) if model == "shuffle" else "",
        alone=_alone(shuffle) if model == "shuffle" else None,
    )
    return study._replace(kind=_kind(field(answer, "report", dict), study))


def seconds(text: str) -> int:
    """A time such as "90s", "15m", "1h" or "7d", in seconds."""
    digits, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (digits.isascii() and digits.isdigit()) or len(digits) > 6 or digits[0] == "0":
        raise Refused(f"a time must be a whole number and a unit, as 30m or 1h, got {text[:20]!r}")
    return int(digits) * _UNITS[unit]


def _kind(report: dict[str, Any], study: Study) -> Kind:
    name = field(report, "kind", str)
    if name not in _KINDS.get(study.model, ()):
        raise Refused(
            f"the service asks for reports of kind {name[:30]!r}, which this client does not send in a study whose "
            f"model is {study.model[:20]!r}: nothing is sent"
        )
    if study.model == "central":
        return Kind(name)
    if study.model == "shuffle":
        return _shuffled(name, report, study)
    response = field(report, "response", str)
    if response not in ("kary", "unary"):
        raise Refused(f"this client answers by kary or unary response, and the service asks for {response[:30]!r}")
    if name == "asked-first-visit":
        return Kind(name, 1, response, field(report, "masked", bool))
    if field(report, "early_end", bool) != study.early_end:
        raise Refused("the service and the declaration differ in whether records may end early: nothing is sent")
    return Kind(name, whole(report, "steps", 1, study.horizon), response, field(report, "masked", bool))


def _shuffled(name: str, report: dict[str, Any], study: Study) -> Kind:
    groups, masked = whole(report, "groups", 1, study.horizon), field(report, "masked", bool)
    if groups not in (1, study.horizon):
        raise Refused("the service asks for another number of groups than one, or one for each step: nothing is sent")
    if field(report, "early_end", bool) != study.early_end:
        raise Refused("the service and the declaration differ in whether records may end early: nothing is sent")
    stated = digest(report)
    if name == "one-item":
        return Kind(name, 1, masked=masked, groups=groups, stated=stated)
    layout, first = field(report, "layout", str), field(report, "first_visits", bool)
    if layout not in _LAYOUTS:
        raise Refused(
            f"this client answers bits of a layout of {' or '.join(_LAYOUTS)}, and the service asks for {layout[:30]!r}"
        )
    bits = most_moved(layout, groups, first, study)
    return Kind(name, bits, masked=masked, layout=layout, groups=groups, first_visits=first, stated=stated)


def most_moved(layout: str, groups: int, first_visits: bool, study: Study) -> int:
    """How many counters of a layout two records can set differently, at most (:mod:`discreet.client.questions`).

    A record sets one joint counter, or a visit, a transition and a reward bit of 1, or a transition and a reward bit,
    at each step that counts; only horizon - 1 steps have a successor. All of it may differ. Where first visits are
    counted in three tables, a row has at most three differences whether one record visits it or both, and there are
    rows - 2 (horizon - 1) at least without one of successors.
    """
    H, rows = study.horizon, study.states * study.actions
    visits = min(H, rows) if first_visits else H
    followed = min(visits, H - 1)
    if layout == "tables" and first_visits and groups == 1:
        visited = min(2 * H, rows)
        return 3 * visited - max(0, visited - 2 * (H - 1))
    return 2 * {"joint": visits, "tables": 2 * visits + followed, "two-tables": visits + followed}[layout]


def _alone(shuffle: dict[str, Any]) -> float | None:
    stated = shuffle.get("local_epsilon")
    if stated == "none":
        return None
    if stated is None or isinstance(stated, str):
        raise Refused(
            "this declaration does not say what is left if coordinator and shuffler act together (local_epsilon in "
            "[shuffle]): nothing is sent; ask whoever runs the study for one that does"
        )
    return number(shuffle, "local_epsilon")


def _named(problem: dict[str, Any], name: str) -> tuple[int, tuple[str, ...] | None]:
    given = problem.get(name)
    if isinstance(given, list) and given and all(isinstance(label, str) for label in given):
        if len(set(given)) < len(given):
            raise Refused(f"two of the labels of {name} are the same")
        return len(given), tuple(given)
    return whole(problem, name, 1, _LARGEST), None


def _start(problem: dict[str, Any], states: int, labels: tuple[str, ...] | None) -> int | None:
    given = problem.get("start")
    if given is None:
        return None
    if isinstance(given, str) and labels is not None and given in labels:
        return labels.index(given)
    return whole(problem, "start", 0, states - 1)


def _range(problem: dict[str, Any]) -> tuple[float, float]:
    ends = [finite(end, "an end of the range of rewards") for end in field(problem, "rewards", list)]
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise Refused("the range of rewards must be two numbers, the smaller one first")
    return ends[0], ends[1]
