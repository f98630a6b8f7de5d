"""The demonstration: what each trust model costs in one small world, beside playing at random.

RiverSwim rewards patience: the large reward lies at the far end of a chain, against the current, and a learner that
cannot tell its counts from the noise never gets there. Regret is exact, so what differs between two rows is the
mechanism (its noise and how often it releases) and the luck of the runs, and nothing else.

The page is self-contained HTML: inline style, inline picture, no script, nothing fetched from anywhere. Its colours,
those of the picture included, follow the reader's light or dark scheme.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np

from discreet.base.errors import of_kind
from discreet.base.notebook import counted
from discreet.base.pictures import DARK, LIGHT, Theme
from discreet.base.policies import uniform_policy
from discreet.learners.registry import make_learner
from discreet.privacy.guarantee import Guarantee
from discreet.recipes.targets import Central, Local, NoPrivacy, Privacy, Shuffle
from discreet.simulation.plots import draw_results
from discreet.simulation.result import SimulationResult, with_error
from discreet.simulation.simulate import simulate
from discreet.worlds.catalogue import river_swim
from discreet.worlds.tabular import TabularWorld

TARGETS: tuple[tuple[str, Privacy], ...] = (
    ("no privacy", NoPrivacy()),
    ("central, (1, 1e-5)", Central(epsilon=1.0, delta=1e-5)),
    ("shuffle, (1, 1e-5)", Shuffle(epsilon=1.0, delta=1e-5)),
    ("local, pure epsilon 1", Local(epsilon=1.0)),
)
UNIFORM = "uniform play"
_FOLDED = 25  # lines of a derivation


@dataclass(frozen=True)
class Row:
    """One line of the table, ready to print."""

    label: str
    regret: str
    final_gap: str
    guarantee: str


@dataclass(frozen=True)
class Comparison:
    """One world, one learner, several promises; ``uniform`` is what playing at random would have cost."""

    world: TabularWorld
    labels: tuple[str, ...]
    results: tuple[SimulationResult, ...]
    uniform: SimulationResult

    @property
    def subtitle(self) -> str:
        """What was run, in one sentence."""
        first = self.results[0]
        return (
            f"{first.learner} on {self.world.name}, horizon {self.world.horizon}, {int(first.episodes[-1]):,} users, "
            f"{counted(first.runs, 'run')}, seed {first.seed}"
            + ("; regret ± one standard error" if first.runs > 1 else "")
        )

    @property
    def seconds(self) -> float:
        """How long the simulations of all promises took together."""
        return sum(result.seconds for result in self.results)

    def rows(self) -> Iterator[Row]:
        """The table: one line per promise, then uniform play."""
        for label, result in zip(self.labels, self.results, strict=True):
            regret = with_error(result.total_regret, ",.0f")
            yield Row(label, regret, f"{result.final_gap.mean():.3f}", result.statement)
        uniform = self.uniform
        yield Row(UNIFORM, f"{uniform.total_regret[0]:,.0f}", f"{uniform.final_gap[0]:.3f}", uniform.statement)


def run_demo(*, runs: int = 5, seed: int = 7, episodes: int = 20_000, progress: bool = False) -> Comparison:
    """Run the four promises on RiverSwim with 4 states and horizon 6."""
    world = river_swim(states=4, horizon=6)
    learner = make_learner("ucbvi")
    results = tuple(
        simulate(world, learner, target, episodes=episodes, runs=runs, seed=seed, progress=progress)
        for _, target in TARGETS
    )
    return Comparison(world, tuple(label for label, _ in TARGETS), results, uniform_play(world, results[0]))


def uniform_play(world: TabularWorld, like: SimulationResult) -> SimulationResult:
    """The exact regret of playing every action with the same probability for ever, as one run beside ``like``."""
    gap = world.gap(uniform_policy(world.shape))
    return SimulationResult(
        world=world.name,
        learner=UNIFORM,
        privacy="none",
        recipe="none",
        seed=like.seed,
        episodes=like.episodes,
        regret=gap * like.episodes[None, :].astype(np.float64),
        final_gap=np.array([gap]),
        deployed_gap=np.array([gap]),
        switches=np.zeros(1, np.int64),
        deterministic_switches=np.zeros(1, np.int64),
        guarantee={"model": "none", "epsilon": None, "delta": 0.0, "statement": "looks at no data at all"},
        seconds=0.0,
    )


def _variables(theme: Theme) -> str:
    """The colours of a theme as variables of the page; the picture uses them too."""
    lines = "".join(f" --line-{index}: {colour};" for index, colour in enumerate(theme.colours))
    return f"--ink: {theme.ink}; --soft: {theme.soft}; --line: {theme.grid}; --paper: {theme.paper};{lines}"


_STYLE = (
    f":root {{ color-scheme: light dark; {_variables(LIGHT)} --wash: #f5f6f9; }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} --wash: #15181e; }} }}\n"
    """
* { box-sizing: border-box; }
body { margin: 0; background: var(--wash); color: var(--ink); line-height: 1.55;
       font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .6rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .8rem; }
p { margin: 0 0 .8rem; max-width: 46rem; }
.soft { color: var(--soft); font-size: .92rem; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: .6rem; padding: 1.1rem 1.3rem; }
figure { margin: 1.6rem 0 0; } figure svg { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; width: 100%; font-size: .94rem; }
th { text-align: left; color: var(--soft); font-weight: 600; font-size: .82rem; }
th, td { padding: .6rem .9rem .6rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.name { white-space: nowrap; font-weight: 600; }
.mark { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem; margin-right: .55rem; }
details { margin-bottom: .7rem; } summary { cursor: pointer; font-weight: 600; }
pre { margin: .8rem 0 0; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .82rem; line-height: 1.5;
      font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.line { display: block; padding-left: calc(var(--in) + 3ch); text-indent: calc(-1 * (var(--in) + 3ch)); }
.command { margin: 0 0 .6rem; cursor: copy; user-select: all;
           -webkit-user-select: all; border-left: .2rem solid var(--line); padding-left: .7rem; }
.command:last-child { margin-bottom: 0; }
@media (max-width: 40rem) {
  figure { overflow-x: auto; } figure svg { min-width: 30rem; } figcaption { min-width: 0; }
  figcaption::before { content: "Swipe the picture: it goes on at the right. "; font-weight: 600; }
  main { padding: 1.4rem .8rem 3rem; } .card { padding: .8rem .9rem; }
  thead { display: none; } tr { display: block; padding: .6rem 0; border-bottom: 1px solid var(--line); }
  tr:last-child { border-bottom: 0; }
  td { display: block; border: 0; padding: .1rem 0; text-align: left !important; white-space: normal !important; }
  td[data-name]::before { content: attr(data-name) ": "; color: var(--soft); font-size: .85rem; }
}
"""
)


def render(comparison: Comparison) -> str:
    """The whole page as HTML."""
    world, first = comparison.world, comparison.results[0]
    users, uniform = int(first.episodes[-1]), comparison.uniform
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>discreet: what privacy costs</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>What privacy costs</h1>
<p>One learner, one world, four trust models. The learner ({escape(first.learner)}) is told counts of what users did,
with as much noise in them as the guarantee requires. Regret is what was lost against the best policy, summed over all
{users:,} users; it is computed exactly, not estimated.</p>
<p class="soft">World: {escape(world.name)}, {world.shape.states} states, {world.shape.actions} actions, horizon
{world.horizon}; the best policy earns {world.optimal_value:.3f} per user. {first.runs} runs each, seed {first.seed},
{comparison.seconds:.1f} seconds in all. All users are simulated.</p>
<figure class="card">{_inline_svg(comparison)}
<figcaption class="soft">Cumulative regret, mean over runs with one standard error either side; both axes are
logarithmic. Playing uniformly at random would lose {uniform.final_gap[0]:.3f} per user: a curve that runs beside that
line has learned nothing yet. Without privacy the counts are renewed after every user; with it, in
blocks.</figcaption></figure>
<h2>Regret and guarantee</h2>
<div class="card"><table>
<thead>
<tr><th>trust model</th><th class="number">regret</th><th class="number">final gap</th><th>guarantee</th></tr>
</thead>
<tbody>
{_table(list(comparison.rows()))}
</tbody></table></div>
<p class="soft" style="margin-top:.8rem">Regret ± one standard error. The final gap is what the policy that is
recommended in the end loses per user. A smaller epsilon is a stronger guarantee. <em>Joint</em>: whatever the other
users see would have been almost as likely had one user been replaced. <em>Shuffle</em>: the same holds for all
messages together, after a trusted shuffler has mixed them. <em>Local</em>: the same holds for the message that leaves
the user's own device.</p>
<h2>Why the guarantees hold</h2>
<p>Every epsilon is computed from what one user can change and from the exact law of the noise, never copied from a
claim. Read each derivation from the bottom up.</p>
{_derivations(comparison)}
<h2>Run it yourself</h2>
<p class="soft">A click selects a whole command.</p>
<div class="card">{_commands(comparison)}</div>
</main>
</body>
</html>
"""


def draw(comparison: Comparison, kind: str, theme: str = "light") -> bytes:
    """The picture alone: every promise, and uniform play for reference."""
    results = (*comparison.results, comparison.uniform)
    return draw_results(results, kind, labels=(*comparison.labels, UNIFORM), title=comparison.world.name, theme=theme)


def _inline_svg(comparison: Comparison) -> str:
    """The picture as an element of the page: without the prologue and the metadata of a file of its own."""
    svg = draw(comparison, "svg").decode()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    for name, colour in _names_of_colours():
        svg = re.sub(rf"{colour}\b", f"var(--{name})", svg, flags=re.IGNORECASE)
    return svg.replace("<svg ", '<svg role="img" aria-label="cumulative regret against episodes" ', 1)


def _names_of_colours() -> Iterator[tuple[str, str]]:
    """The variables of the page that stand for the colours of a picture, so that it follows the reader's scheme."""
    yield from (("ink", LIGHT.ink), ("soft", LIGHT.soft), ("line", LIGHT.grid), ("paper", LIGHT.paper))
    yield from ((f"line-{index}", colour) for index, colour in enumerate(LIGHT.colours))


def _table(rows: list[Row]) -> str:
    return "\n".join(
        f'<tr><td class="name"><span class="mark" style="background:var(--line-{index})"></span>'
        f"{escape(row.label)}</td>"
        f'<td class="number" data-name="regret">{escape(row.regret)}</td>'
        f'<td class="number" data-name="final gap">{escape(row.final_gap)}</td>'
        f'<td data-name="guarantee">{escape(row.guarantee)}</td></tr>'
        for index, row in enumerate(rows)
    )


def _derivations(comparison: Comparison) -> str:
    """Each derivation, its lines wrapped behind their indentation; long ones are folded."""
    parts = []
    for label, result in zip(comparison.labels, comparison.results, strict=True):
        lines = f"recipe {result.recipe}\n{of_kind(Guarantee, result.guarantee).explain()}".split("\n")
        text = "".join(
            f'<span class="line" style="--in:{len(line) - len(line.lstrip())}ch">{escape(line)}\n</span>'
            for line in lines
        )
        shown = " open" if len(lines) <= _FOLDED else ""
        parts.append(f'<details class="card"{shown}><summary>{escape(label)}</summary><pre>{text}</pre></details>')
    return "\n".join(parts)


def _commands(comparison: Comparison) -> str:
    first, shape = comparison.results[0], comparison.world.shape
    common = (
        f"discreet simulate --world river-swim --states {shape.states} --horizon {shape.horizon} "
        f"--episodes {int(first.episodes[-1])} --runs {first.runs} --seed {first.seed}"
    )
    private = ("central --epsilon 1 --delta 1e-5", "shuffle --epsilon 1 --delta 1e-5", "local --epsilon 1")
    commands = [f"{common} --privacy {promise}" for promise in ("none", *private)]
    return "\n".join(f'<pre class="command">{escape(command)}</pre>' for command in commands)
