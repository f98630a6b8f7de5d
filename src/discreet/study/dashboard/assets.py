"""The files that pages are made of, as they are sent: scripts, style, icon, and the headers that go with everything."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_KINDS = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}


class File(NamedTuple):
    """A file as it is sent: its bytes, what kind they are, and a tag that changes when they do."""

    content: bytes
    kind: str
    tag: str


@cache
def static_files() -> dict[str, File]:
    """All files by name."""
    found = {}
    for each in (files("discreet.study.dashboard") / "static").iterdir():
        kind = _KINDS.get(each.name.rpartition(".")[2])
        if kind is not None:
            content = each.read_bytes()
            found[each.name] = File(content, f"{kind}; charset=utf-8", f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


def operator_page() -> bytes:
    """The document of the operator's page. It holds nothing about the study: that comes with the token."""
    return static_files()["dashboard.html"].content
