"""Pages of other origins reach what devices need, if the service names them, and nothing else."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="needs the extra 'serve'")

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from discreet.base.errors import InvalidInput
from discreet.cli.origins import check_origins, open_to

HERE, THERE = "https://app.example.org", "https://elsewhere.example.org"
ASKED = {"access-control-request-method": "POST", "access-control-request-headers": "content-type, authorization"}


async def answer(request):
    return PlainTextResponse("yes", 403 if request.method == "POST" else 200)


def service(origins):
    paths = ("/v1/policy", "/v1/reports", "/v1/status", "/dashboard")
    app = Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path in paths])
    return TestClient(open_to(app, check_origins(origins)))


def allowed(found) -> str | None:
    return found.headers.get("access-control-allow-origin")


def test_named_pages_may_ask_for_policies_and_report():
    client = service([HERE, "http://localhost:8080"])
    assert allowed(client.get("/v1/policy", headers={"origin": HERE})) == HERE
    assert allowed(client.get("/v1/policy", headers={"origin": "http://localhost:8080"})) == "http://localhost:8080"
    before = client.options("/v1/reports", headers={"origin": HERE, **ASKED})
    assert before.status_code == 200
    assert allowed(before) == HERE
    assert "access-control-allow-credentials" not in before.headers
    refused = client.post("/v1/reports", headers={"origin": HERE})  # the page must be able to read why
    assert (refused.status_code, allowed(refused)) == (403, HERE)


def test_other_pages_and_other_addresses_stay_closed():
    client = service([HERE])
    assert allowed(client.get("/v1/policy", headers={"origin": THERE})) is None
    assert client.options("/v1/reports", headers={"origin": THERE, **ASKED}).status_code == 400
    for path in ("/v1/status", "/dashboard"):
        assert allowed(client.get(path, headers={"origin": HERE})) is None
    assert allowed(service(None).get("/v1/policy", headers={"origin": HERE})) is None


@pytest.mark.parametrize(
    "origin", ["*", "app.example.org", "https://a.org/", "https://a.org/page", "null", "", "https://A B"]
)
def test_what_is_no_origin_is_refused(origin):
    with pytest.raises(InvalidInput, match=r"https://app\.example\.org"):
        check_origins([origin])
