"""What the site needs besides its pages: roles of docstrings become code, and pictures lead to their full size."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:func|class|mod|meth|attr|data|obj):<code>~?([^<]*)</code>")
_PICTURE = re.compile(r'(?<!">)(<img [^>]*?src="([^"#]+)[^"]*"[^>]*>)')


def on_page_content(html: str, **_: Any) -> str:
    """The content of a page with both repaired."""
    return _PICTURE.sub(r'<a href="\2">\1</a>', _ROLE.sub(r"<code>\1</code>", html))
