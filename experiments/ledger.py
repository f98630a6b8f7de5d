"""A ledger of a million entries: ``python -m experiments.ledger [ENTRIES]`` charges, reads the balance and verifies.

All charges go into one SQLite file, in transactions of 100,000. What one charge costs when it comes alone, with its own
transaction that is synced to the disk, is measured at the end, where the ledger is longest.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from discreet import ledger
from discreet.noise import DiscreteLaplace
from discreet.privacy.guarantee import drawn, from_mechanism
from discreet.privacy.sensitivity import Sensitivity

AT_ONCE, ALONE = 100_000, 50


def clock() -> tuple[float, float]:
    """Seconds on the wall, and of the processor."""
    return time.perf_counter(), time.process_time()


def main(entries: int) -> None:
    """Print seconds and bytes."""
    one = Sensitivity(1.0, 1.0, 1.0)
    guarantee = drawn(from_mechanism(DiscreteLaplace(2e6), one, delta=0.0, name="a count"), simulated=False)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "budget.db"
        with ledger.opened(file, new=True) as connection:
            with ledger.transaction(connection):
                ledger.open_data_set(connection, "people", ledger.make_budget(epsilon=1.0))
            began = clock()
            for first in range(0, entries, AT_ONCE):
                many = range(first, min(first + AT_ONCE, entries))
                with ledger.transaction(connection):
                    charges = (ledger.Charge(guarantee, "a count", request=f"{number:064x}") for number in many)
                    ledger.spend_all(connection, "people", charges)
            said("charge in bulk", began, entries)
            began = clock()
            report = ledger.verify(connection)
            said("verify", began, entries)
            assert report.sound, report.problems
            assert report.entries == entries + 1
            began = clock()
            for _ in range(ALONE):
                with ledger.transaction(connection):
                    ledger.spend(connection, "people", guarantee, what="alone")
            said("charge alone", began, ALONE)
        print(f"{file.stat().st_size / entries:.0f} bytes an entry")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10:,} MiB of memory at most")


def said(what: str, began: tuple[float, float], many: int) -> None:
    """One line: what, how long, how long for one."""
    wall, busy = (now - then for now, then in zip(clock(), began, strict=True))
    each = 1e6 * busy / many
    print(f"{what:15} {many:>9,} entries {wall:8.2f} s, {busy:.2f} s of processor, {each:.1f} us each", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
