"""What experiments share: cells that are measured once and kept, run anywhere, compared run by run, told in tables.

A *cell* is all that a measurement depends on, as plain data: a world, a learner, a promise, users, a seed. Its file is
named by some words and by a digest of the cell, so an interrupted experiment goes on where it was and a changed cell is
measured again; ``resolved`` says which knobs a learner and a recipe had, defaults included. Run i of all cells has the
same seed, so that in random worlds it is the same world, and cells are compared as pairs of runs.

``sign_flips``: if both cells had the same law, the difference of a pair would be as likely as its negative. The p-value
is the share of random changes of sign whose sum is at least the one that was seen. ``holm`` corrects several p-values,
so that the chance of any false alarm is at most the level at which they are read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, MissingExtra
from discreet.base.files import folder_for, write_atomically
from discreet.base.types import Floats
from discreet.base.validation import check_count

_EXACT, _FIRST, _MORE = 12, 2_000, 100_000


def address(folder: Path, words: Sequence[str], cell: Mapping[str, Any]) -> Path:
    """The file of a cell.

    >>> address(Path("runs"), ["bandit", "local/sampled-step", "1"], {"seed": 1}).name
    'bandit-local-sampled-step-1-a4bbadc1.json'
    """
    digest = hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()[:8]
    return folder / f"{re.sub(r'[^a-zA-Z0-9_.+-]', '-', '-'.join(words))[:120]}-{digest}.json"


def kept(path: Path, measure: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What was measured before, or what is measured now and written whole."""
    if path.exists():
        found: Mapping[str, Any] = json.loads(path.read_text())
        return found
    found = measure()
    with folder_for(path.parent):
        write_atomically(path, json.dumps(found, indent=1))
    return found


def resolved(learner: str, knobs: Mapping[str, Any], recipe: str, options: Mapping[str, Any]) -> str:
    """A learner with all of its knobs, and a recipe with all of its options, in words.

    >>> resolved("pevi", {"beta": 1}, "auto", {}).partition(",")[0]
    'PEVI(features=None'
    """
    return _resolved(
        learner, json.dumps(dict(knobs), sort_keys=True, default=str), recipe,
        json.dumps(dict(options), sort_keys=True, default=str),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _resolved(learner: str, knobs: str, recipe: str, options: str) -> str:
    from discreet.learners.registry import LEARNERS
    from discreet.recipes.registry import recipes

    made = repr(LEARNERS.create(learner, **json.loads(knobs))) if learner in LEARNERS else learner
    defaults = next((known.options for known in recipes() if known.name == recipe), {})
    chosen = {**defaults, **json.loads(options)}
    return f"{made} on {recipe}" + (f" with {json.dumps(chosen, sort_keys=True, default=str)}" if chosen else "")


@contextmanager
def open_executor(where: str = "threads") -> Iterator[Executor]:
    """Open "threads" (one per core), "threads:N", or "dask:ADDRESS" for a cluster of dask.distributed."""
    kind, _, rest = where.partition(":")
    if kind == "threads":
        count = check_count("threads", int(rest)) if rest.isdigit() else None
        if rest and count is None:
            raise InvalidInput(f"threads:N takes a whole number, got {rest!r}")
        pool = ThreadPoolExecutor(count or os.cpu_count() or 1)
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    elif kind == "dask" and rest:
        try:
            from distributed import Client
        except ImportError:
            raise MissingExtra("distributed", "dask") from None
        try:
            client = Client(rest, timeout="10s")
        except (OSError, ValueError) as error:
            raise InvalidInput(f"no dask scheduler answers at {rest!r}: {type(error).__name__}") from None
        with client, client.get_executor(pure=False) as cluster:
            yield cluster
    else:
        raise InvalidInput(f"executor must be threads, threads:N or dask:ADDRESS, got {where!r}")


def in_turns(
    *works: tuple[Callable[[], object], float], rounds: int, clock: Callable[[], float] = time.process_time
) -> Floats:
    """Units per second of each work, (rounds, works), taken in turns, so that a busy machine slows all of them.

    A work comes with the number of its units. The first turn compiles and warms up, and does not count.
    """
    rates = np.zeros((rounds + 1, len(works)))
    for turn in rates:
        for i, (work, units) in enumerate(works):
            began = clock()
            work()
            turn[i] = units / max(clock() - began, 1e-9)
    return rates[1:]


def sign_flips(differences: Floats, *, two_sided: bool) -> float:
    """The p-value of paired differences by random signs: exact up to twelve runs, finer where it is small."""
    if not np.any(differences):
        return 1.0
    n = differences.size
    if n <= _EXACT:
        signs = np.array(list(product((1.0, -1.0), repeat=n)))
        return _tail(signs @ differences, float(differences.sum()), two_sided)
    rng = np.random.default_rng(0)
    p = 1.0
    for draws in (_FIRST, _MORE):
        sums = np.concatenate(
            [(2.0 * rng.integers(0, 2, size=(part, n)) - 1.0) @ differences for part in (draws // 10,) * 10]
        )
        p = _tail(np.append(sums, differences.sum()), float(differences.sum()), two_sided)
        if p > 0.02:
            break
    return p


def shuffled_labels(a: Floats, b: Floats, *, two_sided: bool) -> float:
    """The p-value of two samples that are not paired: how often random labels give as large a difference of means."""
    rng = np.random.default_rng(0)
    pool = np.concatenate([a, b])
    seen = float(a.mean() - b.mean())
    drawn = rng.permuted(np.tile(pool, (20_000, 1)), axis=1)
    return _tail(np.append(drawn[:, : a.size].mean(axis=1) - drawn[:, a.size :].mean(axis=1), seen), seen, two_sided)


def _tail(drawn: Floats, seen: float, two_sided: bool) -> float:
    slack = 1e-9 * (1 + abs(seen))  # sums of the same numbers in another order
    if two_sided:
        return float(np.mean(np.abs(drawn) >= abs(seen) - slack))
    return float(np.mean(drawn >= seen - slack))


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected p-values: the smallest times their number, the next times one less, and never falling.

    >>> [round(p, 10) for p in holm([0.04, 0.01, 0.03])]
    [0.06, 0.03, 0.06]
    """
    corrected, so_far = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        corrected[i] = so_far = max(so_far, min(1.0, p_values[i] * (len(p_values) - rank)))
    return corrected


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    return [line_of(cells) for cells in (header, ["---"] * len(header), *rows)]


def line_of(cells: Sequence[str]) -> str:
    """One line of a table; bars and line breaks in cells are made harmless."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
