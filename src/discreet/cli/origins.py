"""Which web pages may speak to a service: pages of other origins are kept from it by browsers unless it names them.

Only what devices need is opened, and to the named origins alone: study, policy, heads, and the address that reports go
to. Cookies are never taken, and the pages of the operator stay closed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.base.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_ORIGIN = re.compile(r"https?://(?:\[[0-9a-f:]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?")
_OF_DEVICES = ("/v1/study", "/v1/policy", "/v1/head", "/v1/heads", "/v1/reports", "/v1/sealed")

Origins = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin",
        metavar="ORIGIN",
        help="A web page that may take part from a browser, such as https://app.example.org; may be repeated.",
    ),
]


def check_origins(origins: list[str] | None) -> list[str]:
    """The origins that were named; refused unless each is a scheme, a host and perhaps a port."""
    for origin in origins or ():
        if not _ORIGIN.fullmatch(origin):
            raise InvalidInput(
                f"--allow-origin is scheme and host of a page, such as https://app.example.org, got {origin[:80]!r}"
            )
    return list(origins or ())


def open_to(app: ASGIApp, origins: list[str]) -> ASGIApp:
    """The application, whose addresses for devices answer pages of these origins."""
    if not origins:
        return app
    from starlette.middleware.cors import CORSMiddleware

    opened = CORSMiddleware(
        app, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["authorization", "content-type"]
    )

    async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
        of_devices = scope["type"] == "http" and scope["path"] in _OF_DEVICES
        await (opened if of_devices else app)(scope, receive, send)

    return chosen
