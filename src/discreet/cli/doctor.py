"""``discreet doctor``: is this machine fit for a real release? Versions, entropy, and the noise itself."""

from __future__ import annotations

import math
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from discreet.cli.options import JsonFile
from discreet.cli.output import check_outputs, print_table, write_json

if TYPE_CHECKING:
    from discreet.audit.machine_check import Checked

_OK, _NOTE, _WRONG = "ok", "note", "WRONG"
_NUMBERS = ("draws", "off by", "allowed")
_PYTHON = (3, 11)
# The floors of pyproject.toml; a test compares them.
NEEDED = {
    "numpy": "2.0",
    "scipy": "1.13",
    "numba": "0.61",
    "opendp": "0.14.2",
    "typer": "0.20",
    "rich": "13",
    "cryptography": "47",
}
OPTIONAL = {
    "duckdb": ("1.1", "real tables: discreet check, discreet train"),
    "ibis-framework": ("10", "real tables: discreet check, discreet train"),
    "matplotlib": ("3.8", "pictures: --plot, discreet demo"),
    "gymnasium": ("1.0", "worlds of gymnasium"),
    "icu-sepsis": ("2.0", "the world icu-sepsis"),
    "pyspark": ("3.5", "tables in Spark"),
    "distributed": ("2024.1", "runs on a Dask cluster"),
}
_ENTROPY_BYTES = 1 << 16
_ENTROPY_DEVIATIONS = 6.0  # beyond it lies 2e-9 of a fair coin's counts


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what is there, and the verdict in a word and, unless it is fine, in a sentence."""

    what: str
    found: str
    verdict: str
    remark: str = ""


def doctor(json: JsonFile = None) -> None:
    """Check that real releases would draw the noise that they state: samplers, entropy, versions.

    Draws from the samplers of real releases and tests them against their laws; touches no data. Exit code 0: nothing
    speaks against this machine. Exit code 1: something is wrong, do not release anything.
    """
    check_outputs(json_file=json)
    from discreet.audit.machine_check import check_samplers

    findings = [*_versions(), _entropy(), _kernels()]
    noise = check_samplers()
    wrong = [f"{f.what} {f.remark}" for f in findings if f.verdict == _WRONG]
    wrong += [f"{sampler.name}, {sampler.problem}" for sampler in noise if not sampler.sound]
    write_json(json, _plain(findings, noise, wrong))
    _print(findings, noise)
    typer.echo(_verdict(wrong))
    if wrong:
        raise typer.Exit(1)


def _print(findings: list[Finding], noise: list[Checked]) -> None:
    print_table(
        ["this machine", "found", "verdict"],
        [[f.what, f.found, f.verdict + (f": {f.remark}" if f.remark else "")] for f in findings],
    )
    print_table(
        ["noise of real releases", *_NUMBERS, "verdict"],
        [[c.name, f"{c.draws:,}", f"{c.difference:.4f}", f"{c.allowed:.4f}", c.problem or _OK] for c in noise],
        right=_NUMBERS,
    )
    typer.echo("off by: the largest difference between the share of draws up to a value and the law's probability.\n")


def _verdict(wrong: list[str]) -> str:
    if wrong:
        return f"Not fit for real releases: {'; '.join(wrong)}."
    return (
        "All is well: the samplers of real releases draw the noise that they state, as far as their draws show. "
        "A run calls sound samplers broken once in a million."
    )


def _plain(findings: list[Finding], noise: list[Checked], wrong: list[str]) -> dict[str, Any]:
    from discreet.audit.machine_check import FALSE_ALARM

    return {
        "sound": not wrong,
        "verdict": _verdict(wrong),
        "false_alarm": FALSE_ALARM,
        "machine": [{"what": f.what, "found": f.found, "verdict": f.verdict, "remark": f.remark} for f in findings],
        "noise": [
            {
                "sampler": c.name,
                "draws": c.draws,
                "difference": c.difference if math.isfinite(c.difference) else None,
                "allowed": c.allowed,
                "problem": c.problem,
            }
            for c in noise
        ],
    }


def _versions() -> Iterator[Finding]:
    python = platform.python_version()
    fits = sys.version_info >= _PYTHON
    yield Finding("Python", python, _OK if fits else _WRONG, "" if fits else "must be 3.11 or later")
    for name, floor in NEEDED.items():
        found = _installed(name)
        if found is None:
            yield Finding(name, "absent", _WRONG, f"is missing: pip install '{name}>={floor}'")
        elif _numbers(found) < _numbers(floor):
            yield Finding(name, found, _WRONG, f"is older than {floor}: pip install '{name}>={floor}'")
        else:
            yield Finding(name, found, _OK)
    for name, (floor, use) in OPTIONAL.items():
        found = _installed(name)
        if found is None:
            yield Finding(name, "absent", _NOTE, f"only needed for {use}")
        elif _numbers(found) < _numbers(floor):
            yield Finding(name, found, _NOTE, f"older than {floor}, needed for {use}")
        else:
            yield Finding(name, found, _OK)


def _installed(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in re.findall(r"\d+", text)[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


def _entropy() -> Finding:
    """The operating system's source of randomness: it answers, differs from time to time, and its bits are even."""
    name = "entropy of the operating system"
    try:
        first, second = os.urandom(_ENTROPY_BYTES), os.urandom(_ENTROPY_BYTES)
    except (NotImplementedError, OSError) as failure:
        return Finding(name, "none", _WRONG, f"does not answer ({type(failure).__name__})")
    bits = 16 * _ENTROPY_BYTES
    ones = int.from_bytes(first + second, "big").bit_count()
    found = f"{platform.system()}, {ones / bits:.4f} of {bits:,} bits are one"
    if first == second:
        return Finding(name, found, _WRONG, "repeats itself")
    if abs(ones - bits / 2) > _ENTROPY_DEVIATIONS * math.sqrt(bits) / 2:
        return Finding(name, found, _WRONG, "prefers one bit to the other")
    return Finding(name, found, _OK)


def _kernels() -> Finding:
    """Compiled code is kept on disk: without a folder for it, every start compiles anew."""
    from discreet.base.compiled import cache_folder

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return Finding(
            "folder of compiled code", str(folder), _WRONG, "cannot be written: set NUMBA_CACHE_DIR to one that can"
        )
    return Finding("folder of compiled code", str(folder), _OK)
