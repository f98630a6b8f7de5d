"""Mistakes in the source, made in copies of it: for each of them the named test must fail. ``make mutants`` runs this.

Only what cannot be broken in a running process is here: compiled code. A copy of the package is edited, machine code
goes to a folder of its own so that none of a broken kernel outlives the run, and pytest runs the one test on the copy.
Exits 1 if a mistake goes unseen, or no longer applies to the source.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from mutants import EDITS, Edit  # noqa: E402


def run(edit: Edit, folder: Path) -> str:
    """What became of one mistake: convicted, survived, or why it could not be made."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    file = source / "discreet" / edit.file
    text = file.read_text()
    if text.count(edit.old) != 1:
        return "the edit no longer applies"
    file.write_text(text.replace(edit.old, edit.new))
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"NUMBA_CACHE_DIR": str(folder), "XDG_CACHE_HOME": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", edit.test]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 1:
        return "convicted"
    return "SURVIVED" if done.returncode == 0 else f"pytest says {done.returncode}: {done.stdout.strip()[-200:]}"


def main() -> int:
    """Make every mistake, one after the other."""
    unseen = 0
    for edit in EDITS:
        with tempfile.TemporaryDirectory() as folder:
            verdict = run(edit, Path(folder))
        unseen += verdict != "convicted"
        print(f"{edit.what:60s} {verdict}", flush=True)
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
