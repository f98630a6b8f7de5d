"""The numbers of a receipt in sentences that a privacy officer can read and repeat.

What epsilon and delta mean for a person, and why, stands in :mod:`discreet.privacy.odds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from discreet.base.notebook import counted
from discreet.privacy.odds import bound_words, delta_words, factor, likely, odds_words
from discreet.privacy.words import rounded_up
from discreet.tables.evaluation.split import Split
from discreet.tables.read.columns import MISSING, missing_reward_words

ADDS_UP = "This epsilon adds to those of earlier releases about the same people, and to those of later ones."
_SEEN = "what was released"
EVENT_LEVEL = (
    "Whoever has several rows is protected in each of them, and not as a whole; intervals and bounds take rows to be "
    "independent, which those of one person need not be: where a column says whose a row is, name it (--user)."
)


def adds_up(split: Split | None, in_a_ledger: bool) -> str | None:
    """What is said where no ledger adds up: what the split knows of, and what nobody knows."""
    if in_a_ledger:
        return None
    return ADDS_UP if split is None else f"{ADDS_UP} {split.sum_words()}"


class _Stated(NamedTuple):
    """The numbers that sentences are about; ``exceeded`` is P(loss > epsilon) at most."""

    epsilon: float
    delta: float
    exceeded: float


def in_one_sentence(facts: Mapping[str, Any]) -> str:
    """The promise in a sentence: how much more likely her record can make anything."""
    stated = _stated(facts)
    if stated is None:
        return "No finite epsilon holds: see below what is promised instead."
    return bound_words(stated.epsilon, stated.exceeded, _SEEN)


def delta_of(facts: Mapping[str, Any]) -> str:
    """What delta is and is not, with P(loss > epsilon) beside it; nothing without one."""
    stated = _stated(facts)
    return "" if stated is None else delta_words(*stated)


def people(facts: Mapping[str, Any]) -> int:
    """How many people the promise is about: those who were learned from, and those who were held out."""
    split = (facts.get("evaluation") or {}).get("split") or {}
    return int(split.get("users", facts["declared"]["users"]))


def people_words(facts: Mapping[str, Any]) -> str:
    """Their number, and how many of them were held out."""
    learned_from, everybody = int(facts["declared"]["users"]), people(facts)
    if everybody == learned_from:
        return f"{everybody:,}"
    return f"{everybody:,}: {learned_from:,} learned from, {everybody - learned_from:,} held out to judge"


def promised(facts: Mapping[str, Any]) -> list[str]:
    """What is promised, for somebody who has never heard of epsilon."""
    stated = _stated(facts)
    everything = "the policy, its values and this page"
    if stated is None:
        return [f"Nothing that can be stated by epsilon is promised about what was released ({everything})."]
    epsilon, delta, beyond = stated
    lines = [
        f"Take any one {_one_unit(facts)} in the data, and everything that was released: {everything}. "
        + bound_words(epsilon, beyond, _SEEN),
        *odds_words(epsilon, beyond, _SEEN),
        *([delta_of(facts)] if delta else []),
        "The first sentence holds whatever anybody knows or computes, now and later, and for whatever is computed from "
        "the release. Its numbers are computed from the noise that the receipt says was added.",
    ]
    if delta and delta * people(facts) >= 1:
        lines.append(
            f"This delta is large: with {people(facts):,} people it would allow showing one of them "
            "entirely. Ask for a delta well below one in the number of people."
        )
    return lines


def _one_unit(facts: Mapping[str, Any]) -> str:
    """Who or what the promise is to, in a few words."""
    if facts["declared"]["event_level"]:
        return "row (event level: not all rows of a person)"
    return "person" if facts["declared"]["cap"] is None else f"value of the column {facts['data']['user']!r}"


def not_promised(facts: Mapping[str, Any]) -> list[str]:
    """What a reader might take the promise for, and must not."""
    public = facts["declared"]["public"]
    known = f"how many people there are ({people_words(facts)})" + (f", {', '.join(public)}" if public else "")
    return [
        "That nothing is learned about people like her: what the data show about everybody (which treatment helps in "
        "which state) is what the release is for.",
        f"That public things are hidden: {known}, and everything under 'Declared and enforced'.",
        "That the rows themselves, copies of them or other files are safe: this is about the release alone.",
        "That other releases about the same people cost nothing: losses add up.",
        "That the policy is good, or safe to use.",
    ]


def unit_words(facts: Mapping[str, Any]) -> list[str]:
    """Who or what is one unit of protection."""
    guarantee, times = facts["guarantee"], facts["declared"]["trajectories_per_user"]
    most = "one trajectory" if times == 1 else f"at most {times:,} trajectories"
    formal = f"Formally, the unit is {guarantee['unit']!r}, and neighbouring data sets {guarantee['neighbours']}"
    if facts["declared"]["event_level"]:
        return [
            "EVENT LEVEL: one row of the table, whoever it is about, because no column of users was declared. "
            f"{formal}, where each row is called a user.",
            EVENT_LEVEL,
        ]
    if facts["declared"]["cap"] is not None:
        return [
            f"Whatever one value of the column {facts['data']['user']!r} stands for (a person, a household, a clinic, "
            f"a school): all of its rows, of which at most {times:,} count, drawn by lot, taken together. {formal}.",
            "Who has rows under several such values is protected in each of them, and not as a whole.",
        ]
    return [
        f"One person: everything that belongs to one value of the column {facts['data']['user']!r}, {most} with all "
        f"rows, taken together. {formal}.",
        "If one person has several such values (two identifiers, two hospitals), the promise is for each of them and "
        "not for the person.",
    ]


def at_several_deltas(facts: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Rows (delta, epsilon, factor, from even odds, P(loss > epsilon)), the stated pair among them."""
    guarantee = facts["guarantee"]
    rows = {entry["delta"]: (entry["epsilon"], entry["exceeded"]) for entry in guarantee["epsilon_at"]}
    if guarantee["epsilon"] is not None:
        rows[guarantee["delta"]] = guarantee["epsilon"], guarantee["exceeded"]
    return [("0" if delta == 0 else rounded_up(delta, 3), *_row(*row)) for delta, row in sorted(rows.items())]


def _row(epsilon: float | None, beyond: float | None) -> tuple[str, str, str, str]:
    if epsilon is None or beyond is None:
        return "none", "no bound", "no bound", "no bound"
    return rounded_up(epsilon), factor(epsilon), likely(epsilon), rounded_up(beyond, 3)


def sensitivity_words(sensitivity: Mapping[str, Any]) -> str:
    """What replacing one person can do to the numbers that are released."""
    if not sensitivity["worst_shift"]:
        return f"all numbers by at most {sensitivity['l2']:.6g} in Euclidean length, {sensitivity['l1']:.6g} in sum"
    moves = [
        f"{shift['cells_up']:,} numbers up and {shift['cells_down']:,} down by {shift['by']:g}"
        for shift in sensitivity["worst_shift"]
    ]
    return f"at worst {' and '.join(moves)}"


def worth_words(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a policy is worth by the planner, in the owner's units: the estimate, the lower bound, and what each is."""
    low, high = values["possible"]
    known = values["bound_by_first_state"]
    return [
        ("estimated value", _on_average(values["estimate"], values["estimate_by_first_state"])),
        ("", values["meaning"]),
        ("value at least", "not stated" if known is None else _on_average(values["bound"], known)),
        ("", f"{values['bound_meaning']}; as declared, values lie between {low:.4g} and {high:.4g}"),
    ]


def kept_words(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """In how many situations the policy does what users did, because nothing was surer to be better."""
    kept = values["as_users_did"]
    if kept is None or not kept["situations"]:
        return []
    return [("does as users did", f"in {kept['situations']:,} of {kept['of']:,} situations (a step and a state)")]


def present_words(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How many users and steps are in the released table, by its own noisy counts, where it has some."""
    present = values.get("present")
    return (
        [] if present is None else [("in the table", f"{present['meaning']} (its own noisy counts, three deviations)")]
    )


def assumed_words(declared: Mapping[str, Any]) -> str:
    """What was taken for granted about every record unless it was declared otherwise."""
    cap = declared["cap"]
    ends = "records may end before the horizon, and what follows is worth 0"
    return "; ".join(
        [
            declared["steps"],
            ends if declared["early_end"] else "every record has all its steps",
            missing_reward_words(declared["missing_reward"]),
            MISSING[declared["missing"]],
            *_numbers_words(declared),
            *([f"at most {counted(cap, 'row')} of one user count, drawn by lot"] if cap is not None else []),
        ]
    )


def _numbers_words(declared: Mapping[str, Any]) -> list[str]:
    """Which numbers count where states or actions are no labels: who counts from one would lose the last of them."""
    return [
        f"{name} are whole numbers from 0 to {declared[name] - 1}, and rows with others are dropped"
        for name, labels in (("states", "state_labels"), ("actions", "action_labels"))
        if declared[labels] is None
    ]


def _on_average(average: float | None, by_state: list[float]) -> str:
    """The average over first states, or the range over states where first states are not known."""
    if average is not None:
        return f"{average:.4g}, on average over first states"
    low, high = by_state
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}, by state at the first step"


def _stated(facts: Mapping[str, Any]) -> _Stated | None:
    """The numbers that sentences are about: the stated ones, or for a promise of rho those at a usual delta."""
    guarantee = facts["guarantee"]
    if guarantee["epsilon"] is not None:
        return _Stated(guarantee["epsilon"], guarantee["delta"], guarantee["exceeded"])
    for entry in guarantee["epsilon_at"][1:]:
        if entry["epsilon"] is not None:
            return _Stated(entry["epsilon"], entry["delta"], entry["exceeded"])
    return None
