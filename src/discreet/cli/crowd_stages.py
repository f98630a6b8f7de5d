"""Whether a crowd shows learning: regret stage by stage, as a share of what playing at random would have cost."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from discreet.base.types import Floats, Integers
    from discreet.worlds.tabular import TabularWorld

_HALVINGS = 4
_WIDTH = 20


class Stage(NamedTuple):
    """Some people who came one after the other, and their regret as a share of that of playing at random."""

    first: int
    last: int
    share: float

    def row(self) -> list[str]:
        """As a line of a table, with a bar."""
        bar = "#" * round(_WIDTH * min(self.share, 1.0))
        return [f"{self.first:,} to {self.last:,}", f"{self.share:.0%}", bar]


def stages(people: Integers, regret: Floats, world: TabularWorld) -> list[Stage]:
    """The last half of the people, the quarter before it, and so on; ``regret[i]`` is that of the first ``people[i]``.

    Each begins where a number of people is known whose regret is; so the parts are halves to within some percent.
    """
    import numpy as np

    from discreet.base.policies import uniform_policy

    uniform = world.gap(uniform_policy(world.shape))
    if not len(people) or uniform <= 0:
        return []
    wanted = people[-1] / 2.0 ** np.arange(_HALVINGS, -1, -1)
    ends = np.unique([int(np.abs(people - place).argmin()) for place in wanted])
    found, done, cost = [], 0, 0.0
    for end in ends:
        last, total = int(people[end]), float(regret[end])
        found.append(Stage(done + 1, last, (total - cost) / ((last - done) * uniform)))
        done, cost = last, total
    return found


def next_steps(study: str) -> str:
    """What somebody may do who has seen a crowd."""
    here = sys.argv[0] if Path(sys.argv[0]).name == "discreet" and shutil.which("discreet") is None else "discreet"
    commands = {
        f"{here} study check {study}": "what it promises, what a device pays, what to expect",
        f"{here} study new mine.toml": "a study of your own: change it, check it, send a crowd",
        f"{here} serve mine.toml": "the same for real devices; docs/guides/real-users.md goes all the way",
    }
    width = max(map(len, commands))
    lines = [f"  {command:{width}}  {words}" for command, words in commands.items()]
    return "\n".join(["The service of this rehearsal is gone again. Next:", *lines])
