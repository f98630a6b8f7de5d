"""What can go wrong on a device. No message ever quotes what a person did: errors may end up in logs."""

from __future__ import annotations


class ClientError(Exception):
    """Root of all errors that the client raises on purpose."""


class Refused(ClientError, ValueError):
    """The device refuses: the study, the policy or what it was told is not what was agreed to. Nothing was sent."""


class Unreachable(ClientError, OSError):
    """The service did not answer, or asks to come back later. What was to be sent is kept; send it again."""


class Rejected(ClientError):
    """The service refused for good; ``code`` is its word for it. A report that it refused is used up."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"the service refused ({code}): {reason}")
        self.code, self.reason = code, reason
