"""Certificates of every recipe that "auto" can take, and what a forger would change in them."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from discreet import Central, Local, Shape, Shuffle
from discreet.base.errors import DiscreetError
from discreet.base.shape import Moments, layered_shape
from discreet.noise import BinomialNoise
from discreet.privacy.profiles import compose
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.recipe import DATA_SET, HEAVY, LAYERED, LINEAR, TABULAR
from discreet.recipes.registry import recipes

_MODELS = {"central": Central, "local": Local, "shuffle": Shuffle}
PURE = tuple((epsilon, 0.0) for epsilon in (0.1, 0.5, 1.0, 4.0, 20.0))
WITH_DELTA = (
    (0.1, 1e-3), (0.1, 1e-9), (0.3, 1e-5), (0.5, 1e-6), (1.0, 1e-5), (1.0, 1e-9), (1.0, 1e-2), (2.0, 1e-6),
    (3.0, 1e-4), (5.0, 1e-5), (8.0, 1e-7), (12.0, 1e-8), (20.0, 1e-5),
)  # fmt: skip
RHOS = (0.01, 0.5)
TARGETS: tuple[dict[str, float], ...] = (
    *({"epsilon": epsilon, "delta": delta} for epsilon, delta in (*PURE, *WITH_DELTA)),
    *({"rho": rho} for rho in RHOS),
)
FEATURES = np.random.default_rng(0).random((3, 2, 2))
POOLED, STEPS = Shape(6, 2, 20, homogeneous=True), Shape(4, 2, 5)
SHAPES: dict[str, tuple[Shape, ...]] = {
    TABULAR: (STEPS, POOLED, Shape(1, 5, 1)),
    HEAVY: (
        Shape(2, 2, 2, rewards=(-1.0, 1.0), moments=Moments(1.0, 0.5)),
        Shape(2, 2, 3, homogeneous=True, rewards=(-1.0, 1.0), moments=Moments(1.0, 0.5)),
    ),
    LAYERED: (layered_shape((1, 3, 3, 1), actions=2),),
    DATA_SET: (STEPS, POOLED),
    LINEAR: (Shape(3, 2, 3),),
}
USERS = 3000


class Case(NamedTuple):
    """One recipe for one problem."""

    recipe: str
    model: str
    problem: str

    def __str__(self) -> str:
        return self.recipe


def cases() -> list[Case]:
    """All recipes that "auto" may take, and that promise something."""
    return [
        Case(recipe.name, model, problem)
        for problem in SHAPES
        for model in _MODELS
        for recipe in recipes(model, problem)
        if recipe.automatic
    ]


def certificates(case: Case, targets: tuple[dict[str, float], ...] = TARGETS) -> Iterator[tuple[Any, Any]]:
    """Guarantees and their certificates, as they come out of a file, for every shape and target that is served."""
    (recipe,) = (found for found in recipes(case.model, case.problem) if found.name == case.recipe)
    options = {"features": FEATURES, "vectors": (1, 1, 2)} if case.problem == LINEAR else {}
    for shape in SHAPES[case.problem]:
        for target in targets:
            try:
                privacy = _MODELS[case.model](recipe=case.recipe, options=options, **target)
                guarantee = recipe.assemble(privacy, shape, USERS).guarantee
            except DiscreetError:
                continue
            yield guarantee, json.loads(json.dumps(guarantee.certificate(), allow_nan=False))


@lru_cache(maxsize=1)
def some() -> tuple[Any, ...]:
    """A certificate of every kind, of targets that are quickly checked."""
    found = []
    for case in cases():
        for target in ({"epsilon": 1.0, "delta": 1e-5}, {"epsilon": 0.5}, {"rho": 0.1}):
            if case.model == "shuffle" and "delta" not in target:
                continue
            found += [certificate for _, certificate in itertools.islice(certificates(case, (target,)), 1)]
    return tuple(found)


def steps(node: Any, *kinds: str) -> list[Any]:
    """The steps of these kinds, from the top down."""
    own = [node] if node["kind"] in kinds else []
    return own + [found for part in node.get("of", ()) for found in steps(part, *kinds)]


def computed_epsilon(guarantee: Any, certificate: Any) -> float:
    """The library's own epsilon: for shuffled batches of binomial noise that of the batches, not of the target."""
    delta, batches = guarantee.delta, steps(certificate["steps"], "shuffled")
    if not batches or steps(batches[0], "reports"):
        return float(guarantee.epsilon)
    found = []
    for batch in batches[0]["of"]:
        parts = []
        for part in steps(batch, "mechanism"):
            ((_, up, down),) = part["moves"]["worst"]
            law = BinomialNoise(part["law"]["trials"], float(Fraction(part["law"]["p"])))
            parts.append(law.profile(Sensitivity.unit_shifts(up, down)))
        found.append(compose(parts).epsilon(delta))
    return min(float(guarantee.epsilon), max(found))


# What a forger does. Each takes a certificate and a source of chance, and returns a changed copy, or None where there
# is nothing of the kind to change.


def _times(text: Any, factor: Fraction) -> Any:
    value = Fraction(text) * factor
    return f"{value.numerator}/{value.denominator}"


def smaller_scale(certificate: Any, chance: random.Random) -> Any:
    """Less noise in all releases: no part of them is then as private as it was calibrated to be."""
    forged, factor = copy.deepcopy(certificate), Fraction(chance.randint(50, 97), 100)
    for part in steps(forged["steps"], "mechanism"):
        law = part["law"]
        for name, power in (("scale", 1), ("sigma", 1), ("off_diagonal", 2)):
            if name in law:
                law[name] = _times(law[name], factor**power)
        if "trials" in law:
            law["trials"] = max(1, int(law["trials"] * factor * factor))
    for part in steps(forged["steps"], "reports"):
        message = part["message"]
        if "lie" in message:
            message["lie"] = _times(message["lie"], factor)
        if "laws" in message:
            message["laws"] = [[items, _times(lie, factor)] for items, lie in message["laws"]]
        if "epsilon" in message:
            message["epsilon"] = _times(message["epsilon"], 1 / factor)
    return forged


def larger_shift(certificate: Any, chance: random.Random) -> Any:
    """One user moves more than was said, or is hidden by fewer."""
    forged, more = copy.deepcopy(certificate), chance.randint(2, 5)
    for part in steps(forged["steps"], "mechanism"):
        moves = part["moves"]
        if moves["worst"] is None:
            for name in ("l1", "l2", "linf"):
                moves[name] = _times(moves[name], Fraction(100 + more, 100))
            continue
        moves["worst"] = [[by, up * more, down * more] for by, up, down in moves["worst"]]
        moves["l1"] = _times(moves["l1"], Fraction(more))
        moves["l2"] = repr(float(Fraction(moves["l2"])) * more**0.5)
    for part in steps(forged["steps"], "reports"):
        for name in ("bits", "reports"):
            if name in part["message"]:
                part["message"][name] *= more
        if "items" in part["message"]:
            part["message"]["others"] //= more
    return forged


def more_compositions(certificate: Any, chance: random.Random) -> Any:
    """Every release happens several times."""
    forged, times = copy.deepcopy(certificate), chance.randint(2, 4)
    for part in steps(forged["steps"], "mechanism", "reports"):
        own = dict(part)
        part.clear()
        part.update(kind="compose", why="", adaptive=True, parts=times, of=[own] * times)
    return forged


def smaller_epsilon(certificate: Any, chance: random.Random) -> Any:
    """A better promise than was computed."""
    forged, factor = copy.deepcopy(certificate), Fraction(chance.randint(300, 985), 1000)
    stated = forged["stated"]
    name = "rho" if stated["epsilon"] is None else "epsilon"
    stated[name] = _times(stated[name], factor)
    return forged


def smaller_delta(certificate: Any, chance: random.Random) -> Any:
    """The same epsilon at a smaller delta."""
    if certificate["stated"]["epsilon"] is None or Fraction(certificate["stated"]["delta"]) == 0:
        return None
    forged = copy.deepcopy(certificate)
    # Near the largest loss of local compositions the library's delta is up to eight times as large as it need be.
    most = 100 if certificate["model"] == "local" else 800
    forged["stated"]["delta"] = _times(forged["stated"]["delta"], Fraction(chance.randint(1, most), 1000))
    return forged


def other_model(certificate: Any, chance: random.Random) -> Any:
    """A trust model that the steps do not lead to."""
    forged = copy.deepcopy(certificate)
    forged["model"] = chance.choice([m for m in ("joint", "local", "shuffle", "central") if m != forged["model"]])
    return forged


def removed_component(certificate: Any, chance: random.Random) -> Any:
    """A part, a law or a step is missing."""
    forged = copy.deepcopy(certificate)
    several = [step for step in steps(forged["steps"], "compose", "one-of", "shuffled") if len(step["of"]) > 1]
    if several and chance.random() < 0.7:
        chance.choice(several)["of"].pop()
        return forged
    if "of" in forged["steps"] and forged["steps"]["kind"] in ("billboard", "local") and chance.random() < 0.7:
        forged["steps"] = forged["steps"]["of"][0]
        if certificate["model"] == "shuffle":
            return None  # the billboard lemma leaves the shuffle model as it is
        return forged
    leaf = chance.choice(steps(forged["steps"], "mechanism", "reports"))
    del leaf["law" if "law" in leaf else "message"]
    return forged


FORGERIES = (
    smaller_scale, larger_shift, more_compositions, smaller_epsilon, smaller_delta, other_model, removed_component
)  # fmt: skip
