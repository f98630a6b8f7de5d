"""``discreet recipes`` shows what each published mechanism really gives at the sizes that it is quoted for."""

from __future__ import annotations

import json

import pytest

from discreet.cli import main
from discreet.papers import PUBLISHED, example

SHOWN = {
    "published/heavy-tailed-central": ("epsilon 1", "epsilon 1.75"),
    "published/heavy-tailed-central-raw-counts": ("epsilon 1", "epsilon at least 1566"),
    "published/adversarial-full-information": ("epsilon 1", "epsilon 5.334"),
    "published/adversarial-bandit": ("epsilon 1", "epsilon 2.001"),
    "published/ldp-obi-gaussian": ("epsilon 20, delta 0.1", "epsilon 51.74 at delta 0.1, or delta 0.9861"),
    "published/ldp-obi-laplace": ("epsilon 1", "epsilon 0.8334"),
    "published/offline-vapvi": ("rho 1", "at most rho 0.8"),
    "published/offline-vapvi-experiment": ("rho 1", "at most rho 24.15"),
    "published/sdp-pe-split": ("epsilon 0.9", "epsilon 1.8"),
    "published/sdp-pe-integer-messages": ("epsilon 0.9, delta 1e-05", "delta at least 0.176"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_mechanism_has_an_example_that_it_can_be_computed_at(name):
    at = example(name)
    truth = PUBLISHED[name].truth(at.shape, epsilon=at.epsilon, delta=at.delta, rho=at.rho, episodes=at.episodes)
    assert truth.claimed is not None
    assert truth.epsilon >= 0


def test_the_list_shows_claims_beside_truths(tmp_path):
    file = tmp_path / "recipes.json"
    with pytest.raises(SystemExit) as stop:
        main(["recipes", "--json", str(file)])
    assert stop.value.code == 0
    entries = {entry["name"]: entry for entry in json.loads(file.read_text())}
    assert set(PUBLISHED) <= set(entries)
    assert {name: (entries[name]["claimed"], entries[name]["true"]) for name in SHOWN} == SHOWN
    for name, entry in PUBLISHED.items():
        assert entry.statement.where in entries[name]["source"]
        assert entries[name]["condition"] == entry.statement.condition
