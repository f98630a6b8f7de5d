"""Tables and pictures of docs/bandits.md, from measured cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from discreet.simulation.experiments import table as table_lines
from experiments.bandits import comparators
from experiments.bandits.measure import MARKS, Cell
from experiments.bandits.settings import BANDITS, EPSILONS, uniform_regret
from experiments.papers.drawing import as_png, new_picture

Name = tuple[str, str]  # algorithm, version
Results = dict[tuple[str, str, float], dict[Name, Cell]]

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
DRAWN = {  # what is drawn of each trust model: (bandit, epsilon)
    "central": (("5 arms", 0.1), ("5 arms", 1.0), ("20 arms, evenly spaced", 1.0)),
    "shuffle": (("5 arms", 1.0), ("20 arms, evenly spaced", 1.0), ("2 arms, gap .05", 1.0)),
    "local": (("5 arms", 1.0), ("20 arms, evenly spaced", 1.0), ("5 arms", 4.0)),
}


def write_page(found: Results, docs: Path) -> None:
    """Put the tables between the marks of the page, and the pictures beside it."""
    parts = [f"{constants()}\n\n"]
    for trust in EPSILONS:
        (docs / "pictures" / f"bandits-{trust}.png").write_bytes(draw(found, trust))
        parts.append(f"### {trust.capitalize()}\n\n{table(found, trust)}\n\n{by_bandit(found, trust)}\n\n")
        parts.append(f"![Regret of private bandits, {trust} model](pictures/bandits-{trust}.png)\n\n")
    path = docs / "bandits.md"
    before, rest = path.read_text().split(BEGIN)
    path.write_text(before + BEGIN + "\n" + "".join(parts) + END + rest.split(END)[1])


def constants() -> str:
    """What is printed and what is tuned."""
    rows = [(one.name, one.constant, f"{one.printed:g}", f"{one.tuned:g}") for one in comparators.ALL]
    return _table(("", "the constant", "printed", "tuned"), rows)


def share(cell: Cell, bandit: str) -> float:
    """Regret as a percentage of what drawing arms at random costs."""
    return 100 * cell.mean / uniform_regret(BANDITS[bandit])


def table(found: Results, trust: str) -> str:
    """By epsilon: the geometric mean over bandits of regret as a percentage of uniform play's, and the worst run."""
    epsilons, lines = EPSILONS[trust], []
    for name in _names(found, trust):
        means = [
            np.exp(np.mean([np.log(share(found[trust, bandit, epsilon][name], bandit)) for bandit in BANDITS]))
            for epsilon in epsilons
        ]
        worst = max(
            found[trust, bandit, epsilon][name].worst / uniform_regret(BANDITS[bandit])
            for bandit in BANDITS
            for epsilon in epsilons
        )
        lines.append((_called(name), _promise(name), *(f"{mean:.1f}%" for mean in means), f"{100 * worst:.0f}%"))
    return _table(("", "promise", *(f"ε = {epsilon:g}" for epsilon in epsilons), "worst run"), lines)


def by_bandit(found: Results, trust: str) -> str:
    """By bandit, at epsilon 1: regret per user and its standard error over runs."""
    lines = []
    for name in _names(found, trust):
        cells = [found[trust, bandit, 1.0][name] for bandit in BANDITS]
        lines.append((_called(name), *(f"{cell.mean:.4f} ± {cell.error:.4f}" for cell in cells)))
    lines.append(("uniform play", *(f"{uniform_regret(means):.4f}" for means in BANDITS.values())))
    return _table(("ε = 1, regret per user", *BANDITS), lines)


def draw(found: Results, trust: str) -> bytes:
    """Regret over users, averaged over runs: above as printed, below as tuned; discreet in both."""
    from matplotlib import colormaps

    columns = DRAWN[trust]
    picture = new_picture(4.4 * len(columns), 7.6)
    grid = picture.subplots(2, len(columns), squeeze=False, sharex=True, sharey="col")
    colours = {one.name: colormaps["tab10"](i) for i, one in enumerate(comparators.of(trust))}
    for row, version in enumerate(("printed", "tuned")):
        for column, (bandit, epsilon) in enumerate(columns):
            axes, cells = grid[row, column], found[trust, bandit, epsilon]
            for name, colour in colours.items():
                axes.plot(MARKS, cells[name, version].curve, color=colour, lw=1.4, label=name)
            for (algorithm, _), cell in cells.items():
                if algorithm.startswith("discreet"):
                    axes.plot(MARKS, cell.curve, color="black", lw=2.6, label=algorithm)
            axes.plot(
                MARKS, MARKS * uniform_regret(BANDITS[bandit]), color="grey", lw=0.8, ls="--", label="uniform play"
            )
            axes.set(xscale="log", yscale="log", title=f"{bandit}, ε = {epsilon:g}\nconstants as {version}")
            axes.set_xlim(20, MARKS[-1])
            axes.set_ylim(bottom=1)
            axes.grid(visible=True, alpha=0.25)
        grid[row, 0].set_ylabel("regret, total")
    for axes in grid[1]:
        axes.set_xlabel("users")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)), frameon=False)
    return as_png(picture, dpi=100)


def _names(found: Results, trust: str) -> list[Name]:
    """All lines of a trust model, the printed ones first, ours last."""
    some = next(cells for (model, _, _), cells in found.items() if model == trust)
    order = {"printed": 0, "tuned": 1}
    return sorted(some, key=lambda name: order.get(name[1], 2))


def _called(name: Name) -> str:
    algorithm, version = name
    if algorithm.startswith("discreet"):
        return f"**{algorithm}**"
    return f"{algorithm}, {version}"


def _promise(name: Name) -> str:
    algorithm, version = name
    if algorithm.startswith("discreet"):
        return "(ε, 1e-5)" if version == "shuffle" else "pure ε"
    return comparators.described()[algorithm][2]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(table_lines(header, rows))
