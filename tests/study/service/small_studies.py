"""Small studies for tests: declared in a folder, driven in process with honest reports."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np

from discreet.study.service.coordinator import Coordinator
from discreet.study.service.declaration import Study, read_study
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import new_study, places_of

CENTRAL = {
    'model = "local"': 'model = "central"',
    "epsilon = 4.0": "epsilon = 1.0",
    "delta = 0.0": "delta = 1e-5",
    'recipe = "auto"': 'recipe = "central/first-visit-laplace"',
    "options = {}\n\n[users]": "options = { blocks = 4 }\n\n[users]",
}
MATRIX = CENTRAL | {'recipe = "auto"': 'recipe = "central/first-visit-matrix"'}
SAMPLED = {'recipe = "auto"': 'recipe = "local/sampled-step"'}
ASKED = {'recipe = "auto"': 'recipe = "local/asked-first-visit"'}
MODELS = {"local": SAMPLED, "asked": ASKED, "central": CENTRAL}
TOKENS = {"tokens = false": "tokens = true"}


def said(file: Path, epsilon: float = 4.0) -> str:
    """The text of a new study, with what it leaves empty; written, too."""
    text = file.read_text()
    for name, value in (("title", '"Which reminder helps?"'), ("about", '"What is asked."'), ("epsilon", epsilon)):
        assert f'\n{name} = "" ' in text
        text = text.replace(f'\n{name} = "" ', f"\n{name} = {value} ")
    file.write_text(text)
    return text


def declared(folder: Path, *changes: dict[str, str], number: int = 12) -> Path:
    """A study file of two states, two actions and two steps, with these changes of the template."""
    file = folder / "small.toml"
    new_study(file)
    text = said(file)
    small = {"states = 4": "states = 2", "horizon = 6": "horizon = 2", "number = 20000": f"number = {number}"}
    for change in (small, *changes):
        for old, new in change.items():
            assert old in text, old
            text = text.replace(old, new)
    file.write_text(text)
    return file


def coordinator(file: Path, database: str | Path | None = None, **handed_in: Any) -> Coordinator:
    """A coordinator of the study in this file."""
    places = places_of(file)
    return Coordinator(read_study(file), Database(database or places.database), places, **handed_in)


def study_in(file: Path) -> Study:
    """The study of a file."""
    return read_study(file)


def action_of(policy: dict[str, Any], step: int, state: int, rng: np.random.Generator) -> int:
    """What an honest device does: the action of a policy that says one, or one that it draws."""
    if "actions" in policy:
        return int(policy["actions"][step][state])
    chances = policy["probabilities"][step][state]
    return int(rng.choice(len(chances), p=np.array(chances) / sum(chances)))


def report(at: Coordinator, rng: np.random.Generator, number: int | None = None) -> dict[str, Any]:
    """An honest report for the open round, or for an earlier one of a local study."""
    answer = at.policy()
    shape, kind = at.declared.shape, at.mechanism.report_kind()
    sent: dict[str, Any]
    if kind["kind"] == "record":
        state, steps = shape.start or 0, []
        for h in range(shape.horizon):
            action = action_of(answer["policy"], h, state, rng)
            steps.append([state, action, int(rng.integers(2))])
            state = int(rng.integers(shape.states))
        sent = {"kind": "record", "steps": steps}
    elif kind["kind"] == "asked-first-visit":
        weights = np.array(answer["questions"], np.float64)
        question = 2 * int(rng.choice(len(weights), p=weights / weights.sum())) + int(rng.integers(2))
        size = answer["laws"][question % 2]["items"]
        sent = {"kind": "answer", "question": question}
        if kind["response"] == "unary" and question % 2 == 0:
            sent["bits"] = "".join(map(str, rng.integers(2, size=size)))
        else:
            sent["answer"] = int(rng.integers(size))
    else:
        picked = sorted(int(h) for h in rng.choice(shape.horizon, kind["steps"], replace=False))
        items = [int(rng.integers(answer["laws"][h]["items"])) for h in picked]
        sent = {"kind": "items", "steps": picked, "items": items}
    return {
        "study": at.declared.hash,
        "round": answer["round"] if number is None else number,
        "id": secrets.token_hex(16),
        "report": sent,
    }


def run_to_the_end(at: Coordinator, rng: np.random.Generator) -> int:
    """Send honest reports, one at a time, until the study has ended; gives how many."""
    sent = 0
    while at.published.ended is None:
        at.accept(report(at, rng))
        sent += 1
        at.close_if_full()
    return sent
