"""Set up an environment with the peers in it, once, and measure there: ``python -m experiments.peers [--quick]``.

The peers and discreet run in one process of that environment, interleaved, so that a busy machine slows both. The table
is printed, and written to the file that ``--out`` names.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLDER = HERE / ".venv"
PYTHON = FOLDER / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def set_up() -> None:
    """The peers first, then discreet with the versions that its tests ran with."""
    stamp = FOLDER / ".installed"
    wanted = (HERE / "requirements.txt").read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    venv.create(FOLDER, with_pip=True)
    install = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", str(HERE / "requirements.txt")], check=True)
    subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), "-e", f"{ROOT}[data]"], check=True)
    stamp.write_text(wanted)


def main() -> None:
    set_up()
    sys.exit(subprocess.run([str(PYTHON), "-m", "experiments.peers.measure", *sys.argv[1:]], cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
