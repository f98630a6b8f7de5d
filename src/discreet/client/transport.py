"""Requests to the service over one connection that is kept open, and its answers, studied once.

``Connection`` speaks HTTP. ``Service`` is the service as a device knows it: the study that was agreed to, the policy of
the round, heads, and what is sent. Answers are checked before anything is done with them; the answer about a policy is
checked again only if its bytes have changed, so that many simulated people can share one ``Service``.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from discreet.client import heads as h
from discreet.client.errors import Refused, Rejected, Unreachable
from discreet.client.reports import Round, read_round
from discreet.client.study import Study, read_study
from discreet.client.words import LARGEST, field, known, read

if TYPE_CHECKING:
    from http.client import HTTPConnection

_SECONDS = 30
_FINAL = (400, 403, 404, 409, 410, 413)  # statuses by which the service refuses for good
_TOKEN = 200  # characters of an invitation, at most
_HERE = ("localhost", "127.0.0.1", "::1")


class Answer(NamedTuple):
    """A status and the bytes of an answer."""

    status: int
    body: bytes


class Asks(Protocol):
    """Whatever carries a request to the service and its answer back."""

    private: bool  # whether nobody on the way can read what is sent

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        """One request."""


class Connection:
    """One connection, opened at the first request and kept. Threads that share it ask one after the other."""

    def __init__(self, url: str, seconds: float = _SECONDS) -> None:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _no_address(url) from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise _no_address(url)
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, port
        self._base, self._seconds = parts.path.rstrip("/"), seconds
        self.private = self._secure or self._host in _HERE
        self._open: HTTPConnection | None = None
        self._turn = Lock()

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        """One request; once more on a fresh connection if a kept one was closed. Reports are counted once by id."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        with self._turn:
            fresh = self._open is None
            try:
                return self._once(method, path, body, headers)
            except OSError as problem:
                if fresh:
                    raise _unreachable(problem) from None
            try:
                return self._once(method, path, body, headers)
            except OSError as problem:
                raise _unreachable(problem) from None

    def _once(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        try:
            if self._open is None:
                kind = HTTPSConnection if self._secure else HTTPConnection
                self._open = kind(self._host, self._port, timeout=self._seconds)
            self._open.request(method, self._base + path, body, headers)
            response = self._open.getresponse()
            content = response.read(LARGEST + 1)
        except (HTTPException, OSError) as problem:
            self.close()
            raise OSError(str(problem) or type(problem).__name__) from None
        if len(content) > LARGEST:
            self.close()
            raise Refused("the answer of the service is too large for a device")
        return Answer(response.status, content)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None


class Service:
    """The service of one study, as a device sees it."""

    def __init__(self, connection: Asks, agreed: str, *, signatures: bool = True, shuffler: Asks | None = None) -> None:
        self._connection, self._agreed, self._signatures, self._shuffler = connection, agreed, signatures, shuffler
        self._study: Study | None = None
        self._last: tuple[bytes, Round, h.Head] | None = None

    def study(self) -> Study:
        """The study that was agreed to, fetched and checked once."""
        if self._study is None:
            study = read_study(self._get("/v1/study"), self._agreed)
            if study.model == "central" and not self._connection.private:
                raise Refused(
                    "this study collects records as they are, and the address begins with http: anybody on the way "
                    "could read them; take the https address"
                )
            self._study = study
        return self._study

    def round(self) -> tuple[Round, h.Head]:
        """The policy of the round with its head, both checked."""
        body = self._fetch("/v1/policy")
        if self._last is None or self._last[0] != body:
            self._last = body, *self.understand(read(body))
        return self._last[1], self._last[2]

    def understand(self, answer: dict[str, Any]) -> tuple[Round, h.Head]:
        """The round in an answer about a policy, and its head; refused unless all of it is as agreed."""
        head, round_ = field(answer, "head", dict), read_round(answer, self.study())
        self.check_head(head)
        h.check_policy(head, answer["policy"], round_.number)
        return round_, head

    def check_head(self, head: h.Head) -> None:
        """Refuse a head that is not one of this study."""
        h.check_head(head, self._agreed, self.study().key, self._signatures)

    def heads(self, start: int) -> list[h.Head]:
        """The chain of heads from a round on, or the first piece of it."""
        listed = field(self._get(f"/v1/heads?from={start}"), "heads", list)
        return [known(head, dict, "a head") for head in listed]

    def send(self, body: bytes, token: str | None) -> None:
        """Send a report, with an invitation where there are any; returns when the service says that it was accepted.

        In shuffled studies it goes to the shuffler, and never to the coordinator.
        """
        self.check_way(token)
        if self.study().model == "shuffle":
            answer = self._to_shuffler().ask("POST", "/v1/sealed", body, token)
        else:
            answer = self._connection.ask("POST", "/v1/reports", body, token)
        try:
            accepted = read(_checked(answer)).get("status") == "accepted"
        except Refused:
            accepted = False
        if not accepted:
            raise _not_the_service(answer)

    def check_way(self, token: str | None) -> None:
        """Refuse a way to the coordinator on which an invitation could be read and used up by others."""
        if token is not None and self.study().model != "shuffle" and not self._connection.private:
            raise Refused(
                "you hold an invitation, and the address begins with http: anybody on the way could read it and use "
                "it; take the https address"
            )

    def _to_shuffler(self) -> Asks:
        if self._shuffler is None:
            if not self.study().shuffler:
                raise Refused("this study has a shuffler, and no address of it is known: give shuffler=ADDRESS")
            self._shuffler = Connection(self.study().shuffler)
        if not self._shuffler.private:
            raise Refused(
                "the address of the shuffler begins with http: whoever listens on the way could tell the coordinator "
                "which messages are yours; take the https address"
            )
        return self._shuffler

    def _get(self, path: str) -> dict[str, Any]:
        return read(self._fetch(path))

    def _fetch(self, path: str) -> bytes:
        return _checked(self._connection.ask("GET", path))


def check_token(token: str | None) -> None:
    """Refuse an invitation that cannot be one."""
    if token is not None and not (0 < len(token) <= _TOKEN and token.isascii() and token.isprintable()):
        raise Refused("a token is one line of letters, digits and signs: copy the invitation as it is")


def _checked(answer: Answer) -> bytes:
    """What was answered. Only the service itself refuses for good; whoever else answers is on the way to it."""
    if answer.status == 200:
        return answer.body
    if answer.status not in _FINAL:
        raise Unreachable(f"the service asks to come back later (status {answer.status}): try again")
    try:
        stated = read(answer.body)
        code, reason = field(stated, "error", str)[:40], field(stated, "reason", str)[:300]
    except Refused:
        raise _not_the_service(answer) from None
    raise Rejected(code, reason)


def _not_the_service(answer: Answer) -> Unreachable:
    return Unreachable(
        f"something else than the service has answered (status {answer.status}), a portal of the network perhaps: try "
        "again later, nothing is lost"
    )


def _no_address(url: str) -> Refused:
    return Refused(f"the address of a service looks like https://study.example.org, got {url[:80]!r}")


def _unreachable(problem: OSError) -> Unreachable:
    return Unreachable(f"the service cannot be reached ({str(problem)[:80]}): try again later, nothing is lost")
