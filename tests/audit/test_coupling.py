"""The coupling check: every recipe hides one user as well as it says, by the exact loss of real sessions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from on_trial import AUTOMATIC, LAYERS, POOLED, PROMISES_NOTHING, RECIPES, SMALL, USERS, privatizers, target

from discreet.audit.coupling import Play, coupled, moves_of
from discreet.audit.neighbours import neighbours
from discreet.audit.noise_coupling import Offence, share_of
from discreet.audit.stages import coupling_of
from discreet.mechanisms.additive import AdditiveRun
from discreet.mechanisms.sums.tree import EqualLawTree, Tree
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.recipes.registry import build

# Bounded noise has losses on a wide range, which take most of a minute to convolve; "auto" never takes it.
LONG = {"local/published-bounded", "local/three-tables-bounded"}


def stage(privatizer, pairs=4):
    return coupling_of([privatizer], pairs=pairs)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in sorted(RECIPES)]
)
def test_no_session_loses_more_than_its_guarantee_says(name):
    for privatizer in privatizers(name):
        found = stage(privatizer)
        if name in PROMISES_NOTHING:
            assert not found.ran
            assert "promises nothing" in found.sentence
            continue
        assert found.ran, found.sentence  # a recipe that cannot be coupled or read off is not certified by this test
        assert found.holds, found.sentence


def test_every_recipe_that_auto_can_take_is_among_them():
    """By the registry, over all problems: nothing that is chosen for a user goes without the exact check."""
    assert len(AUTOMATIC) >= 37
    assert set(AUTOMATIC) <= set(RECIPES)
    assert not set(AUTOMATIC) & (PROMISES_NOTHING | LONG)


@pytest.mark.parametrize(
    "name",
    [
        "central/arm-rewards",
        "central/joint-histogram-laplace",
        "central/three-tables-gaussian-tree",
        "central/focused-first-visit-laplace",
        "central/first-visit-matrix",
        "central/loss-tables",
        "local/sampled-step",
        "local/asked-first-visit",
        "shuffle/first-visit-binomial",
        "offline/laplace",
    ],
)
def test_the_loss_that_is_stated_is_reached(name):
    """A check that sees little would pass too: these promises are tight, and the pairs that are tried show it."""
    shares = []
    for privatizer in privatizers(name):
        sentence = stage(privatizer).sentence
        reached, stated = (float(sentence.split(word)[1].split()[0]) for word in ("epsilon ", "the stated "))
        shares.append(reached / stated)
    assert max(shares) == pytest.approx(1.0, abs=2e-3)


def play(privatizer, number=0, users=USERS):
    both = neighbours(privatizer.shape, [channel.encoder for channel in privatizer.channels], number, users)
    return Play(privatizer, both, users)


def test_moves_of_one_block_are_what_the_user_moved():
    (privatizer, *_) = privatizers("central/joint-histogram-laplace")
    (move,) = moves_of(play(privatizer))
    assert isinstance(move.law, DiscreteLaplace)
    assert sorted(by for by in move.by if by) == [-1.0, -1.0, 1.0, 1.0]


def test_moves_of_a_tree_come_once_for_every_level():
    privatizer = privatizers("central/three-tables-gaussian-tree")[0]
    assert len(moves_of(play(privatizer))) == Tree(USERS).levels


@pytest.mark.parametrize("tree", [Tree, EqualLawTree])
def test_noise_that_is_topped_up_costs_nothing(tree):
    privatizer = privatizers("central/three-tables-laplace-tree")[0]
    channel = replace(privatizer.channels[0], accumulator=tree(USERS))
    found = share_of(coupled(play(replace(privatizer, channels=(channel,)))), privatizer.guarantee)
    assert found.of_stated == pytest.approx(1.0)


def test_a_release_that_shows_more_than_its_cells_is_an_offence(monkeypatch):
    privatizer = privatizers("central/joint-histogram-laplace")[0]
    honest, secret = AdditiveRun.add, {}

    def remember(self, tally, users, context):
        secret["tally"] = tally.sum() + tally[0]
        honest(self, tally, users, context)

    estimates = AdditiveRun.estimates

    def leak(self):
        found = estimates(self)
        visits = found["visits"]
        return {**found, "visits": visits._replace(variance=visits.variance + secret["tally"])}

    monkeypatch.setattr(AdditiveRun, "add", remember)
    monkeypatch.setattr(AdditiveRun, "estimates", leak)
    with pytest.raises(Offence, match="shows more than its noisy cells"):
        coupled(play(privatizer, number=2))


def test_policies_depend_on_what_was_released():
    privatizer = privatizers("central/joint-histogram-laplace")[0]
    first, second = (play(privatizer, number).written[1].policies for number in (4, 5))
    assert first[0] != second[1]
    assert len({policy.actions.tobytes() for policy in first}) > 1


@pytest.mark.parametrize("share", [0.9, 0.5])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("central/joint-histogram-laplace", SMALL),
        ("central/joint-histogram-gaussian", SMALL),
        ("central/three-tables-laplace-tree", POOLED),
        ("central/observed-losses-blocks", LAYERS),
    ],
)
def test_a_law_that_is_too_small_is_convicted(name, shape, share):
    privatizer = build(target(name), shape, USERS)
    assert stage(privatizer).holds

    def quiet(channel):
        law = channel.law
        smaller = (
            DiscreteGaussian(share * law.sigma)
            if isinstance(law, DiscreteGaussian)
            else DiscreteLaplace(share * law.scale)
        )
        return replace(channel, law=smaller)

    found = stage(replace(privatizer, channels=tuple(map(quiet, privatizer.channels))))
    assert not found.holds
    assert "loses epsilon" in found.sentence


def test_rho_is_tried_as_rho():
    privatizer = build(target("central/joint-histogram-gaussian", rho=0.1), SMALL, USERS)
    assert np.isinf(privatizer.guarantee.epsilon)
    found = stage(privatizer)
    assert found.ran
    assert found.holds
    quiet = replace(privatizer.channels[0], law=DiscreteGaussian(0.9 * privatizer.channels[0].law.sigma))
    assert not stage(replace(privatizer, channels=(quiet,))).holds
