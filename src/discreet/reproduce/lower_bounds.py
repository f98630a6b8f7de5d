"""Heavy-tailed rewards, the lower bounds: regret against K in the worlds of the two proofs, with the bounds beside it.

The worlds change with K: their gaps shrink so fast that nobody can be sure of the good actions in K episodes. A world
is drawn for every run. Private is UCBVI with the auto recipe at epsilon 1: pure joint privacy in the parallel bandits,
local privacy in the tree. The theorems do not state useful constants, so their curves are drawn with the constant 1,
and what is compared is the exponent of K, fitted to the means by least squares, with 1/(1+v).

=====  ==============================================================================================================
B1-B4  regret grows like K^(1/(1+v)), with and without privacy; one statement for each world and v
B5     heavier tails (smaller v) make the exponent larger
B6-B7  parallel bandits: joint privacy costs regret; one statement for each v
B8     tree: nobody finds the good leaf, with or without privacy; regret is that of uniform play
=====  ==============================================================================================================
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import MissingExtra, unknown_name
from discreet.heavy_tails.worlds import central_lower_bound, local_lower_bound
from discreet.learners import UCBVI, HeavyUCBVI
from discreet.learners.base import Learner
from discreet.policies import uniform_policy
from discreet.recipes.trust import Central, Local, NoPrivacy, Privacy
from discreet.reproduce.measured import below
from discreet.shape import Shape
from discreet.simulation.run import simulate
from discreet.types import Floats
from discreet.worlds.family import WorldFamily
from discreet.worlds.registry import make_world

ORDERS = (0.5, 1.0)
EPSILON = 1.0
SIZES = {"quick": ((2_000, 16_000, 128_000), 24), "paper": ((2_000, 8_000, 32_000, 128_000, 512_000), 100)}
_RARELY = {"growth": 0.05}  # a new policy when the users grew by 5%
_CLOSE = 0.1  # how far a fitted exponent may be from the theorem's, or two standard errors
_INSTANCES = 32  # worlds over which the regret of uniform play is averaged


@dataclass(frozen=True)
class Place:
    """A hard world, the theorem's curve, and the learners that are run in it."""

    world: str
    title: str
    private: Privacy
    bound: Callable[[Shape, int, float, float], float]
    rarer: int = 1  # where runs hardly differ, one of so many is enough

    @property
    def lines(self) -> dict[str, tuple[Learner, Privacy]]:
        return {
            "no privacy, Heavy-UCBVI": (HeavyUCBVI(), NoPrivacy(recipe="none/heavy-tailed", options=_RARELY)),
            f"{self.private.model} ε={EPSILON:g}, UCBVI": (UCBVI(), self.private),
        }


PLACES = (
    Place("hard-central", "parallel bandits", Central(EPSILON), central_lower_bound),
    Place(
        "hard-tree", "tree", Local(EPSILON, recipe="local/heavy-tailed", options=_RARELY), local_lower_bound, rarer=6
    ),
)


@dataclass(frozen=True)
class Panel:
    """Regret by episodes in one world with one v."""

    place: Place
    order: float
    episodes: tuple[int, ...]
    regret: dict[str, Floats]  # (episodes, runs) of each line
    uniform: Floats
    bound: Floats

    @property
    def theory(self) -> float:
        return 1 / (1 + self.order)

    def exponents(self) -> dict[str, tuple[float, float]]:
        """The fitted exponent of each line, and its standard error."""
        return {line: exponent(np.array(self.episodes, np.float64), found) for line, found in self.regret.items()}

    def shares(self) -> dict[str, Floats]:
        """Regret of each run as a share of that of uniform play, averaged over the numbers of episodes."""
        return {line: (found / self.uniform[:, None]).mean(axis=0) for line, found in self.regret.items()}


@dataclass(frozen=True)
class Verdict:
    """One statement, whether the runs agree with it, and the numbers; ``panel`` is what it was read off."""

    name: str
    statement: str
    holds: bool
    numbers: dict[str, Any]
    panel: Panel | None = None


def check(scale: str, seed: int) -> list[Verdict]:
    """All statements, measured."""
    if scale not in SIZES:
        raise unknown_name("scale", scale, SIZES)
    panels = [measure(place, order, *SIZES[scale], seed) for place in PLACES for order in ORDERS]
    return [*(_grows(f"B{i + 1}", panel) for i, panel in enumerate(panels)), *_compared(panels)]


def measure(place: Place, order: float, episodes: tuple[int, ...], runs: int, seed: int) -> Panel:
    """Run both learners for every number of episodes, in worlds made for it."""
    regret: dict[str, list[Floats]] = {line: [] for line in place.lines}
    uniform, bound = [], []
    for K in episodes:
        family = make_world(place.world, episodes=K, epsilon=EPSILON, order=order)
        assert isinstance(family, WorldFamily)
        for line, (learner, privacy) in place.lines.items():
            regret[line].append(_regret(family, learner, privacy, K, max(2, runs // place.rarer), seed))
        policy = uniform_policy(family.shape)
        uniform.append(K * np.mean([family.instance(i).gap(policy) for i in range(_INSTANCES)]))
        bound.append(place.bound(family.shape, K, EPSILON, order))
    lines = {line: np.array(found) for line, found in regret.items()}
    return Panel(place, order, episodes, lines, np.array(uniform), np.array(bound))


def _regret(
    family: WorldFamily[Any], learner: Learner, privacy: Privacy, episodes: int, runs: int, seed: int
) -> Floats:
    return np.asarray(simulate(family, learner, privacy, episodes=episodes, runs=runs, seed=seed).regret[:, -1])


def exponent(episodes: Floats, regret: Floats) -> tuple[float, float]:
    """The slope of log mean regret in log K by least squares, and its error from the spread of the runs."""
    x = np.log(episodes)
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    means = regret.mean(axis=1)
    errors = regret.std(axis=1, ddof=1) / math.sqrt(regret.shape[1]) / means
    return float(weights @ np.log(means)), float(np.sqrt(((weights * errors) ** 2).sum()))


def _grows(name: str, panel: Panel) -> Verdict:
    found = panel.exponents()
    holds = all(abs(slope - panel.theory) <= max(_CLOSE, 2 * error) for slope, error in found.values())
    statement = f"{panel.place.title}, v = {panel.order:g}: regret grows like K^{panel.theory:.3g}, up to {_CLOSE:g}"
    numbers = {line: {"exponent": slope, "standard error": error} for line, (slope, error) in found.items()}
    return Verdict(name, statement, holds, numbers, panel)


def _compared(panels: Sequence[Panel]) -> list[Verdict]:
    rises = {}
    for heavy, light in zip(panels[::2], panels[1::2], strict=True):
        for line, (slope, _) in heavy.exponents().items():
            rises[f"{heavy.place.title}, {line}"] = slope - light.exponents()[line][0]
    heavier = "heavier tails (v = 0.5 instead of 1) make the exponent larger"
    shares = {
        f"v {panel.order:g}, {line}": float(found[-1].mean() / panel.uniform[-1])
        for panel in panels[2:]
        for line, found in panel.regret.items()
    }
    hidden = "tree: at the largest K regret is that of uniform play, within 10%, with and without privacy"
    return [
        Verdict("B5", heavier, all(rise > 0 for rise in rises.values()), rises),
        *(_costs(f"B{6 + i}", panel) for i, panel in enumerate(panels[:2])),
        Verdict("B8", hidden, all(abs(share - 1) <= 0.1 for share in shares.values()), shares),
    ]


def _costs(name: str, panel: Panel) -> Verdict:
    clear, private = panel.shares().values()
    told = below(clear, private)
    statement = (
        f"parallel bandits, v = {panel.order:g}: joint privacy costs regret, in shares of that of uniform play, "
        "averaged over K"
    )
    return Verdict(name, statement, told.holds is True, {told.word: told.evidence})


def draw(verdicts: Sequence[Any]) -> bytes:
    """The four panels as a PNG."""
    try:
        from matplotlib.figure import Figure as Picture
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    panels = [verdict.panel for verdict in verdicts if verdict.panel is not None]
    picture = Picture(figsize=(9.6, 7.8), layout="constrained")
    for axes, panel in zip(picture.subplots(2, 2, sharex=True).flat, panels, strict=False):
        _draw_panel(axes, panel)
    picture.suptitle("Regret in the worlds of the lower bounds for heavy-tailed rewards", fontsize=11)
    buffer = io.BytesIO()
    picture.savefig(buffer, format="png", dpi=130)
    return buffer.getvalue()


def _draw_panel(axes: Any, panel: Panel) -> None:
    for (line, found), (slope, error) in zip(panel.regret.items(), panel.exponents().values(), strict=True):
        spread = found.std(axis=1, ddof=1) / math.sqrt(found.shape[1])
        label = f"{line}: K^{slope:.2f}±{error:.2f}"
        axes.errorbar(panel.episodes, found.mean(axis=1), yerr=spread, marker="o", capsize=3, label=label)
    axes.plot(panel.episodes, panel.uniform, color="grey", linestyle=":", label="uniform play")
    axes.plot(
        panel.episodes, panel.bound, color="black", linestyle="--",
        label=f"rate of the lower bound at ε={EPSILON:g}, constant unknown (here 1): K^{panel.theory:.2f}",
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("episodes K, in a world made for K")
    axes.set_ylabel("regret after K episodes")
    axes.set_title(f"{panel.place.title}, v = {panel.order:g}", fontsize=10)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7, frameon=False)
