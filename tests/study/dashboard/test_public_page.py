"""The page for participants: says what is public, escapes what others wrote, and reads well to machines."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from discreet.base.errors import InvalidInput
from discreet.study.dashboard.page_words import COLLUDE, HIDDEN, LEAVES, REFUSALS, SEEN, collude_words, promise_words
from discreet.study.dashboard.participants_page import ChargeRow, PublicFacts, participants_page
from discreet.study.dashboard.policy_view import policy_table
from discreet.study.service.declaration import parse_study
from discreet.study.service.wire_messages import STATUS

HOSTILE = "</h1><script>alert(\"x\")</script>' onload='alert(1)"


def facts(**declared) -> PublicFacts:
    """What a small study would say."""
    problem = {"states": ["calm", "busy"], "actions": ["wait", "remind"], "horizon": 2, "rewards": [0.0, 1.0]}
    declaration = {
        "name": "small",
        "title": "Which reminder helps?",
        "about": "A reminder a day.",
        "problem": problem,
        "privacy": {"model": "local"},
        "users": {"number": 20, "reports_per_user": 1},
        **declared,
    }
    promise = {"epsilon": 2.0, "delta": 0.0, "unit": "all reports of a participant", "words": "Whatever was in it."}
    policy = {"kind": "deterministic", "actions": [[0, 1], [1, 1]]}
    head = {"round": 3, "policy": "sha256:aa", "previous": "sha256:bb", "key": "cc", "signature": "dd"}
    return PublicFacts(
        study={"study": declaration, "hash": "sha256:ee", "promise": promise},
        declaration="{}",
        round=3,
        opened="2026-11-16T02:30:00+00:00",
        ended=None,
        head=head,
        head_text="{}",
        policy=policy_table(policy, declaration["problem"]),
        policy_text="{}",
        counted=7,
        total=20,
        budget={"limit": "epsilon 2", "spent": "epsilon 2"},
        charges=[ChargeRow(1, "2026-11-16T02:00:00+00:00", "the whole study small", "epsilon 2")],
        entries=1,
    )


class Outline(HTMLParser):
    """Tags with their attributes, and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def test_the_page_says_what_is_asked_what_leaves_and_what_is_promised():
    outline = Outline(participants_page(facts()))
    assert not outline.open
    for said in (
        "Which reminder helps?",
        "A reminder a day.",
        LEAVES["local"],
        COLLUDE["local"],
        "Whatever was in it.",
        "multiplies the odds of the true one by at most 7.39",
        "7 of 20 reports have been counted",
        "the whole study small",
        "sha256:ee",
    ):
        assert said in outline.text


def test_the_policy_stands_there_with_labels():
    text = Outline(participants_page(facts())).text
    assert "calmwaitremind" in text.replace(" ", "")
    assert "busyremindremind" in text.replace(" ", "")


def test_tables_have_captions_and_scopes_and_headings_have_an_order():
    tags = Outline(participants_page(facts())).tags
    names = [tag for tag, _ in tags]
    assert names.count("table") == names.count("caption") == 2
    assert all(attributes.get("scope") in ("row", "col") for tag, attributes in tags if tag == "th")
    levels = [int(tag[1]) for tag in names if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    identities = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    pointed = [attributes["aria-labelledby"] for _, attributes in tags if "aria-labelledby" in attributes]
    assert set(pointed) <= set(identities)
    assert names.count("main") == names.count("header") == names.count("footer") == 1


@pytest.mark.parametrize("field", ["title", "about", "states", "actions"])
def test_what_others_wrote_is_text(field):
    problem = {"states": ["calm", "busy"], "actions": ["wait", "remind"], "horizon": 2, "rewards": [0.0, 1.0]}
    changed = {field: HOSTILE} if field in ("title", "about") else {"problem": {**problem, field: [HOSTILE, "other"]}}
    outline, plain = Outline(participants_page(facts(**changed))), Outline(participants_page(facts()))
    assert HOSTILE in outline.text
    assert [tag for tag, _ in outline.tags] == [tag for tag, _ in plain.tags]
    assert not any(name.startswith("on") for _, attributes in outline.tags for name in attributes)


def test_what_a_ledger_and_an_ending_say_is_text_too():
    promise = {"epsilon": 2.0, "delta": 0.0, "unit": HOSTILE, "words": HOSTILE}
    row = ChargeRow(1, "2026-11-16T02:00:00+00:00", HOSTILE, HOSTILE)
    plain = facts()
    hostile = replace(plain, charges=[row], ended=HOSTILE, study={**plain.study, "promise": promise})
    outline, usual = (
        Outline(participants_page(hostile)),
        Outline(participants_page(replace(plain, ended="as declared"))),
    )
    assert outline.text.count(HOSTILE) == 5
    assert [tag for tag, _ in outline.tags] == [tag for tag, _ in usual.tags]


@pytest.mark.parametrize("mark", ["\u202e", "\u200f", "\u2066", "\x1b", "\x00"])
def test_marks_that_turn_text_around_are_refused_before_a_study_is_served(mark):
    """Letters that run from right to left are printable, and are shown in a direction of their own; marks are not."""
    text = 'format = 2\nname = "x"\ntitle = "{}"\n[privacy]\nmodel = "local"\n'
    with pytest.raises(InvalidInput, match="title must be printable text"):
        parse_study(text.format(f"\\U{ord(mark):08x}"))
    with pytest.raises(InvalidInput, match="has no"):
        parse_study(text.format("\u05e9"))


def test_there_is_no_script_or_style_inside():
    page = participants_page(facts())
    assert "<style" not in page
    assert not any(name in ("style", "onclick") for _, attributes in Outline(page).tags for name in attributes)
    assert [attributes["src"] for tag, attributes in Outline(page).tags if tag == "script"] == ["static/public.js"]


def test_large_policies_are_cut_and_say_so():
    problem = {"states": 300, "actions": 2, "horizon": 1, "rewards": [0.0, 1.0]}
    policy = policy_table({"kind": "deterministic", "actions": [[0] * 300]}, problem)
    text = Outline(participants_page(replace(facts(problem=problem), policy=policy))).text
    assert "state 199" in text
    assert "state 200" not in text
    assert "Only a part is shown" in text


def test_epsilon_in_words_never_sounds_better_than_it_is():
    local = {"epsilon": 1.0, "delta": 0.0}
    assert "2.719" in promise_words("local", local)[0]
    central = promise_words("central", {"epsilon": 1.0, "delta": 1e-5, "exceeded": 4e-4})
    assert "one in 2,500" in central[0]
    assert "40 times delta" in central[3]
    assert len(promise_words("local", local | {"epsilon": 4.9})) == 3
    assert "excludes little" in promise_words("local", local | {"epsilon": 5.0})[3]


def test_what_holds_if_parties_collude_is_what_the_study_computed():
    assert collude_words("shuffle", {"alone": {"words": "epsilon 22 is left"}}) == "epsilon 22 is left"
    assert set(LEAVES) == set(HIDDEN) == set(COLLUDE) == set(SEEN) == {"local", "central", "shuffle"}


def test_only_where_it_is_so_nobody_at_all_can_see_what_you_did():
    central = Outline(participants_page(facts(privacy={"model": "central"}))).text
    assert "hidden from everybody but whoever runs the coordinator" in central
    assert "What you did is." not in central


def test_every_refusal_is_explained():
    assert set(REFUSALS) == set(STATUS)
