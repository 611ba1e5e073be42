"""What the endpoint refuses."""

from __future__ import annotations


class RefusedError(Exception):
    """A request that is not answered.

    Args:
        message: what is wrong, and what to do.
        status: of HTTP.
        code: a word for clients.
    """

    def __init__(self, message: str, status: int = 400, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.status, self.code = status, code
