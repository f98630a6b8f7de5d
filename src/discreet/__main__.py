"""``python -m discreet``: the command line, for an environment whose programs are not on the path."""

from __future__ import annotations

from discreet.cli import main

if __name__ == "__main__":
    main()
