"""HTTP error of the endpoint."""

from __future__ import annotations


class RefusedError(Exception):
    """A request that is refused.

    Args:
        message: the fault and the remedy.
        status: of HTTP.
        code: a word for clients.
    """

    def __init__(self, message: str, status: int = 400, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.status, self.code = status, code
