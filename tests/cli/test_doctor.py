"""``discreet doctor``: a verdict in words and an exit code, for sound machines and for broken ones."""

from __future__ import annotations

import importlib
import json
import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.audit import machine_check as samplers_module
from discreet.noise import DiscreteLaplace

DOCTOR = importlib.import_module("discreet.cli.doctor")  # the package's name for it is the command
SIX = next(sampler for sampler in samplers_module.samplers() if sampler.name == "discrete Laplace, scale 6")


@pytest.fixture
def drawn(monkeypatch):
    """Let the doctor see one sampler only, which draws as it is told."""

    def use(scale: float) -> None:
        rng = np.random.default_rng(3)
        sampler = replace(SIX, draw=lambda n: DiscreteLaplace(scale).draw(rng, n))
        monkeypatch.setattr(samplers_module, "samplers", lambda: (sampler,))

    use(6.0)
    return use


def test_this_machine_is_sound(discreet, tmp_path):
    """The samplers of real releases themselves; a false alarm once in a million runs."""
    outcome = discreet("doctor", "--json", str(tmp_path / "doctor.json"))
    assert outcome.code == 0, outcome.out
    assert "All is well" in outcome.out
    for name in ("Python", "opendp", "discrete Laplace, scale 6", "discrete Gaussian, sigma 6", "unary encoding"):
        assert name in outcome.out
    told = json.loads((tmp_path / "doctor.json").read_text())
    assert told["sound"]
    assert told["false_alarm"] == 1e-6
    assert len(told["noise"]) == len(samplers_module.samplers())
    assert all(line["problem"] is None and line["difference"] < line["allowed"] for line in told["noise"])
    assert {line["verdict"] for line in told["machine"]} <= {"ok", "note"}


def test_noise_of_another_law_is_convicted(discreet, drawn, tmp_path):
    drawn(3.0)  # twice the epsilon that it promises
    outcome = discreet("doctor", "--json", str(tmp_path / "doctor.json"))
    assert outcome.code == 1
    last = outcome.out.strip().splitlines()[-1]
    assert last.startswith("Not fit for real releases: discrete Laplace, scale 6, does not follow its law")
    told = json.loads((tmp_path / "doctor.json").read_text())
    assert not told["sound"]
    assert told["verdict"] == last


@pytest.mark.parametrize(
    ("name", "found", "says"),
    [
        ("opendp", "0.14.1", "opendp is older than 0.14.2: pip install 'opendp>=0.14.2'"),
        ("numba", None, "numba is missing"),
    ],
)
def test_old_and_missing_packages_are_wrong(discreet, drawn, monkeypatch, name, found, says):
    real = DOCTOR._installed
    monkeypatch.setattr(DOCTOR, "_installed", lambda package: found if package == name else real(package))
    outcome = discreet("doctor")
    assert outcome.code == 1
    assert says in outcome.out.strip().splitlines()[-1]


def test_what_is_optional_may_be_absent(discreet, drawn, monkeypatch):
    real = DOCTOR._installed
    missing = {"duckdb": None, "matplotlib": "1.0"}
    monkeypatch.setattr(DOCTOR, "_installed", lambda name: missing[name] if name in missing else real(name))
    outcome = discreet("doctor")
    assert outcome.code == 0
    words = " ".join(outcome.out.split())
    assert "duckdb absent note" in words
    assert "matplotlib 1.0 note: older than 3.8" in words


BIASED = np.random.default_rng(0)


def no_answer(n: int) -> bytes:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("urandom", "says"),
    [
        (lambda n: b"\x5a" * n, "repeats itself"),
        (lambda n: (BIASED.random(8 * n) < 0.51).astype(np.uint8), "prefers one bit"),
        (no_answer, "does not answer (NotImplementedError)"),
    ],
    ids=["frozen", "biased", "none"],
)
def test_bad_entropy_is_wrong(monkeypatch, urandom, says):
    def read(n: int) -> bytes:
        answer = urandom(n)
        return answer if isinstance(answer, bytes) else np.packbits(answer).tobytes()

    monkeypatch.setattr(DOCTOR.os, "urandom", read)
    finding = DOCTOR._entropy()
    assert finding.verdict == "WRONG"
    assert says in finding.remark


@pytest.mark.skipif(os.name != "posix", reason="a file in the way of a folder")
def test_a_folder_that_cannot_be_written_is_wrong(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    finding = DOCTOR._kernels()
    assert finding.verdict == "WRONG"
    assert "NUMBA_CACHE_DIR" in finding.remark
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "folder"))
    assert DOCTOR._kernels().verdict == "ok"


def test_floors_are_those_of_the_project():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    needed = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", text).groups() for text in project["dependencies"])
    assert needed == DOCTOR.NEEDED
    extras = [text for extra in project["optional-dependencies"].values() for text in extra]
    floors = {re.split(r"[\[>]", text)[0]: text.rpartition(">=")[2] for text in extras}
    assert {name: floor for name, (floor, _) in DOCTOR.OPTIONAL.items()} == {
        name: floors[name] for name in DOCTOR.OPTIONAL
    }
    assert project["requires-python"] == ">=" + ".".join(map(str, DOCTOR._PYTHON))


def test_help_says_what_it_is_for(discreet):
    outcome = discreet("doctor", "--help")
    assert outcome.code == 0
    assert "real releases" in " ".join(outcome.out.split())
