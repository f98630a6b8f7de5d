"""Every mutant is convicted by the stage that is named for it, and the page about them is up to date."""

from __future__ import annotations

import pytest
from mutants import COUPLING, EDITS, LIKELIHOOD, MUTANTS, PAGE, SAMPLERS, page
from on_trial import RECIPES, USERS, target

import discreet
from discreet.audit.audit import audit
from discreet.audit.stages import coupling_of, run_stages
from discreet.recipes.registry import build

SOURCE = discreet.__path__[0]


def convicted(mutant, privatizer):
    """Whether the stage that is named for the mutant convicts."""
    if mutant.stage == LIKELIHOOD:
        return not audit(privatizer, privatizer.shape, trials=20_000, sessions=False).holds
    if mutant.stage == COUPLING:
        return not coupling_of([privatizer]).holds
    return not run_stages([privatizer], 0, pairs=1)[1].holds


def made(mutant):
    return build(target(mutant.recipe, delta=mutant.delta, **dict(mutant.options)), mutant.shape, USERS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.what for mutant in MUTANTS])
def test_every_mutant_is_convicted(mutant, monkeypatch):
    mutant.patch(monkeypatch)
    assert convicted(mutant, mutant.change(made(mutant)))


# Sessions of all recipes with their usual options are coupled in test_coupling.py.
HONEST = {
    (mutant.recipe, mutant.stage, mutant.shape, mutant.options): mutant
    for mutant in MUTANTS
    if mutant.options or mutant.stage != COUPLING
}


@pytest.mark.parametrize("mutant", HONEST.values(), ids=[f"{key[0]} {key[1]} {dict(key[3])}" for key in HONEST])
def test_its_honest_twin_is_not(mutant):
    assert not convicted(mutant, made(mutant))


def test_there_are_many_of_all_kinds():
    assert len(MUTANTS) >= 60
    assert len({mutant.what for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.stage for mutant in MUTANTS} == {COUPLING, SAMPLERS, LIKELIHOOD}
    assert {RECIPES[mutant.recipe][1].model for mutant in MUTANTS} == {"central", "local", "shuffle"}
    assert len({RECIPES[mutant.recipe][0] for mutant in MUTANTS}) == 5  # every problem


def test_edits_of_the_source_still_apply():
    for edit in EDITS:
        with open(f"{SOURCE}/{edit.file}") as file:
            assert file.read().count(edit.old) == 1, edit.what


def test_the_page_is_printed_from_the_list():
    assert PAGE.read_text() == page(), "run python tests/audit/mutants.py --write"
