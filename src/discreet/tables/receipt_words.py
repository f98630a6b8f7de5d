"""The numbers of a receipt in sentences that a privacy officer can read and repeat.

What an epsilon means for a person. Somebody who knows everybody else's record, and wonders which of two records is
hers, holds some odds. Seeing the release multiplies them by the ratio of its probabilities under the two, which is at
most e^epsilon; the delta is the probability, at most, that more than that is learned. From a suspicion as likely as not
the odds of one to one become e^epsilon to one, a probability of e^epsilon / (1 + e^epsilon).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.privacy.odds import factor, likely, one_in
from discreet.privacy.words import rounded_up

_LARGE = 5.0  # from here on odds grow by more than a hundred


def in_one_sentence(facts: Mapping[str, Any]) -> str:
    """The promise in a sentence: what e^epsilon does to odds."""
    epsilon, delta = _stated(facts)
    if epsilon is None:
        return "No finite epsilon holds: see below what is promised instead."
    return (
        f"Whatever somebody suspects about one person, seeing this release multiplies the odds by at most "
        f"{factor(epsilon)}{_except(delta)}."
    )


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
    epsilon, delta = _stated(facts)
    everything = "the policy, its values and this page"
    if epsilon is None:
        return [f"Nothing that can be stated by epsilon is promised about what was released ({everything})."]
    sure = likely(epsilon)
    lines = [
        f"Take any one person in the data. Whoever sees what was released ({everything}), even knowing the records of "
        f"everybody else, learns only so much about hers: any result was at most {factor(epsilon)} times as likely "
        f"with her record as it would have been with any other in its place{_except(delta)}. A suspicion about her, "
        f"as likely as not before, 50%, is at most {sure} afterwards.",
        "This holds against everybody, with any computer and any other knowledge, now and later, and for whatever is "
        "computed from the release. It was computed from the noise that was added, not assumed.",
    ]
    if epsilon >= _LARGE:
        lines.append(f"This epsilon is large: at odds of {factor(epsilon)} to one it excludes little by itself.")
    if delta and delta * people(facts) >= 1:
        lines.append(
            f"This delta is large: with {people(facts):,} people it would allow showing one of them "
            "entirely. Ask for a delta well below one in the number of people."
        )
    return lines


def not_promised(facts: Mapping[str, Any]) -> list[str]:
    """What a reader might take the promise for, and must not."""
    public = facts["declared"]["public"]
    known = f"how many people there are ({people_words(facts)})" + (f", {', '.join(public)}" if public else "")
    return [
        "That nothing is learned about people like her: what the data show about everybody (which treatment helps in "
        "which state) is what the release is for, and it applies to her whether or not her record is in it.",
        f"That public things are hidden: {known}, and everything under 'Declared and enforced'.",
        "That the rows themselves, copies of them or other files are safe: this is about the release alone.",
        "That other releases about the same people cost nothing: losses add up.",
        "That the policy is good, or safe to use.",
    ]


def unit_words(facts: Mapping[str, Any]) -> list[str]:
    """Who or what is one unit of protection."""
    guarantee, times = facts["guarantee"], facts["declared"]["trajectories_per_user"]
    most = "one trajectory" if times == 1 else f"at most {times:,} trajectories"
    return [
        f"One person: everything that belongs to one value of the column {facts['data']['user']!r}, {most} with all "
        f"rows, taken together. Formally, the unit is {guarantee['unit']!r}, and neighbouring data sets "
        f"{guarantee['neighbours']}.",
        "If one person has several such values (two identifiers, two hospitals), the promise is for each of them and "
        "not for the person.",
    ]


def at_several_deltas(facts: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Rows (delta, epsilon, factor, probability), the stated pair among them."""
    guarantee = facts["guarantee"]
    pairs = {entry["delta"]: entry["epsilon"] for entry in guarantee["epsilon_at"]}
    if guarantee["epsilon"] is not None:
        pairs[guarantee["delta"]] = guarantee["epsilon"]
    return [
        (
            "0" if delta == 0 else rounded_up(delta, 3),
            "none" if epsilon is None else rounded_up(epsilon),
            "no bound" if epsilon is None else factor(epsilon),
            "no bound" if epsilon is None else likely(epsilon),
        )
        for delta, epsilon in sorted(pairs.items())
    ]


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


def _on_average(average: float | None, by_state: list[float]) -> str:
    """The average over first states, or the range over states where first states are not known."""
    if average is not None:
        return f"{average:.4g}, on average over first states"
    low, high = by_state
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}, by state at the first step"


def _stated(facts: Mapping[str, Any]) -> tuple[float | None, float]:
    """The pair that sentences are about: the stated one, or for a promise of rho that at a usual delta."""
    guarantee = facts["guarantee"]
    if guarantee["epsilon"] is not None:
        return guarantee["epsilon"], guarantee["delta"]
    for entry in guarantee["epsilon_at"][1:]:
        if entry["epsilon"] is not None:
            return entry["epsilon"], entry["delta"]
    return None, 0.0


def _except(delta: float) -> str:
    return "" if delta == 0 else f", except with a probability of at most {one_in(delta)} (delta)"
