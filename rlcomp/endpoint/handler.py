"""Connection of the endpoint: HTTP requests and replies, under limits of size and time."""

from __future__ import annotations

import io
import json
import socket
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from rlcomp.endpoint.refused import RefusedError


@dataclass(frozen=True)
class HttpLimits:
    """Limits of the server.

    Attributes:
        body: bytes of a request.
        seconds: from the first byte of a request to its last, and for the client to take a reply.
        idle: seconds that a connection may stay open between requests.
        connections: at a time; further ones are closed at once.
    """

    body: int = 4 * 2**20
    seconds: float = 10.0
    idle: float = 60.0
    connections: int = 2048


@dataclass(frozen=True)
class HttpReply:
    """A reply.

    Attributes:
        body: bytes.
        kind: its media type.
        status: of HTTP.
    """

    body: bytes
    kind: str = "application/json"
    status: int = 200


class Route(Protocol):
    """Handler of requests by path."""

    def admits(self, path: str) -> bool:
        """Return whether the path may be used; only then the body is read."""
        ...

    def __call__(self, method: str, path: str, body: bytes) -> HttpReply:
        """Return the reply to a method, a path and a body."""
        ...


def refusal(error: RefusedError) -> HttpReply:
    """Return an error in OpenAI's format."""
    fields = {"message": str(error), "type": "invalid_request_error", "param": None}
    body = json.dumps({"error": {**fields, "code": error.code}}).encode()
    return HttpReply(body, status=error.status)


class ServesConnection(Protocol):
    """Server of a connection."""

    route: Route
    limits: HttpLimits

    def broke(self) -> None:
        """Store the exception that is being handled: it is a mistake of our own."""
        ...


class _DeadlineReader(io.RawIOBase):
    """Reader of a socket, up to a point in time."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.end = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.channel.settimeout(left)
        return self.channel.recv_into(buffer)


class RequestHandler(BaseHTTPRequestHandler):
    """One connection: any number of requests."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rlcomp", ""
    wbufsize = -1  # sends head and body of a reply in one packet
    disable_nagle_algorithm = True
    server: ServesConnection  # type: ignore[assignment]

    def setup(self) -> None:
        """Receive under a limit of time."""
        super().setup()
        self.limits = self.server.limits
        self.source = _DeadlineReader(self.connection)
        self.rfile = self.received = io.BufferedReader(self.source)

    def handle_one_request(self) -> None:
        """Answer a request, unless the connection breaks or is too slow."""
        try:
            self.close_connection = not self._one_request()
        except OSError:  # too slow or closed: there is no one to report to
            self.close_connection = True

    def _one_request(self) -> bool:
        """Answer a request; return whether another one may come."""
        self.source.end = time.monotonic() + self.limits.idle
        if not self.received.peek(1):
            return False
        self.source.end = time.monotonic() + self.limits.seconds
        self.raw_requestline = self.rfile.readline(2**16)
        if len(self.raw_requestline) == 2**16 or not self.parse_request():
            return False
        self._answer()
        return not self.close_connection

    def _answer(self) -> None:
        try:
            if "Origin" in self.headers:  # from a browser: any page may post to a port of loopback
                raise RefusedError("requests of web pages are not answered", 403, "forbidden")
            if not self.server.route.admits(self.path):
                raise RefusedError("there is nothing here", 404, "not_found")
            sent = self._routed(self._body())
        except RefusedError as error:
            sent = refusal(error)
            # The unread rest of the body would be taken for another request.
            self.close_connection |= error.status in (403, 404, 411, 413)
        self._send(sent)

    def _routed(self, body: bytes) -> HttpReply:
        try:
            return self.server.route(self.command, self.path, body)
        except RefusedError:
            raise
        except Exception:
            # Reported to the thread that waits for the episodes; the client gets no details.
            self.server.broke()
            return refusal(RefusedError("the endpoint failed", 500, "failed"))

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            raise RefusedError("a request needs a Content-Length", 411)
        if len(length) > 12 or int(length) > self.limits.body:
            raise RefusedError(f"a body has at most {self.limits.body} bytes", 413)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError
        return body

    def _send(self, sent: HttpReply) -> None:
        self.connection.settimeout(self.limits.seconds)
        self.send_response(sent.status)
        self.send_header("Content-Type", sent.kind)
        self.send_header("Content-Length", str(len(sent.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(sent.body)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send a protocol error as JSON."""
        del explain
        self.close_connection = True
        self.request_version = self.protocol_version  # noise has a version without a head
        self._send(refusal(RefusedError(str(message or "bad request")[:200], code)))

    def handle_expect_100(self) -> bool:
        """Answer at once a client that waits for permission to send."""
        done = super().handle_expect_100()
        self.wfile.flush()
        return done

    def log_message(self, format: str, *args: object) -> None:
        """No-op: each path contains a token."""
