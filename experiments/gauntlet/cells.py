"""What is run: worlds and the half each belongs to, trust models, learners, and the cells that they make.

A *cell* is a world, a learner, a trust model, a number of users, a number of runs and a seed. Run i of every cell uses
the same seed, so that cells can be compared run by run: in random worlds they meet the same instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from discreet import Central, Local, NoPrivacy, Shuffle
from discreet.base.errors import InvalidInput, unknown_name
from discreet.base.registry import parse_value
from discreet.learners.base import Learner
from discreet.learners.registry import LEARNERS, make_learner
from discreet.recipes.targets import Privacy
from discreet.worlds.registry import make_world

from .references import REFERENCES

USERS = 20_000
TUNING, VALIDATION = "tuning", "validation"
BANDIT, HEAVY = "bandit", "heavy tails"


@dataclass(frozen=True)
class Entry:
    """A world of the gauntlet: its name here and in the registry, its kind, its half, and how it is declared."""

    name: str
    kind: str
    half: str
    world: str
    options: Mapping[str, Any] = field(default_factory=dict)
    per_step: bool = False
    small: bool = True  # cells without privacy take seconds, so that they get a hundred runs

    def make(self) -> Any:
        """The world, declared per step if it is meant to be."""
        world = make_world(self.world, **self.options)
        return world.with_time(False) if self.per_step else world


def _arms(name: str, half: str, means: str) -> Entry:
    return Entry(name, BANDIT, half, "bernoulli-arms", {"means": means})


def _drawn_arms(half: str, arms: int) -> Entry:
    return Entry(f"arms-{arms}-random", BANDIT, half, "bandit", {"arms": arms})


def _random(half: str, states: int, actions: int, horizon: int, per_step: bool = False, small: bool = True) -> Entry:
    name = f"random-{states}x{actions}" + ("-per-step" if per_step else "")
    options = {"states": states, "actions": actions, "horizon": horizon}
    return Entry(name, "random", half, "random-mdp", options, per_step, small)


def _river(half: str, states: int, horizon: int, per_step: bool = False, small: bool = True) -> Entry:
    name = f"river-{states}" + ("-per-step" if per_step else "")
    return Entry(name, "river", half, "river-swim", {"states": states, "horizon": horizon}, per_step, small)


def _heavy(half: str, states: int, horizon: int, alpha: float, per_step: bool = False) -> Entry:
    name = f"heavy-{alpha:g}-river-{states}" + ("-per-step" if per_step else "")
    options = {"states": states, "horizon": horizon, "rewards": "stable", "alpha": alpha}
    return Entry(name, HEAVY, half, "river-swim", options, per_step)


def _layers(half: str, width: int, layers: int, actions: int) -> Entry:
    options = {"width": width, "layers": layers, "actions": actions}
    return Entry(f"layers-{width}x{layers}", "layers", half, "random-layers", options)


WORLDS: tuple[Entry, ...] = (
    _arms("arms-2", TUNING, "0.6,0.4"),
    _arms("arms-2-close", TUNING, "0.52,0.5"),
    _drawn_arms(TUNING, 10),
    Entry("deep-sea-5", "deep sea", TUNING, "deep-sea", {"size": 5}),
    Entry("chain-6", "chain", TUNING, "chain", {"states": 6, "horizon": 20}),
    Entry("repair-4", "operations", TUNING, "machine-repair", {"conditions": 4}),
    Entry("inventory-3", "operations", TUNING, "inventory", {"capacity": 3}),
    _random(TUNING, 3, 2, 3, per_step=True),
    _random(TUNING, 4, 2, 4),
    _random(TUNING, 8, 3, 8),
    _river(TUNING, 4, 6),
    _river(TUNING, 6, 20, small=False),
    _layers(TUNING, 4, 3, 2),
    Entry("frozen-lake-4x4", "gymnasium", TUNING, "frozen-lake", {"horizon": 50}, small=False),
    _heavy(TUNING, 4, 6, 1.8),
    _arms("arms-5", VALIDATION, "0.75,0.625,0.5,0.375,0.25"),
    _arms("arms-10-close", VALIDATION, "0.9" + 9 * ",0.8"),
    _drawn_arms(VALIDATION, 20),
    _drawn_arms(VALIDATION, 50),
    Entry("deep-sea-6", "deep sea", VALIDATION, "deep-sea", {"size": 6}),
    Entry("deep-sea-8", "deep sea", VALIDATION, "deep-sea", {"size": 8}),
    Entry("chain-10", "chain", VALIDATION, "chain", {"states": 10, "horizon": 30, "slip": 0.1}),
    Entry("forest-5", "operations", VALIDATION, "forest", {"ages": 5}),
    Entry("admission-5", "operations", VALIDATION, "admission", {"capacity": 5}),
    Entry("inventory-5", "operations", VALIDATION, "inventory", {"capacity": 5, "demand": "0.1,0.2,0.3,0.2,0.1,0.1"}),
    Entry("repair-7", "operations", VALIDATION, "machine-repair", {"conditions": 7, "wear": 0.5}),
    _random(VALIDATION, 3, 2, 3),
    _random(VALIDATION, 5, 3, 5),
    _random(VALIDATION, 5, 3, 5, per_step=True),
    _random(VALIDATION, 10, 4, 10, small=False),
    _random(VALIDATION, 30, 5, 10, small=False),
    _river(VALIDATION, 5, 8, per_step=True),
    _river(VALIDATION, 8, 25, small=False),
    _river(VALIDATION, 12, 40, small=False),
    _layers(VALIDATION, 6, 5, 2),
    Entry("cliff-walking", "gymnasium", VALIDATION, "cliff-walking", {"horizon": 30}, small=False),
    Entry("frozen-lake-8x8", "gymnasium", VALIDATION, "frozen-lake", {"size": "8x8", "horizon": 100}, small=False),
    Entry("taxi", "gymnasium", VALIDATION, "taxi", {"horizon": 30}, small=False),
    _heavy(VALIDATION, 4, 6, 1.2),
    _heavy(VALIDATION, 6, 12, 1.8),
    _heavy(VALIDATION, 4, 6, 1.8, per_step=True),
)

TRUST: dict[str, Privacy] = {
    "none": NoPrivacy(),
    "central-10": Central(10.0, 1e-5),
    "central-1": Central(1.0, 1e-5),
    "central-pure-1": Central(1.0),
    "shuffle-1": Shuffle(1.0, 1e-5),
    "local-4": Local(4.0),
    "local-1": Local(1.0),
}

STANDARD = ("ucbvi", "ucbpo", "psrl", "obi")
FOR_HEAVY = ("heavy-ucbvi", "heavy-ucbpo", "ucbvi")

# Where 20,000 users are too few for anybody to learn under privacy: (world, trust) and how many there are instead.
MORE_USERS = (("frozen-lake-4x4", "central-1", 1_000_000), ("frozen-lake-4x4", "central-10", 100_000))


@dataclass(frozen=True)
class Cell:
    """One line of the table: everything that decides its numbers, but for the code."""

    entry: Entry
    learner: str
    trust: str
    users: int
    runs: int
    seed: int

    @property
    def label(self) -> str:
        """The cell in one line."""
        return f"{self.entry.name}, {self.learner}, {self.trust}, {self.users:,} users"

    def key(self) -> dict[str, Any]:
        """What defines the cell, as plain data; the seeds of its runs follow from it."""
        return {
            "world": self.entry.name,
            "made_by": self.entry.world,
            "options": {name: str(value) for name, value in self.entry.options.items()},
            "per_step": self.entry.per_step,
            "learner": self.learner,
            "trust": self.trust,
            "users": self.users,
            "runs": self.runs,
            "seed": self.seed,
        }

    def run_seed(self, run: int) -> int:
        """The seed of one run, the same in all cells of a gauntlet."""
        return self.seed * 10_000 + run


def make_cells(
    worlds: Sequence[Entry],
    learners: Sequence[str] = (),
    trusts: Sequence[str] = (),
    *,
    quick: bool = False,
    runs: int | None = None,
    users: int | None = None,
    seed: int = 1,
) -> list[Cell]:
    """All cells of these worlds, with every learner that is made for them unless some are named."""
    cells = []
    for entry in worlds:
        for trust in trusts or TRUST:
            for learner in learners or (FOR_HEAVY if entry.kind == HEAVY else STANDARD):
                for people in (users,) if users else _users(entry, trust, quick):
                    count = runs or _runs(entry, trust, people, quick)
                    cells.append(Cell(entry, learner, trust, people, count, seed))
    return cells


def _users(entry: Entry, trust: str, quick: bool) -> Iterator[int]:
    yield USERS
    if not quick:
        yield from (many for world, model, many in MORE_USERS if (world, model) == (entry.name, trust))


def _runs(entry: Entry, trust: str, users: int, quick: bool) -> int:
    many = users == USERS and (entry.kind == BANDIT or (trust == "none" and entry.small))
    return (8 if many else 4) if quick else (100 if many else 20)


def worlds_of(half: str | None, names: Sequence[str] = ()) -> list[Entry]:
    """The worlds of a half, or of both; only those that are named, if any are."""
    known = {entry.name: entry for entry in WORLDS}
    for name in names:
        if name not in known:
            raise unknown_name("world of the gauntlet", name, known)
    return [entry for entry in WORLDS if half in (None, entry.half) and (not names or entry.name in names)]


def learner_of(text: str) -> Learner:
    """A learner by name, with options if wanted: ``ucbvi,reward_scale=0.1``."""
    name, options = _named(text)
    return REFERENCES[name]() if name in REFERENCES and not options else make_learner(name, **options)


def trust_of(text: str) -> Privacy:
    """A trust model by its name here, with a recipe and its options if wanted: ``central-1,recipe=...,blocks=60``."""
    name, options = _named(text)
    if name not in TRUST:
        raise unknown_name("trust model of the gauntlet", name, TRUST)
    recipe = options.pop("recipe", "auto")
    return replace(TRUST[name], recipe=recipe, options={key: _number(value) for key, value in options.items()})


def check_names(learners: Sequence[str], trusts: Sequence[str]) -> None:
    """Refuse names that nobody knows before anything is run."""
    for text in learners:
        if _named(text)[0] not in {*LEARNERS, *REFERENCES}:
            raise unknown_name("learner", _named(text)[0], [*LEARNERS, *REFERENCES])
        learner_of(text)
    for text in trusts:
        trust_of(text)


def _named(text: str) -> tuple[str, dict[str, str]]:
    name, *parts = text.split(",")
    pairs = [part.partition("=") for part in parts]
    if any(not sign for _, sign, _ in pairs):
        raise InvalidInput(f"options are written name=value with commas between them, got {text!r}")
    return name, {option: value for option, _, value in pairs}


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return parse_value("", text, kind)
        except InvalidInput:
            continue
    return text
