"""What the site needs besides its pages.

Pages of reproduced figures enter the navigation by themselves, roles of docstrings become code, short names
of code are not broken at their hyphens, and pictures lead to their full size.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FIGURES = "The papers, reproduced"
_ROLE = re.compile(r":(?:func|class|mod|meth|attr|data|obj):<code>~?([^<]*)</code>")
_WORD = re.compile(r"<code>([^\s<]{1,24})</code>")
_PICTURE = re.compile(r'(?<!">)(<img [^>]*?src="([^"#]+)[^"]*"[^>]*>)')


def on_config(config: Any, **_: Any) -> Any:
    """The navigation with a line for every figure of the papers."""
    for entry in config["nav"]:
        if FIGURES in entry:
            entry[FIGURES] += [{title: page} for page, title in figure_pages(Path(config["docs_dir"]))]
    return config


def figure_pages(docs: Path) -> list[tuple[str, str]]:
    """Every page of a figure with a short title: what its heading has in brackets, or the heading."""
    found = []
    for page in sorted(docs.glob("reproduction/*/*/page.md")):
        heading = page.read_text().partition("\n")[0].removeprefix("# ")
        short = re.search(r"\(([^()]+, Figure[^()]*)\)$", heading)
        title = (short[1] if short else heading).strip()
        scale = "" if page.parent.name == "quick" else f" ({page.parent.name} scale)"
        found.append((str(page.relative_to(docs)), f"{title[:1].upper()}{title[1:]}{scale}"))
    return found


def on_page_content(html: str, **_: Any) -> str:
    """The content of a page with roles, short code and pictures repaired."""
    html = _WORD.sub(r'<code class="word">\1</code>', _ROLE.sub(r"<code>\1</code>", html))
    return _PICTURE.sub(r'<a href="\2">\1</a>', html)
