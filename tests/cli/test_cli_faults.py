"""Full disks, folders that take no files, names too long, sizes that no machine has: one sentence, and no noise."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import discreet as library
from discreet.base.errors import InvalidInput
from discreet.base.policies import load_policy, uniform_policy

COLUMNS = ["--user", "u", "--step", "t", "--state", "s", "--action", "a", "--reward", "r"]
SIZES = {"--states": "2", "--actions": "2", "--horizon": "2"}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("u,t,s,a,r\n" + "".join(f"{u},{t},{u % 2},{t % 2},1\n" for u in range(50) for t in range(2)))
    return path


@pytest.fixture
def no_noise(monkeypatch):
    """Whoever draws noise fails the test."""

    def drawn(*_arguments, **_keywords):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr("discreet.mechanisms.sums.accumulator.SecureNoise.draw", drawn)


def train(rows, **options):
    words = [
        word
        for pair in {**SIZES, "--epsilon": "1", "--out": str(rows.parent / "p.json"), **options}.items()
        for word in pair
    ]
    return ["train", str(rows), *COLUMNS, *words]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"--out": "{folder}/same.json", "--receipt": "{folder}/./same.json"},
            "--out and --receipt name the same file",
        ),
        ({"--out": "{folder}/" + "x" * 300 + ".json"}, "is too long for a name: 305 bytes, where 255 are possible"),
        ({"--out": "{folder}/" + "ä" * 130 + ".json"}, "is too long for a name: 265 bytes"),
        ({"--states": "²"}, "--states takes a whole number, labels such as 1,2,3, or a file"),
        ({"--states": "9" * 5000}, "a number of 5000 digits"),
        ({"--states": "\udcff"}, "--states takes a whole number, labels such as 1,2,3, or a file"),
        ({"--states": "4294967295", "--rho": "1"}, "are more than fits in memory here"),
        ({"--states": "2147483648", "--delta": "1e-6"}, "are more than fits in memory here: merge states"),
        ({"--actions": "1000000000"}, "are more than fits in memory here"),
        ({"--horizon": "1000000000000000"}, "are more than fits in memory here"),
        ({"--states": "9" * 18}, "states"),
        ({"--rewards": "-1e308 1e308"}, "must span a finite width"),
        ({"--missing-reward": "3"}, "missing_reward must be a number in the declared range 0 to 1"),
        ({"--features": "{folder}/rows.csv"}, "cannot be read: save an array of numbers"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, dict) else "",
)
def test_one_sentence_before_any_noise(discreet, rows, no_noise, options, sentence):
    before = sorted(rows.parent.iterdir())
    words = []
    for word in train(rows, **{name: text.replace("{folder}", str(rows.parent)) for name, text in options.items()}):
        words += word.split() if word == "-1e308 1e308" else [word]
    if "--rho" in options:
        words = [word for i, word in enumerate(words) if word != "--epsilon" and words[i - 1] != "--epsilon"]
    outcome = discreet(*words)
    assert outcome.code == 2
    assert outcome.err.startswith("discreet: ")
    assert outcome.err.count("\n") == 1
    assert sentence in outcome.err
    assert sorted(rows.parent.iterdir()) == before


def test_outputs_never_overwrite_inputs(discreet, rows, no_noise):
    labels = rows.parent / "labels.json"
    labels.write_text("a\nb\n")
    outcome = discreet(*train(rows, **{"--states": str(labels), "--out": str(labels)}))
    assert outcome.code == 2
    assert "--states and --out name the same file" in outcome.err
    assert labels.read_text() == "a\nb\n"


def test_a_folder_that_takes_no_files_is_named(discreet, rows, no_noise, monkeypatch):
    monkeypatch.setattr("discreet.base.files.os.access", lambda *_: False)
    outcome = discreet(*train(rows))
    assert (outcome.code, "no permission to write" in outcome.err) == (2, True)


def test_a_table_that_may_not_be_read_is_not_called_damaged(discreet, rows, no_noise, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.R_OK)
    outcome = discreet(*train(rows))
    assert outcome.code == 2
    assert outcome.err == f"discreet: {str(rows)!r} cannot be read: no permission to read it\n"


def test_a_full_disk_stops_the_release_before_noise_is_drawn(discreet, rows, no_noise, monkeypatch):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("discreet.base.files.os.posix_fallocate", full)
    outcome = discreet(*train(rows, **{"--receipt": str(rows.parent / "r.json")}))
    assert outcome.code == 2
    assert outcome.err.endswith("p.json': No space left on device\n")
    assert [path.name for path in rows.parent.iterdir()] == ["rows.csv"]


def test_a_real_limit_of_the_system_is_one_sentence(rows):
    """In a process that may not write files of more than a kilobyte."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    code = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from discreet.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *train(rows)], preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("p.json': File too large\n")
    assert [path.name for path in rows.parent.iterdir()] == ["rows.csv"]


def test_the_room_that_was_reserved_is_enough(discreet, rows, monkeypatch):
    """Nothing that a release writes is longer than what was reserved for it: a disk may fill up meanwhile."""
    from discreet.base.files import Room

    write, sizes = Room.write, {}
    original = Room.__init__

    def noted(self, file, size):
        original(self, file, size)
        sizes[file.name] = size

    def checked(self, content):
        assert len(content.encode() if isinstance(content, str) else content) <= sizes[self.file.name]
        write(self, content)

    monkeypatch.setattr(Room, "__init__", noted)
    monkeypatch.setattr(Room, "write", checked)
    labels = rows.parent / "labels.txt"
    labels.write_text("".join("ä" + 20 * "\U0001f600" + f"{i}\n" for i in range(60)))
    for out, receipt in (("p.json", "r.html"), ("p.npz", "r.json")):
        more = {"--out": str(rows.parent / out), "--receipt": str(rows.parent / receipt), "--states": str(labels)}
        outcome = discreet(*train(rows, **more))
        assert outcome.code == 0, outcome.err
        assert sizes[out] > 0
        assert load_policy(rows.parent / out).states == 60


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "--horizon", "4294967296"],
        ["simulate", "--states", "100000"],
        ["calibrate", "--states", "100000", "--epsilon", "1"],
        ["audit", "--states", "100000", "--actions", "10", "--horizon", "20", "--epsilon", "1"],
        ["evaluate", "{policy}", "--world", "random-mdp", "--states", "1000000", "--instance", "1"],
    ],
    ids=" ".join,
)
def test_sizes_that_no_machine_has_are_refused_everywhere(discreet, tmp_path, words):
    outcome = discreet(*(word.replace("{policy}", str(tmp_path / "p.json")) for word in words))
    assert outcome.code == 2
    assert "more than fits in memory here" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("error", [MemoryError(), OSError(5, "Input/output error"), OverflowError(), RecursionError()])
def test_what_the_machine_cannot_do_is_one_sentence(discreet, monkeypatch, error):
    def fails(*_arguments, **_keywords):
        raise error

    monkeypatch.setattr("discreet.worlds.registry.make_world", fails)
    outcome = discreet("simulate")
    assert outcome.code == 2
    assert outcome.err.startswith("discreet: ")
    assert outcome.err.count("\n") == 1


# What writing a file asks of the system, in any order; the clean-up afterwards is not struck.
CALLS = ("open", "posix_fallocate", "write", "ftruncate", "fchmod", "fsync", "link", "replace", "mkdir")
FULL, STOPPED = OSError(28, "No space left on device"), KeyboardInterrupt()


class Faults:
    """The call with this number fails; ``struck`` is its name."""

    def __init__(self, at: int, error: BaseException, patch: pytest.MonkeyPatch) -> None:
        self.left, self.error, self.struck = at, error, ""
        for name in CALLS:
            patch.setattr(os, name, partial(self._call, name, getattr(os, name)))

    def _call(self, name, real, *arguments, **keywords):
        self.left -= 1
        if self.left == -1:
            self.struck = name
            raise self.error
        return real(*arguments, **keywords)


def listing(folder: Path) -> dict[str, int]:
    return {str(file.relative_to(folder)): file.stat().st_size for file in folder.rglob("*")}


def fails_at_every_call(act, folder: Path, error: BaseException) -> int:
    """Let every call fail in turn: nothing is left, or all of it where only the folder was to be synced; then it works.

    ``act`` gives whether it succeeded.
    """
    before, at = listing(folder), 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(at, error, patch)
            done = act()
        if not faults.struck:
            assert done
            return at
        after = listing(folder)
        if after != before:
            assert faults.struck in ("open", "fsync"), (at, faults.struck, after)
            assert not any(".discreet-" in name or size == 0 for name, size in after.items()), (at, after)
            for name in sorted(set(after) - set(before), reverse=True):
                (folder / name).rmdir() if (folder / name).is_dir() else (folder / name).unlink()
        at += 1


@pytest.mark.parametrize("error", [FULL, STOPPED], ids=["full", "stopped"])
@pytest.mark.parametrize(
    ("words", "calls"),
    [
        (["ledger", "key", "key.pem"], 5),
        (["ledger", "open", "budget.db", "--dataset", "people", "--epsilon", "1"], 3),
        (["study", "new", "study.toml"], 15),
        (["study", "new", "study.toml", "--model", "shuffle"], 30),
        (["worlds", "--json", "worlds.json"], 4),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_fault_at_any_write_leaves_nothing_behind_and_the_next_attempt_works(
    discreet, tmp_path, monkeypatch, words, calls, error
):
    monkeypatch.chdir(tmp_path)

    def act() -> bool:
        outcome = discreet(*words)
        if outcome.code:
            assert outcome.code == (2 if error is FULL else 130)
            assert outcome.err.count("\n") == 1
            if error is STOPPED and not listing(tmp_path):
                assert outcome.err == "discreet: interrupted, nothing was written\n"
        return outcome.code == 0

    assert fails_at_every_call(act, tmp_path, error) >= calls


@pytest.mark.parametrize("error", [FULL, STOPPED], ids=["full", "stopped"])
@pytest.mark.parametrize("what", ["a result", "a policy", "a split", "a receipt"])
def test_what_python_writes_is_whole_or_not_there(tmp_path, error, what, fit):
    result, split, facts = fit
    written = {
        "a result": lambda: result.save(tmp_path / "new" / "folder"),
        "a policy": lambda: uniform_policy(library.Shape(2, 2, 2)).save(tmp_path / "policy.json"),
        "a split": lambda: split.save(tmp_path / "split.json"),
        "a receipt": lambda: facts.receipt(tmp_path / "receipt.html"),
    }

    def act() -> bool:
        try:
            written[what]()
        except (InvalidInput, KeyboardInterrupt):
            return False
        return True

    assert fails_at_every_call(act, tmp_path, error) >= 4


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    """A result, a split and something with a receipt."""
    from discreet.tables.evaluation.split import draw_split
    from discreet.tables.read.user_subsets import ordered

    rows = tmp_path_factory.mktemp("rows") / "rows.csv"
    rows.write_text("u,t,s,a,r\n" + "".join(f"{u},{t},{u % 2},{t % 2},1\n" for u in range(50) for t in range(2)))
    columns = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}
    table = library.data.read(rows, **columns, states=2, actions=2, horizon=2)
    result = library.simulate(library.worlds.river_swim(states=3, horizon=3), "ucbvi", episodes=20)
    return result, draw_split(ordered(table), 0.4), library.offline.train(table, epsilon=1.0)


def test_a_ledger_that_does_not_fit_on_the_disk_is_not_there(tmp_path):
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (5000, 5000))
    code = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from discreet.cli import main; main()"
    command = [sys.executable, "-c", code, "ledger", "open", "budget.db", "--dataset", "people", "--epsilon", "1"]
    done = subprocess.run(command, cwd=tmp_path, preexec_fn=limit, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot write 'budget.db'" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0


NO_ROOM = "discreet: the system refused: No space left on device\n"
CLOSED = "discreet: standard output is closed: open it, give --quiet or redirect it\n"


@pytest.mark.parametrize(
    ("words", "where", "code", "said"),
    [
        *((words, ">/dev/full", 2, NO_ROOM) for words in ("--version", "--help", "worlds", "worlds --json -")),
        ("worlds", ">&-", 2, CLOSED),
        ("worlds --quiet", ">&-", 0, ""),
        *((words, "", 141, "") for words in ("--help", "worlds", "worlds --json -")),
    ],
)
def test_output_that_nobody_can_take(words, where, code, said):
    """A full device, no standard output at all, and a pipe whose reader has gone."""
    ours = f'"{sys.executable}" -c "from discreet.cli import main; main()" {words} {where}'
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(["bash", "-c", ours], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, said)
