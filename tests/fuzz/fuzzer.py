"""Wrong input, a million times over: every call ends well, or with an error of discreet's own, which is one sentence.

``python -m tests.fuzz.fuzzer --inputs N --seed S`` prints the seed, how far it is, for every raw Python exception where
in the package it came from and the command that shows it again, with its traceback, and in the end a verdict in one
line. An input is a function of (seed, number) alone.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet.base.errors import DiscreetError

from .calls import cheap_calls, dear_calls
from .command_lines import command_lines
from .damaged_files import damaged

Call = Callable[[np.random.Generator], Any]
_EVERY = 10_000  # inputs between two words about progress
_PACKAGE = str(Path(discreet.__file__).parent) + os.sep  # asked, not guessed: clones have folders of any name
SHARES = {"cheap": 0.87, "files": 0.11, "dear": 0.012, "commands": 0.008}


def targets(folder: Path) -> dict[str, list[Call]]:
    """What is called, by kind."""
    return {
        "cheap": cheap_calls(folder),
        "files": [damaged(folder)],
        "dear": dear_calls(folder),
        "commands": [command_lines(folder)],
    }


def one_input(
    seed: int, number: int, kinds: dict[str, list[Call]], say: Callable[[str], None] = lambda _text: None
) -> str | None:
    """Try one input; None, or a raw exception and the line of the package that it came from. ``say`` hears it all."""
    rng = np.random.default_rng([seed, number])
    kind = str(rng.choice(list(SHARES), p=list(SHARES.values())))
    call = kinds[kind][int(rng.integers(len(kinds[kind])))]
    try:
        call(rng)
    except DiscreetError as error:
        if "\n" in str(error).strip():
            say(traceback.format_exc())
            return f"{kind}: an error of more than one line: {str(error)[:100]!r}"
    except Exception as error:
        say(traceback.format_exc())
        return f"{kind}: {type(error).__name__} at {place(error)}"
    return None


def place(error: BaseException) -> str:
    """The innermost line of the package that an exception passed."""
    passed = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_PACKAGE)]
    if not passed:
        return "the fuzzer itself"
    return f"{passed[-1].filename.removeprefix(_PACKAGE)}:{passed[-1].lineno}"


def again(seed: int, number: int) -> str:
    """The command that tries one input by itself and shows what comes out."""
    return f"python -m tests.fuzz.fuzzer --seed {seed} --first {number} --inputs 1"


def verdict(seed: int, inputs: int, found: dict[str, list[int]], spent: float) -> str:
    """What came of it, in one line."""
    raw = sum(len(numbers) for numbers in found.values())
    told = f"{inputs:,} inputs of seed {seed}, {raw:,} raw exceptions at {len(found)} sites, {spent:.0f} CPU seconds"
    return f"{'FAILED' if found else 'passed'}: {told}"


def fuzz(
    seed: int, inputs: int, first: int = 0, *, say: Callable[[str], None] = lambda _text: None
) -> dict[str, list[int]]:
    """All inputs of a seed; the sites of raw exceptions, each with the numbers of the inputs that reached it."""
    found: dict[str, list[int]] = {}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        os.chdir(folder)  # odd names are files of this folder
        try:
            kinds = targets(Path(folder))
            for number in range(first, first + inputs):
                if number > first and (number - first) % _EVERY == 0:
                    say(f"{number - first:,} of {inputs:,} inputs, {len(found)} sites of raw exceptions so far")
                site = one_input(seed, number, kinds, say if inputs == 1 else lambda _text: None)
                if site is not None:
                    if site not in found:
                        say(f"{site}\n    again: {again(seed, number)}")
                    found.setdefault(site, []).append(number)
        finally:
            os.chdir(before)
            logging.disable(logging.NOTSET)
    return found


def main() -> int:
    """Fuzz, and exit with 1 if anything but an error of discreet's own came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    seed = secrets.randbelow(2**31) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    began = time.process_time()
    found = fuzz(seed, given.inputs, given.first, say=lambda text: print(text, flush=True))
    print(verdict(seed, given.inputs, found, time.process_time() - began))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
