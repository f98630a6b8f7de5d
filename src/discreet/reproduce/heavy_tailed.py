"""Heavy-tailed rewards: value iteration and policy optimisation on RiverSwim, and the worlds of the lower bounds.

Wu, Zhou, Chowdhury, Wang. **Figure 4**: RiverSwim with 6 states and H = 20, rewards with symmetric stable noise of
alpha = 2 and unit scale (which is the normal law with variance 2), epsilon 0.5 and 1, K = 20,000, 10 runs.

**The lower bounds**: regret against K in the worlds of the two proofs, with the bounds beside it. The worlds change
with K: their gaps shrink so fast that nobody can be sure of the good actions in K episodes. A world is drawn for every
run. Private is UCBVI with the auto recipe at epsilon 1: pure joint privacy in the parallel bandits, local privacy in
the tree. The theorems do not state useful constants, so their curves are drawn with the constant 1, and what is
compared is the exponent of K, fitted to the means by least squares, with 1/(1+v).

=====  ==============================================================================================================
B1-B4  regret grows like K^(1/(1+v)), with and without privacy; one statement for each world and v
B5     heavier tails (smaller v) make the exponent larger
B6-B7  parallel bandits: joint privacy costs regret; one statement for each v
B8     tree: nobody finds the good leaf, with or without privacy; regret is that of uniform play
=====  ==============================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.heavy_tails.worlds import central_lower_bound, local_lower_bound
from discreet.learners import UCBVI, HeavyUCBVI
from discreet.learners.base import Learner
from discreet.policies import uniform_policy
from discreet.recipes.trust import Central, Local, NoPrivacy, Privacy
from discreet.reproduce.drawing import as_png, new_picture
from discreet.reproduce.figure import VERSIONS, Claim, Figure, Job, Scale, Verdict, View, all_of, below
from discreet.shape import Shape
from discreet.simulation.run import simulate
from discreet.types import Floats
from discreet.worlds.family import WorldFamily
from discreet.worlds.registry import make_world

PAPER = "Differentially private episodic reinforcement learning with heavy-tailed rewards"
EPSILONS = (0.5, 1.0)
_LEARNERS = {"vi": ("heavy-ucbvi", "value iteration"), "po": ("heavy-ucbpo", "policy optimisation")}
_OURS = {"vi": "ucbvi", "po": "ucbpo"}  # the auto recipe sends bits, on which the learners for bounded rewards do best
_MODELS = {"jdp": ("central", "JDP"), "ldp": ("local", "LDP")}
_PAIRS = [(kind, epsilon) for kind in _LEARNERS for epsilon in EPSILONS]
_WORLD: dict[str, Any] = {
    "world": "river-swim",
    "world_options": {"states": 6, "horizon": 20, "rewards": "stable", "alpha": 2.0},
}


def _private(version: str, kind: str, trust: str, epsilon: float) -> Job:
    learner, word = _LEARNERS[kind]
    model, letters = _MODELS[trust]
    ours, printed = version == "ours", version == "published"
    recipe = "central/heavy-tailed-published" if printed and model == "central" else f"{model}/heavy-tailed"
    return Job(
        version, f"{kind} {trust} {epsilon:g}", f"{word}, {letters}, ε={epsilon:g}",
        learner=_OURS[kind] if ours else learner, model=model, epsilon=epsilon,
        delta=1e-5 if ours and model == "central" else 0.0, recipe="auto" if ours else recipe,
        printed="published/heavy-tailed-local" if printed and model == "local" else None, per_step=not ours,
        recipe_options={"growth": 0.1} if model == "local" and not ours else {}, **_WORLD,
    )  # fmt: skip


def _order(view: View) -> Verdict:
    found = []
    for kind, e in _PAIRS:
        clear, joint, local = view[kind].total, view[f"{kind} jdp {e:g}"].total, view[f"{kind} ldp {e:g}"].total
        found.append(below(clear, joint, f"{kind}, none and JDP, ε={e:g}"))
        found.append(below(joint, local, f"{kind}, JDP and LDP, ε={e:g}"))
    return all_of(found)


def _falls_with_epsilon(view: View) -> Verdict:
    low, high = EPSILONS
    return all_of(
        below(view[f"{kind} {trust} {high:g}"].total, view[f"{kind} {trust} {low:g}"].total, f"{kind}, {trust}")
        for kind in _LEARNERS
        for trust in _MODELS
    )


def _negligible(view: View) -> Verdict:
    found = []
    for kind, e in _PAIRS:
        joint, clear = view[f"{kind} jdp {e:g}"], view[kind]
        end = clear.episodes[-1]
        excess = [(joint.rate(at) - clear.rate(at)) / clear.rate(at) for at in (end / 10, end)]
        found.append(below(excess[1], excess[0], f"{kind}, ε={e:g}: relative excess at K and at K/10"))
    return all_of(found)


def _local_stays_behind(view: View) -> Verdict:
    return all_of(
        below(view[f"{kind} jdp {e:g}"].slope(), view[f"{kind} ldp {e:g}"].slope(), f"{kind}, ε={e:g}")
        for kind, e in _PAIRS
    )


_NO_LEARNING = (
    "with the printed noise, and with certified noise of the same form, the noise in a count exceeds the number of "
    "users: all of these private curves are at the level of uniform play"
)
_OPENS_FIRST = (
    f"{_NO_LEARNING}. With auto, at K/10 nobody has learned much and all curves are close: the gap opens before it "
    "can close"
)
FIGURE_4 = Figure(
    "heavy-tailed/figure-4",
    "Value iteration and policy optimisation with heavy-tailed rewards (Figure 4)",
    PAPER,
    (
        *(
            Job("reference", kind, f"{word}, no privacy", learner=learner, per_step=True, **_WORLD)
            for kind, (learner, word) in _LEARNERS.items()
        ),
        *(_private(v, kind, trust, e) for v in VERSIONS for kind in _LEARNERS for trust in _MODELS for e in EPSILONS),
    ),
    {"quick": Scale(10_000, 3), "paper": Scale(20_000, 10)},
    (
        Claim("order", "no privacy has less regret than JDP, and JDP than LDP", _order, _NO_LEARNING),
        Claim(
            "less privacy, less regret", "regret is larger at epsilon 0.5 than at 1", _falls_with_epsilon, _NO_LEARNING
        ),
        Claim("negligible", "the relative cost of JDP falls with the episodes", _negligible, _OPENS_FIRST),
        Claim(
            "local stays behind", "at the end LDP regret grows faster than JDP's", _local_stays_behind, _NO_LEARNING
        ),
    ),
    differences=(
        "The paper tunes the learning rate and the confidence scaling for its best curves and does not state u, tau or "
        "the failure probability; learners run with this library's defaults.",
        "As published, JDP is the printed noise with thresholds that follow raw counts, whose loss grows with the "
        "number of users (with one public threshold it would be 1.75 epsilon); LDP is the privacy that the printed "
        "scales give, 1.67 epsilon, with thresholds from the number of users, since nobody holds the raw counts there.",
        "Under local privacy policies are recomputed when the users grew by 10%, not after every episode.",
        "Exact ties are broken at random: with ties broken to the right RiverSwim is solved without learning.",
        "Ours, under central privacy, has delta = 1e-5 and uses that RiverSwim is the same at every step.",
    ),
)  # fmt: skip

ORDERS = (0.5, 1.0)
_EPSILON = 1.0
_RARELY = {"growth": 0.05}  # a new policy when the users grew by 5%
_CLOSE = 0.1  # how far a fitted exponent may be from the theorem's, or two standard errors
_INSTANCES = 32  # worlds over which the regret of uniform play is averaged


@dataclass(frozen=True)
class HardWorld:
    """A world of a proof, the theorem's curve, and the learners that are run in it."""

    world: str
    title: str
    private: Privacy
    bound: Callable[[Shape, int, float, float], float]
    rarer: int = 1  # where runs hardly differ, one of so many is enough

    @property
    def lines(self) -> dict[str, tuple[Learner, Privacy]]:
        """The learner and the privacy of each line."""
        return {
            "no privacy, Heavy-UCBVI": (HeavyUCBVI(), NoPrivacy(recipe="none/heavy-tailed", options=_RARELY)),
            f"{self.private.model} ε={_EPSILON:g}, UCBVI": (UCBVI(), self.private),
        }


HARD_WORLDS = (
    HardWorld("hard-central", "parallel bandits", Central(_EPSILON), central_lower_bound),
    HardWorld(
        "hard-tree", "tree", Local(_EPSILON, recipe="local/heavy-tailed", options=_RARELY), local_lower_bound, rarer=6
    ),
)
_SETTINGS = [(hard, order) for hard in HARD_WORLDS for order in ORDERS]


@dataclass(frozen=True)
class Panel:
    """Regret by episodes in one world with one v."""

    hard: HardWorld
    order: float
    episodes: tuple[int, ...]
    regret: dict[str, Floats]  # (episodes, runs) of each line
    uniform: Floats
    bound: Floats

    def exponents(self) -> dict[str, tuple[float, float]]:
        """The fitted exponent of each line, and its standard error."""
        return {line: exponent(np.array(self.episodes, np.float64), found) for line, found in self.regret.items()}

    def shares(self) -> dict[str, Floats]:
        """Regret of each run as a share of that of uniform play, averaged over the numbers of episodes."""
        return {line: (found / self.uniform[:, None]).mean(axis=0) for line, found in self.regret.items()}


def measure_panel(hard: HardWorld, order: float, scale: Scale) -> Panel:
    """Run both learners for every number of episodes, in worlds made for it."""
    regret: dict[str, list[Floats]] = {line: [] for line in hard.lines}
    uniform, bound = [], []
    runs = max(2, scale.runs // hard.rarer)
    for K in scale.growing:
        family = make_world(hard.world, episodes=K, epsilon=_EPSILON, order=order)
        assert isinstance(family, WorldFamily)
        for line, (learner, privacy) in hard.lines.items():
            done = simulate(family, learner, privacy, episodes=K, runs=runs, seed=scale.seed)
            regret[line].append(np.asarray(done.regret[:, -1]))
        policy = uniform_policy(family.shape)
        uniform.append(K * np.mean([family.instance(i).gap(policy) for i in range(_INSTANCES)]))
        bound.append(hard.bound(family.shape, K, _EPSILON, order))
    lines = {line: np.array(found) for line, found in regret.items()}
    return Panel(hard, order, scale.growing, lines, np.array(uniform), np.array(bound))


def exponent(episodes: Floats, regret: Floats) -> tuple[float, float]:
    """The slope of log mean regret in log K by least squares, and its error from the spread of the runs."""
    x = np.log(episodes)
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    means = regret.mean(axis=1)
    errors = regret.std(axis=1, ddof=1) / math.sqrt(regret.shape[1]) / means
    return float(weights @ np.log(means)), float(np.sqrt(((weights * errors) ** 2).sum()))


def _power(order: float) -> float:
    """The theorem's exponent of K."""
    return 1 / (1 + order)


def _grows(index: int) -> Claim:
    hard, order = _SETTINGS[index]

    def check(panels: Sequence[Panel]) -> Verdict:
        found = panels[index].exponents()
        holds = all(abs(slope - _power(order)) <= max(_CLOSE, 2 * error) for slope, error in found.values())
        numbers = {line: {"exponent": slope, "standard error": error} for line, (slope, error) in found.items()}
        return Verdict(holds, numbers=numbers)

    says = f"{hard.title}, v = {order:g}: regret grows like K^{_power(order):.3g}, up to {_CLOSE:g}"
    return Claim(f"B{index + 1}", says, check)


def _heavier_is_worse(panels: Sequence[Panel]) -> Verdict:
    rises = {}
    for heavy, light in zip(panels[::2], panels[1::2], strict=True):
        for line, (slope, _) in heavy.exponents().items():
            rises[f"{heavy.hard.title}, {line}"] = slope - light.exponents()[line][0]
    return Verdict(all(rise > 0 for rise in rises.values()), numbers=rises)


def _costs(index: int) -> Claim:
    def check(panels: Sequence[Panel]) -> Verdict:
        clear, private = panels[index].shares().values()
        told = below(clear, private)
        return Verdict(told.holds is True, numbers={told.word: told.evidence})

    says = (
        f"parallel bandits, v = {ORDERS[index]:g}: joint privacy costs regret, in shares of that of uniform play, "
        "averaged over K"
    )
    return Claim(f"B{index + 6}", says, check)


def _hidden(panels: Sequence[Panel]) -> Verdict:
    shares = {
        f"v {panel.order:g}, {line}": float(found[-1].mean() / panel.uniform[-1])
        for panel in panels[2:]
        for line, found in panel.regret.items()
    }
    return Verdict(all(abs(share - 1) <= 0.1 for share in shares.values()), numbers=shares)


def _draw_panels(panels: Sequence[Panel]) -> bytes:
    picture = new_picture(9.6, 7.8)
    for axes, panel in zip(picture.subplots(2, 2, sharex=True).flat, panels, strict=True):
        _draw_panel(axes, panel)
    picture.suptitle(LOWER_BOUNDS.title, fontsize=11)
    return as_png(picture)


def _draw_panel(axes: Any, panel: Panel) -> None:
    for (line, found), (slope, error) in zip(panel.regret.items(), panel.exponents().values(), strict=True):
        spread = found.std(axis=1, ddof=1) / math.sqrt(found.shape[1])
        label = f"{line}: K^{slope:.2f}±{error:.2f}"
        axes.errorbar(panel.episodes, found.mean(axis=1), yerr=spread, marker="o", capsize=3, label=label)
    axes.plot(panel.episodes, panel.uniform, color="grey", linestyle=":", label="uniform play")
    rate = f"rate of the lower bound at ε={_EPSILON:g}, constant unknown (here 1): K^{_power(panel.order):.2f}"
    axes.plot(panel.episodes, panel.bound, color="black", linestyle="--", label=rate)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("episodes K, in a world made for K")
    axes.set_ylabel("regret after K episodes")
    axes.set_title(f"{panel.hard.title}, v = {panel.order:g}", fontsize=10)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7, frameon=False)


LOWER_BOUNDS = Figure(
    "heavy-tailed/lower-bounds",
    "Regret in the worlds of the lower bounds for heavy-tailed rewards",
    PAPER,
    (),
    {
        "quick": Scale(128_000, 24, (2_000, 16_000, 128_000)),
        "paper": Scale(512_000, 100, (2_000, 8_000, 32_000, 128_000, 512_000)),
    },
    (
        *(_grows(index) for index in range(len(_SETTINGS))),
        Claim("B5", "heavier tails (v = 0.5 instead of 1) make the exponent larger", _heavier_is_worse),
        *(_costs(index) for index in range(len(ORDERS))),
        Claim(
            "B8", "tree: at the largest K regret is that of uniform play, within 10%, with and without privacy", _hidden
        ),
    ),
    measure=lambda scale: [measure_panel(hard, order, scale) for hard, order in _SETTINGS],
    draw=_draw_panels,
)
