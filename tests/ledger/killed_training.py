"""A process that kills training runs which are charged to a ledger, and finishes each of them by the same call.

``python -m tests.ledger.killed_training LEDGER DATA FOLDER KILLS``. It imports everything first and forks the runs, so
that each kill hits the work and not the start of Python. Half of the kills come at a moment of the whole run, half at a
moment after the transaction has begun, where most can go wrong. Every trial has a data set of its own with a budget for
exactly one run. What must hold:

* after the kill: the charge and the stored release are both there or both not, and no file was written without them;
* after the same call again: one charge, the same release, and both files.

Prints how many runs died, how many of those had been charged, and how many had not.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import discreet.data
import discreet.offline
from discreet import ledger
from discreet.base.policies import load_policy
from discreet.ledger import database, paying

NAMES = {"user": "patient", "step": "day", "state": "state", "action": "drug", "reward": "outcome"}
DOMAIN = {"states": 4, "actions": 2, "horizon": 5}


def train(book: str, source: Path, out: Path, name: str) -> None:
    """One run, as the command line does it."""
    table = discreet.data.read(source, **NAMES, **DOMAIN)
    fit = discreet.offline.train(table, epsilon=1.0, delta=1e-6, ledger=book, dataset=name)
    fit.receipt(out / f"{name}-receipt.json")
    fit.policy.save(out / f"{name}-policy.json")


def forked(book: str, source: Path, out: Path, name: str) -> tuple[int, int]:
    """The number of a child that trains, and a pipe that it writes to when its transaction has begun."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            bought = paying._bought

            def begun(*arguments: object) -> paying.Paid:
                os.write(tell, b"1")
                return bought(*arguments)

            paying._bought = begun
            train(book, source, out, name)
            code = 0
        finally:
            os._exit(code)
    os.close(tell)
    return child, told


def state(book: str, name: str) -> tuple[int, bytes | None]:
    """How many charges a data set has, and the stored release of the first."""
    with ledger.opened(book) as connection:
        return ledger.balance(connection, name).head.number, database.release_at(connection, name, 1)


def main(book: str, source: Path, out: Path, kills: int) -> None:
    """Kill, look, finish, look again."""
    names = [f"trial-{number}" for number in range(kills + 1)]
    with ledger.opened(book, new=True) as connection, ledger.transaction(connection):
        for name in names:
            ledger.open_data_set(connection, name, ledger.make_budget(epsilon=1.0, delta=1e-6))
    train(book, source, out, names[0])  # warm: everything is imported and compiled
    began = time.perf_counter()
    child, told = forked(book, source, out, names[0])
    assert os.waitpid(child, 0)[1] == 0, "the run itself must work"
    whole = time.perf_counter() - began
    # A machine may be busier or freer later than it was just now: a kill that comes too late makes later ones earlier.
    longest = [whole, whole / 2]
    coins, died, charged = random.Random(os.urandom(8)), 0, 0
    for number, name in enumerate(names[1:]):
        child, told = forked(book, source, out, name)
        if number % 2:
            os.read(told, 1)
        time.sleep(coins.uniform(0, longest[number % 2]))
        os.kill(child, signal.SIGKILL)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        longest[number % 2] *= 1.05 if killed else 0.85
        os.close(told)
        entries, release = state(book, name)
        assert (entries, release is not None) in ((0, False), (1, True)), f"{name}: half a charge"
        files = [out / f"{name}-{kind}.json" for kind in ("receipt", "policy")]
        assert release is not None or not any(file.exists() for file in files), f"{name}: released and not charged"
        died, charged = died + killed, charged + (killed and entries)
        child, told = forked(book, source, out, name)
        assert os.waitpid(child, 0)[1] == 0, f"{name}: the same call did not finish it"
        os.close(told)
        assert state(book, name)[0] == 1, f"{name}: charged twice"
        assert release is None or state(book, name)[1] == release, f"{name}: drawn twice"
        load_policy(files[1])
        assert files[0].exists()
    with ledger.opened(book) as connection:
        assert ledger.verify(connection).sound
    print(died, charged, died - charged)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
