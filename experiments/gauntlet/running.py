"""Run cells side by side, store each when it is finished, and leave out those that are stored already.

One file per cell, named by the cell and by a digest of all that defines it, the version of the code included. A cell
has a limit in seconds of processor time, so that a busy machine changes nothing. It is looked at between runs, and a
run that is under way is stopped at three times the limit. What was measured until then is kept, and the row says that
there are fewer runs. Loading compiled code and calibrating noise come before and do not count.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet.base.errors import DiscreetError, InvalidInput, Unsupported
from discreet.base.files import write_atomically
from discreet.base.policies import uniform_policy
from discreet.learners.base import Learner
from discreet.mechanisms.session import Privatizer
from discreet.recipes.registry import build
from discreet.simulation.experiments import address
from discreet.simulation.simulate import world_of_run

from .cells import Cell, learner_of, trust_of

STUCK = 0.25  # a run is stuck if its recommended policy has more than this share of uniform play's gap
_PATIENCE = 3.0  # a single run may take so many times the limit of its cell
_WARM_UP = 1_000  # users of the run that loads compiled code; fewer would take another loop


class TooLong(Exception):
    """A run was stopped because it took too long."""


def version(tag: str | None) -> str:
    """What the code is called: the tag that was given, or the commit, marked if files were changed since."""
    if tag is not None:
        return tag
    folder = Path(discreet.__file__).parent
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", str(folder))
    except (OSError, subprocess.CalledProcessError):
        raise InvalidInput("the code is not in a git repository, so that it has no version: give --tag") from None
    return commit + ("-changed" if changed else "")


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def path_of(cell: Cell, tag: str, out: Path) -> Path:
    """Where the cell is stored."""
    words = [cell.entry.name, cell.learner, cell.trust, str(cell.users)]
    return address(out, words, {**cell.key(), "tag": tag})


def run_all(cells: list[Cell], tag: str, out: Path, *, jobs: int, limit: float, tell: Callable[[str], None]) -> int:
    """Run what is not stored yet and return how many cells that was; ``tell`` gets a line for each."""
    out.mkdir(parents=True, exist_ok=True)
    waiting = [cell for cell in cells if not path_of(cell, tag, out).exists()]
    tell(f"{len(cells)} cells, {len(cells) - len(waiting)} of them in {out} already; version {tag}")
    began = time.perf_counter()
    for done, (cell, row) in enumerate(_results(waiting, tag, out, jobs, limit), 1):
        spent = time.perf_counter() - began
        left = spent / done * (len(waiting) - done)
        tell(f"[{done}/{len(waiting)}, {spent / 60:.0f} min, about {left / 60:.0f} left] {cell.label}: {in_words(row)}")
    return len(waiting)


def _results(cells: list[Cell], tag: str, out: Path, jobs: int, limit: float) -> Iterator[tuple[Cell, dict[str, Any]]]:
    if jobs == 1:
        for cell in cells:
            yield cell, finish(cell, tag, out, limit)
        return
    # Started afresh, because a fork would copy the locks of numba's threads. Workers stay, so they load kernels once.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(finish, cell, tag, out, limit): cell for cell in cells}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def finish(cell: Cell, tag: str, out: Path, limit: float) -> dict[str, Any]:
    """Run one cell and store it."""
    row = {**cell.key(), "tag": tag, "half": cell.entry.half, "kind": cell.entry.kind, "limit": limit}
    row |= measure(cell, limit)
    write_atomically(path_of(cell, tag, out), json.dumps(row, indent=1))
    return row


def measure(cell: Cell, limit: float) -> dict[str, Any]:
    """Runs of one cell until they are done or the time is over; a refusal is a result with its reason."""
    world, began = cell.entry.make(), time.process_time()
    try:
        learner = learner_of(cell.learner)
        privatizer = build(trust_of(cell.trust), world.shape, cell.users, learner.needs)
        with _stopped_after(_PATIENCE * limit):
            _warm_up(world, learner, privatizer, cell)
    except Unsupported as refusal:
        return {"status": "refused", "reason": str(refusal)}
    except DiscreetError as error:
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    except TooLong:
        return {"status": "too long", "reason": f"not even {_WARM_UP:,} users in {_PATIENCE * limit:g} seconds"}
    return {"recipe": privatizer.recipe, "prepared": time.process_time() - began} | _runs(
        cell, world, learner, privatizer, limit
    )


def _warm_up(world: Any, learner: Learner, privatizer: Privatizer, cell: Cell) -> None:
    users = min(cell.users, _WARM_UP)
    discreet.simulate(world, learner, privatizer, episodes=users, seed=cell.run_seed(0), threads=1)


def _runs(cell: Cell, world: Any, learner: Learner, privatizer: Privatizer, limit: float) -> dict[str, Any]:
    regret, gap, uniform = [], [], []
    began = time.process_time()
    for run in range(cell.runs):
        if run and time.process_time() - began > limit:
            break
        seed = cell.run_seed(run)
        try:
            with _stopped_after(_PATIENCE * limit):
                result = discreet.simulate(world, learner, privatizer, episodes=cell.users, seed=seed, threads=1)
        except TooLong:
            break
        except Unsupported as refusal:
            return {"status": "refused", "reason": str(refusal)}
        except DiscreetError as error:
            return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
        regret.append(float(result.total_regret[0]))
        gap.append(float(result.final_gap[0]))
        instance = world_of_run(world, seed, 0)
        uniform.append(float(instance.gap(uniform_policy(instance.shape))))
    seconds = time.process_time() - began
    if not regret:
        return {"status": "too long", "reason": f"one run takes more than {_PATIENCE * limit:g} seconds"}
    status = "done" if len(regret) == cell.runs else "fewer runs"
    measured = {"regret": regret, "final_gap": gap, "uniform_gap": uniform, "seconds": seconds}
    return {"status": status, "reason": "", **measured, **summary(cell.users, measured)}


def summary(users: int, measured: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a row.

    The mean share is the mean regret over the mean regret of uniform play, so that a random world in which all policies
    are nearly worth the same does not decide it; the worst run is measured in its own world.
    """
    regret, gap, uniform = (np.array(measured[name]) for name in ("regret", "final_gap", "uniform_gap"))
    scale = users * uniform.mean()
    error = regret.std(ddof=1) / np.sqrt(regret.size) if regret.size > 1 else 0.0
    return {
        "finished": int(regret.size),
        "per_user": float(regret.mean() / users),
        "share": float(regret.mean() / scale),
        "share_error": float(error / scale),
        "worst": float((regret / (users * uniform)).max()),
        "stuck": int((gap > STUCK * uniform).sum()),
    }


def in_words(row: dict[str, Any]) -> str:
    """A row as one line of progress."""
    if "share" not in row:
        return f"{row['status']}: {row['reason'][:100]}"
    fewer = "" if row["status"] == "done" else f" of {row['runs']}"
    return (
        f"share {row['share']:.3f} ± {row['share_error']:.3f}, worst {row['worst']:.3f}, stuck {row['stuck']} of "
        f"{row['finished']}{fewer} runs, {row['seconds']:.1f} s"
    )


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Raise ``TooLong`` in what runs inside after so many seconds of processor time, as Ctrl-C would stop it."""

    def stop(_signal: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
