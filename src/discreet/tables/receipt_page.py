"""A receipt as a page: for a privacy officer first, for whoever wants to check it further down.

The page is one file without anything from elsewhere. It can be printed, read on a phone (nothing is wider than the
screen) and in the dark. It says nothing that the facts of the receipt do not say; ``words`` turns their numbers into
sentences.

Sections that are there when the facts have them: ``ledger`` (what was spent before) and ``evaluation`` (what the policy
is worth, with intervals). The receipt itself stands at the end, for ``discreet verify``.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from discreet.tables.receipt_words import (
    at_several_deltas,
    in_one_sentence,
    kept_words,
    not_promised,
    people_words,
    present_words,
    promised,
    sensitivity_words,
    unit_words,
    worth_words,
)

_OF_EPSILON = ("delta", "epsilon", "times as likely, at most", "50% to at most", "beyond it, with probability at most")
_SHOWN = 50  # entries of a list on the page; the JSON has all
_TITLES = {"value": "the learned policy", "behaviour": "what was done so far", "difference": "the difference"}

_STYLE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1c2427;--soft:#5b6a70;--line:#d8dfe2;--card:#f3f7f7;--mark:#00695c}
@media(prefers-color-scheme:dark){:root{--ground:#14191b;--ink:#e4eaec;--soft:#9aa9af;--line:#333e42;--card:#1d2528;
--mark:#5fc9b8}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:1rem/1.55 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:46rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 .25rem}
h2{font-size:1.1rem;margin:2rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line)}
p{margin:.5rem 0}.soft,dt,th,figcaption{color:var(--soft)}
.card{background:var(--card);border-left:4px solid var(--mark);padding:.75rem 1rem;margin:1rem 0}
.card strong{font-size:1.1rem}
dl{display:grid;grid-template-columns:minmax(8rem,13rem) 1fr;gap:.25rem 1rem;margin:.5rem 0}dt,dd{margin:0;min-width:0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{text-align:left;font-weight:normal;vertical-align:bottom}
th,td{padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--line);overflow-wrap:normal}
code,.tree{font-family:ui-monospace,monospace;font-size:.85rem}
.tree div{padding-left:calc(var(--depth)*1.1rem + 1rem);text-indent:-1rem;margin:.15rem 0}
details{margin:.5rem 0}summary{cursor:pointer}pre{white-space:pre-wrap;font-size:.8rem;margin:.5rem 0}
ul{padding-left:1.25rem;margin:.5rem 0}
.numbers td{white-space:nowrap}
@media(max-width:34rem){table{font-size:.9rem}th,td{padding-right:.4rem}dl{grid-template-columns:1fr;gap:0}
dd{margin:0 0 .5rem}
.tree div{padding-left:calc(var(--depth)*.5rem + .75rem);text-indent:-.75rem}}
@media print{:root{--ground:#fff;--ink:#000;--soft:#444;--line:#bbb;--card:#fff;--mark:#000}body{font-size:10pt}
main{max-width:none;padding:0}h2{break-after:avoid}dl,table,.card,li{break-inside:avoid}@page{margin:18mm}}
""".replace("\n", "")


def page(facts: Mapping[str, Any]) -> str:
    """The receipt as a page: the promise first, then what it rests on."""
    sections = [
        _section("What is promised", _paragraphs(promised(facts))),
        _section("What is not promised", _items(not_promised(facts))),
        _section("Who is protected", _paragraphs(unit_words(facts))),
        _section("What epsilon means for one person", _epsilons(facts)),
        _section("The data", _list(_data(facts))),
        _section("Spent before, and left", _budget(facts)),
        _section("What the policy is worth", _worth(facts)),
        _section("Why the promise holds", _derivation(facts["guarantee"]["derivation"])),
        _section("Noise", "".join(_list(_mechanism(part)) for part in facts["mechanisms"]) + _drawn(facts)),
        _section("What was done to every person's rows, the same for everybody", _items(facts["repairs"])),
        _section("Declared and enforced", _list(_named(facts["declared"]))),
        _section("Learner", _list(_named(facts["learner"]))),
        _section("Check it", _check(facts)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Privacy receipt</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body><main><h1>Privacy receipt</h1><p class=soft>{_text(_heading(facts))}</p>"
        f"<div class=card><strong>{_text(facts['guarantee']['statement'])}</strong>"
        f"<p>{_text(in_one_sentence(facts))}</p></div>{''.join(sections)}</main></body></html>\n"
    )


def _heading(facts: Mapping[str, Any]) -> str:
    name, ledger = facts["data"]["dataset"], facts["ledger"]
    about = "data set without a name" if name is None else f"data set {name}"
    reused = "" if ledger is None or not ledger["reused"] else f", for a release of {ledger['time'][:10]}"
    written = f"written on {facts['date']}{reused}"
    return f"{about[0].upper()}{about[1:]} · {written} · discreet {facts['versions']['discreet']}"


def _epsilons(facts: Mapping[str, Any]) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in at_several_deltas(facts))
    head = "".join(f"<th>{name}</th>" for name in _OF_EPSILON)
    return (
        f"<table class=numbers><tr>{head}</tr>{rows}</table>"
        "<p class=soft>The third column is e^epsilon. The last one bounds the probability of an outcome "
        "that her record makes likelier than that, which is not delta. Every row is true of the same release.</p>"
    )


def _data(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    data = facts["data"]
    return [
        ("name", data["dataset"] or "none was given (--dataset)"),
        ("people", people_words(facts)),
        ("a person is", "any row: event level" if data["user"] is None else f"a value of the column {data['user']}"),
        ("hash of its declaration", data["declaration"]),
    ]


def _budget(facts: Mapping[str, Any]) -> str:
    ledger = facts["ledger"]
    if ledger is None:
        return (
            f"<p>No ledger was kept, so this page cannot say what else was released about these people. "
            f"{_text(facts['adds_up'])} Ask for it, and keep a budget (<code>--ledger</code>).</p>"
        )
    words = ledger["words"]
    rows = [
        ("budget", words["budget"]),
        ("spent before", f"{words['spent_before']}, by {_entries(ledger['releases_before'])}"),
        ("this release", words["cost"]),
        ("left after it", words["left_after"]),
        ("entry of the ledger", f"{ledger['entry']:,}, {ledger['time']}"),
        ("hash of the entry", ledger["hash"]),
    ]
    again = "<p>Already paid: the stored release was used, at no further cost.</p>" if ledger["reused"] else ""
    return again + _list(rows)


def _entries(many: int) -> str:
    return {0: "nothing", 1: "one entry"}.get(many, f"{many:,} entries")


def _worth(facts: Mapping[str, Any]) -> str:
    """Private estimates with intervals where there are some; otherwise what the planner's values mean."""
    values = facts["values"]
    evaluation = facts.get("evaluation")
    stated = _list([*worth_words(values), *kept_words(values), *present_words(values)])
    if not evaluation:
        return f"<p>Nobody was held out to judge the policy.</p>{stated}"
    rows = "".join(
        f"<tr><td>{_text(title)}</td><td>{entry['estimate']:.4g}</td><td>{entry['low']:.4g} to {entry['high']:.4g}</td>"
        f"<td>{entry['confidence']:.0%}</td></tr>"
        for key, title in _TITLES.items()
        if (entry := evaluation.get(key)) is not None
    )
    head = "<tr><th></th><th>estimate</th><th>interval</th><th>confidence</th></tr>"
    notes = [str(evaluation[key]) for key in ("unit", "by", "verdict") if evaluation.get(key)]
    return f"<table>{head}{rows}</table>{_paragraphs(notes)}{stated}"


def _derivation(lines: Sequence[str]) -> str:
    """The tree of reasons, wrapped: a line is indented by its depth."""
    drawn = []
    for line in lines:
        depth = (len(line) - len(line.lstrip(" "))) // 3
        text = line.strip().removeprefix("└─ ")
        drawn.append(f'<div style="--depth:{depth}">{_text(text)}</div>')
    return f"<div class=tree>{''.join(drawn)}</div>"


def _mechanism(part: Mapping[str, Any]) -> list[tuple[str, str]]:
    law = ", ".join(f"{name} {value:.6g}" for name, value in part["law"].items() if name != "name")
    return [
        ("released", f"{part['statistic']}, {part['cells']:,} numbers"),
        ("one person moves", sensitivity_words(part["sensitivity"])),
        ("noise in each", f"{part['law']['name']}" + (f" with {law}" if law else "")),
        *([("rho", f"{part['rho']:.6g}")] if part["rho"] is not None else []),
    ]


def _drawn(facts: Mapping[str, Any]) -> str:
    return f"<p>Drawn by: {_text(facts['noise'])}.</p>"


def _named(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _value(value)) for name, value in facts.items()]


def _value(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case int():
            return f"{value:,}"
        case list():
            more = f", ... {len(value):,} in all" if len(value) > _SHOWN else ""
            return (", ".join(_value(each) for each in value[:_SHOWN]) or "nothing") + more
        case _:
            return str(value)


def _check(facts: Mapping[str, Any]) -> str:
    rows = [("policy, SHA-256", facts["policy"]["sha256"])]
    rows.append(("made with", ", ".join(f"{name} {version}" for name, version in facts["versions"].items())))
    signature = facts.get("signature")
    rows.append(("signed by the key", "none: this receipt is not signed" if signature is None else signature["key"]))
    text = html.escape(json.dumps(facts, indent=1, allow_nan=False))
    return (
        f"{_list(rows)}<p>This page can be changed by anybody. What can be checked is the receipt below, which carries "
        "a certificate and, if it is signed, a signature of all of it: save it as <code>receipt.json</code> and run "
        "<code>discreet verify receipt.json --key KEY</code>, where KEY is the fingerprint that the owner of the data "
        "told you, not one that you found here.</p>"
        f"<details><summary>The receipt</summary><pre>{text}</pre></details>"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{body}</section>\n"


def _list(rows: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{_text(name)}</dt><dd>{_text(value)}</dd>' for name, value in rows)}</dl>"


def _items(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"


def _paragraphs(lines: Iterable[str]) -> str:
    return "".join(f"<p>{_text(line)}</p>" for line in lines)


def _text(text: str) -> str:
    return html.escape(text)
