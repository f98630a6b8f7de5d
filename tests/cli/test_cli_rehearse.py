"""``discreet rehearse``: a table, a verdict, and what to type next."""

from __future__ import annotations

import json

import pytest

SMALL = ("--episodes", "300", "--runs", "2", "--threads", "1", "--epsilon", "1")
ARMS = ("--states", "1", "--actions", "3", "--horizon", "1")


def test_a_shape_is_rehearsed_and_the_winner_is_told_how_to_be_used(discreet, tmp_path):
    file = tmp_path / "rehearsal.json"
    outcome = discreet(
        "rehearse", *SMALL, *ARMS, "--recipe", "central/joint-histogram-laplace", "--option", "blocks=20,60",
        "--learner", "ucbvi", "--learner", "ucbvi,noise_scale=0.5", "--json", str(file),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "sees no data and costs no privacy" in outcome.out
    assert "discreet simulate --world YOURS --learner ucbvi --privacy central --epsilon 1" in outcome.out
    data = json.loads(file.read_text())
    assert [(row["knobs"], row["options"]) for row in data["rows"]].count(({"noise_scale": 0.5}, {"blocks": 60})) == 1
    assert len(data["rows"]) == 4
    assert data["rows"][0]["share"]["mean"] <= data["rows"][-1]["share"]["mean"]


def test_a_named_world_is_rehearsed(discreet):
    outcome = discreet(
        "rehearse", *SMALL, "--world", "bandit", "--world-option", "arms=3", "--recipe", "central/first-visit-laplace"
    )
    assert outcome.code == 0, outcome.err
    assert "discreet simulate --world bandit --world-option arms=3 --learner ucbvi" in outcome.out
    assert "is the only candidate" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "say where to rehearse: --world NAME, or a shape by --states, --actions and --horizon"),
        (("--states", "3"), "say where to rehearse"),
        ((*ARMS, "--instance", "3"), "give its name with --world"),
        ((*ARMS, "--learner", "ucbvi,noise_scale"), "--learner takes name=value, got 'noise_scale'"),
        ((*ARMS, "--learner", "ucbv"), "did you mean ucbvi"),
        ((*ARMS, "--recipe", "central/none"), "unknown recipe"),
        ((*ARMS, "--option", "bloks=3"), "none of the recipes has an option 'bloks'"),
        ((*ARMS, "--runs", "0"), "runs must be a whole number of at least 1"),
    ],
)
def test_bad_input_is_one_line(discreet, tmp_path, arguments, sentence):
    file = tmp_path / "rehearsal.json"
    small = SMALL[:2] + SMALL[4:] if "--runs" in arguments else SMALL  # an option is given once
    outcome = discreet("rehearse", *small, *arguments, "--json", str(file))
    assert outcome.code == 2
    assert outcome.err.startswith("discreet: ")
    assert outcome.err.count("\n") == 1
    assert sentence in outcome.err
    assert not file.exists()
