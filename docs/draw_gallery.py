"""Draw the pictures of docs/gallery.md: run its blocks, once on light and once on dark paper (``make gallery``)."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from discreet.base.pictures import set_theme

DOCS = Path(__file__).parent


def main() -> None:
    """Every block in one folder, and every picture under its name for each theme."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", (DOCS / "gallery.md").read_text(), re.DOTALL | re.MULTILINE))
    place = DOCS / "pictures" / "gallery"
    place.mkdir(exist_ok=True)
    for theme, suffix in (("light", ""), ("dark", "-dark")):
        set_theme(theme)
        with tempfile.TemporaryDirectory() as folder:
            before = Path.cwd()
            os.chdir(folder)
            exec(compile(code, "gallery.md", "exec"), {"__name__": "gallery"})
            os.chdir(before)
            for picture in Path(folder).glob("*.png"):
                shutil.copy(picture, place / f"{picture.stem}{suffix}.png")


if __name__ == "__main__":
    main()
