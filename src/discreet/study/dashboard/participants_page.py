"""The page for participants: what is asked, what leaves, what is promised, what was learned, and how to check it.

It is a function of what is public, and is made anew when a round closes. It is whole without scripts; one script adds a
button that recomputes the hashes in the browser, and says when a newer round is out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from discreet.privacy.words import rounded_up
from discreet.study.dashboard.page_words import HIDDEN, LEAVES, collude_words, promise_words
from discreet.study.dashboard.policy_view import PolicyTable

_MOST_ROWS, _MOST_STEPS = 200, 60  # of a table that people read


class ChargeRow(NamedTuple):
    """An entry of the ledger: its number, when, what for, and its cost in words."""

    number: int
    time: str
    what: str
    cost: str


@dataclass(frozen=True)
class PublicFacts:
    """What the page says; all of it is a release, or follows from the declaration.

    ``study`` is the message about the study; ``declaration``, ``policy_text`` and ``head_text`` are the very texts that
    were hashed. ``counted`` reports had been counted when ``round`` opened.
    """

    study: Mapping[str, Any]
    declaration: str
    round: int
    opened: str
    ended: str | None
    head: Mapping[str, Any]
    head_text: str
    policy: PolicyTable
    policy_text: str
    counted: int
    total: int
    budget: Mapping[str, str]
    charges: Sequence[ChargeRow]  # the first, and the last ones
    entries: int  # how many there are


def participants_page(facts: PublicFacts) -> str:
    """The whole page as HTML."""
    declared = facts.study["study"]
    title = declared["title"] or declared["name"]
    sections = (_asked(facts), _leaves(facts), _promised(facts), _learned(facts), _charged(facts), _checks(facts))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<link rel="icon" href="static/icon.svg">
<link rel="stylesheet" href="static/style.css">
<script type="module" src="static/public.js"></script>
</head>
<body class="reading" data-round="{facts.round}">
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<p class="kind">A study with differential privacy</p>
<h1>{_text(title)}</h1>
<p class="lead">{_state(facts)}</p>
<p id="news" role="status"></p>
</header>
<main id="main">
{"".join(sections)}
</main>
<footer><p>This page changes when a round closes, and says nothing that is not public.
<a href="dashboard">For the person who runs the study</a>.</p></footer>
</body>
</html>
"""


def _state(facts: PublicFacts) -> str:
    if facts.ended is not None:
        return f"The study has ended after {facts.counted:,} reports: {escape(facts.ended)}."
    return (
        f"Round {facts.round:,} is open since {_time(facts.opened)}. {facts.counted:,} of {facts.total:,} reports have "
        "been counted."
    )


def _asked(facts: PublicFacts) -> str:
    declared, policy = facts.study["study"], facts.policy
    problem, most = declared["problem"], declared["users"]["reports_per_user"]
    low, high = problem["rewards"]
    times = "one episode" if most == 1 else f"up to {most:,} episodes"
    about = f"<p>{_text(declared['about'])}</p>" if declared["about"] else ""
    rows = [
        ("Who takes part", f"{declared['users']['number']:,} people with {times} each"),
        ("An episode", "one step" if problem["horizon"] == 1 else f"{problem['horizon']:,} steps"),
        ("Situations", _listed(policy.states)),
        ("Choices", _listed(policy.actions)),
        ("A reward", f"a number from {low:g} to {high:g}, reported as one random bit"),
    ]
    return _section("asked", "What is asked", about + _facts(rows))


def _leaves(facts: PublicFacts) -> str:
    model = facts.study["study"]["privacy"]["model"]
    text = f"<p>{escape(LEAVES[model])}</p><p>That you take part, and when, is not hidden. {escape(HIDDEN[model])}</p>"
    return _section("leaves", "What leaves your device", text)


def _promised(facts: PublicFacts) -> str:
    promise, model = facts.study["promise"], facts.study["study"]["privacy"]["model"]
    epsilon, delta = promise["epsilon"], promise["delta"]
    words = "".join(f"<p>{escape(line)}</p>" for line in promise_words(model, promise))
    rare = rounded_up(delta, 3) if delta else "0: the promise has no exception"
    numbers = [("Epsilon", rounded_up(epsilon)), ("Delta", rare), ("Counts for", escape(promise["unit"]))]
    body = (
        f'<p class="promise">{escape(promise["words"])}</p>{words}{_facts(numbers)}'
        f"<h3>If others work together</h3><p>{escape(collude_words(model, promise))}</p>"
    )
    return _section("promised", "What is promised", body)


def _learned(facts: PublicFacts) -> str:
    about = (
        "What the study does now, computed from noisy numbers alone. Everybody sees the same."
        if facts.ended is None
        else "What the study recommends in the end, computed from noisy numbers alone."
    )
    caption = f"The policy of round {facts.round:,}: what is done in each situation, at each step"
    return _section("learned", "What was learned so far", f"<p>{about}</p>{policy_html(facts.policy, caption)}")


def _charged(facts: PublicFacts) -> str:
    hidden = facts.entries - len(facts.charges)
    body = "".join(
        f'<tr><th scope="row">{row.number:,}</th><td>{_text(row.what)}</td><td>{escape(row.cost)}</td>'
        f"<td>{_time(row.time)}</td></tr>"
        for row in facts.charges
    )
    note = f"<p>{hidden:,} entries after the first are not shown.</p>" if hidden else ""
    columns = ("Entry", "What", "Cost", "Time")
    account = _facts([("Budget", escape(facts.budget["limit"])), ("Spent", escape(facts.budget["spent"]))])
    why = (
        "<p>The whole promise is paid when the study opens. What is released later costs nothing more, because nobody "
        "is in more rounds than were paid for.</p>"
    )
    return _section(
        "charged", "What was charged", why + account + _table("The ledger of charges", columns, body) + note
    )


def _checks(facts: PublicFacts) -> str:
    head = facts.head
    texts = (
        ("declaration", "The declaration, as it is hashed", facts.declaration),
        ("policy-text", "The policy, as it is hashed", facts.policy_text),
        ("head-text", "The signed head", facts.head_text),
    )
    shown = "".join(
        f'<details><summary>{name}</summary><pre id="{key}" tabindex="0" role="region" aria-label="{name}">'
        f"{escape(text)}</pre></details>"
        for key, name, text in texts
    )
    rows = [
        ("Study", _hash(facts.study["hash"], "study-hash")),
        ("Policy", _hash(head["policy"], "policy-hash")),
        ("Head before", _hash(head["previous"] or "none: this is the first round", "previous-hash")),
        ("Signed by", _hash(head["key"], "key")),
        ("Signature", _hash(head["signature"], "signature")),
    ]
    how = (
        "<p>The hash of the declaration is the name of the study: a device that has agreed to it takes part in this "
        "study and no other. Every policy is signed. Two signed heads for one round would prove that different people "
        "were shown different things: compare yours with somebody else's.</p>"
        '<p class="script-only"><button type="button" id="check">Check it in this browser</button></p>'
        '<ul id="checked" aria-live="polite"></ul>'
        "<p>Or by hand: copy a text below into a file, without a line break at its end, and compare "
        '<code>sha256sum FILE</code> with its hash. All heads are at <a href="v1/heads">v1/heads</a>, the study is at '
        '<a href="v1/study">v1/study</a>. A device with <code>discreet.client</code> checks all of it each time.</p>'
    )
    return _section("checks", "How to check", _facts(rows) + how + shown)


def policy_html(policy: PolicyTable, caption: str) -> str:
    """A policy as a table: a row for each state, a column for each step."""
    steps, states = policy.cells[:_MOST_STEPS], policy.states[:_MOST_ROWS]
    rows = []
    for s, state in enumerate(states):
        cells = "".join(
            f'<td class="action action-{row[s].action % 8}">{_text(row[s].label)}'
            + ("" if policy.certain else f" <small>{row[s].share:.0%}</small>")
            + "</td>"
            for row in steps
        )
        rows.append(f'<tr><th scope="row">{_text(state)}</th>{cells}</tr>')
    whole = len(steps) == len(policy.cells) and len(states) == len(policy.states)
    note = "" if whole else '<p>Only a part is shown: the whole policy is at <a href="v1/policy">v1/policy</a>.</p>'
    columns = ("Situation", *(f"Step {h + 1}" for h in range(len(steps))))
    return _table(caption, columns, "".join(rows), kind="policy") + note


def _section(name: str, title: str, body: str) -> str:
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>{body}</section>\n'


def _table(caption: str, columns: Iterable[str], body: str, kind: str = "plain") -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="{kind}">'
        f"<caption><span>{escape(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names with values, which are HTML already."""
    return f"<dl>{''.join(f'<div><dt>{escape(name)}</dt><dd>{value}</dd></div>' for name, value in rows)}</dl>"


def _text(text: str) -> str:
    """Somebody else's words: text, in a direction of its own."""
    return f"<bdi>{escape(text)}</bdi>"


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(_text(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def _hash(text: str, key: str) -> str:
    return f'<code class="hash" id="{key}">{escape(text)}</code>'


def _time(text: str) -> str:
    return f'<time datetime="{escape(text)}">{escape(text[:16].replace("T", " "))} UTC</time>'
