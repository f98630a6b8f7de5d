"""What a prompt and a notebook show of a fit and of an evaluation: short, and nothing of anybody's rows."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import discreet

pd = pytest.importorskip("pandas", reason="needs a table")
pytest.importorskip("duckdb", reason="needs the extra 'data'")

USERS = 400
DECLARED = {
    "user": "u", "step": "t", "state": "s", "action": "a", "reward": "r", "states": ["calm", "tense"], "actions": 2,
    "horizon": 1, "early_end": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    columns = {
        "u": [f"secret-{user}" for user in range(USERS)],
        "t": [0] * USERS,
        "s": rng.choice(["calm", "tense"], USERS),
        "a": rng.integers(2, size=USERS),
        "r": rng.random(USERS),
    }
    return discreet.data.read(pd.DataFrame(columns), **DECLARED)


def check(thing):
    text, html = repr(thing), thing._repr_html_()
    assert "\n" not in text
    assert len(text) < 120
    assert "epsilon" in text
    assert "secret" not in text + html
    return [cell.text for cell in ElementTree.fromstring(html).iter("td")]


def test_a_fit_shows_its_recipe_and_promise(table):
    fit = discreet.offline.train(table, epsilon=2.0)
    assert repr(fit) == f"<Fit: apvi by {fit.recipe}, {fit.guarantee.brief()}>"
    cells = check(fit)
    assert fit.guarantee.statement() in cells
    # Actions that are alike are drawn as users drew them, so the policy may be of either kind.
    assert any(text and "Policy: 1 step, 2 states" in text and text.endswith("labelled>") for text in cells)


def test_an_evaluation_shows_its_intervals_and_verdict(table):
    policy = discreet.Policy(np.ones((1, 2), int), ["calm", "tense"])
    found = discreet.offline.evaluate(table, policy, epsilon=4.0, behaviour="uniform")
    assert found.value.words() in repr(found)
    assert found.value.words() in check(found)
    assert found.verdict.word in found._repr_html_()
