"""Processes that charge one data set at once: ``python -m tests.ledger.spenders LEDGER DATA_SET SPENDERS EPSILON``.

They are forked from one process that has imported everything, and wait at a pipe, so that they start together. Each
charges epsilon until the budget refuses. Prints how many charges went through, one number for each spender.
"""

from __future__ import annotations

import os
import sys

from tests.ledger.conftest import pure

from discreet import ledger
from discreet.base.errors import OverBudget


def spend(book: str, name: str, guarantee: object) -> int:
    """Charge until the budget refuses; how many charges went through."""
    done = 0
    try:
        while True:
            with ledger.opened(book) as connection, ledger.transaction(connection):
                ledger.spend(connection, name, guarantee, what="a race")
            done += 1
    except OverBudget:
        return done


def main(book: str, name: str, spenders: int, epsilon: float) -> None:
    """Fork, let go, collect."""
    guarantee = pure(epsilon)
    gate, latch = os.pipe()
    told, tell = os.pipe()
    children = []
    for _ in range(spenders):
        child = os.fork()
        if child == 0:
            os.close(latch)
            os.read(gate, 1)  # returns when the parent closes its end
            try:
                os.write(tell, f"{spend(book, name, guarantee)}\n".encode())
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    os.close(latch)
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    os.close(tell)
    with os.fdopen(told) as numbers:
        print(*(line.strip() for line in numbers))
    sys.exit(f"{failed} spenders failed" if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
