"""HTTP server of the endpoint: on loopback, with limits of size, time and connections."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

_LOOPBACK = "127.0.0.1"


class RefusedError(Exception):
    """Error reply to a request.

    Args:
        message: the fault and the remedy.
        status: HTTP status.
        code: error code for clients.
    """

    def __init__(self, message: str, status: int = 400, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class HttpLimits:
    """Limits of the server.

    Attributes:
        body: maximum number of bytes of a request.
        seconds: seconds to receive a request, and again to send the reply.
        idle: seconds that a connection may stay open between requests.
        connections: maximum number of open connections; further ones are closed at once.
    """

    body: int = 4 * 2**20
    seconds: float = 10.0
    idle: float = 60.0
    connections: int = 2048


@dataclass(frozen=True)
class HttpReply:
    """A reply: body, media type and HTTP status."""

    body: bytes
    media_type: str = "application/json"
    status: int = 200


class Route(Protocol):
    """Handler of requests by path."""

    def admits(self, path: str) -> bool:
        """Return whether the path exists; else the body is not read."""
        ...

    def __call__(self, method: str, path: str, body: bytes) -> HttpReply:
        """Return the reply to a method, a path and a body."""
        ...


def error_reply(error: RefusedError) -> HttpReply:
    """Return the reply to a refused request, in OpenAI's format."""
    fields = {"message": str(error), "type": "invalid_request_error", "param": None}
    body = json.dumps({"error": {**fields, "code": error.code}}).encode()
    return HttpReply(body, status=error.status)


class _DeadlineReader(io.RawIOBase):
    """Reader of a socket with a deadline."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.deadline = 0.0  # of time.monotonic, in seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self.channel.settimeout(remaining)
        return self.channel.recv_into(buffer)


class RequestHandler(BaseHTTPRequestHandler):
    """Handler of a connection with any number of requests."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rlcomp", ""
    wbufsize = -1  # sends head and body of a reply in one packet
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        """Read the connection with a deadline."""
        super().setup()
        self.limits = self.server.limits
        self.source = _DeadlineReader(self.connection)
        self.rfile = self.reader = io.BufferedReader(self.source)

    def handle_one_request(self) -> None:
        """Answer a request; close a connection that breaks or is too slow."""
        try:
            self.close_connection = not self._serve_request()
        except OSError:  # too slow or closed: there is no one to report to
            self.close_connection = True

    def _serve_request(self) -> bool:
        """Answer a request; return whether the connection stays open."""
        self.source.deadline = time.monotonic() + self.limits.idle
        if not self.reader.peek(1):
            return False
        self.source.deadline = time.monotonic() + self.limits.seconds
        self.raw_requestline = self.rfile.readline(2**16)
        if len(self.raw_requestline) == 2**16 or not self.parse_request():
            return False
        self._answer()
        return not self.close_connection

    def _answer(self) -> None:
        try:
            if "Origin" in self.headers:  # any web page may post to a port of loopback
                raise RefusedError("requests of web pages are not answered", 403, "forbidden")
            if not self.server.route.admits(self.path):
                raise RefusedError("the path does not exist", 404, "not_found")
            reply = self._route(self._body())
        except RefusedError as error:
            reply = error_reply(error)
            # An unread body would be parsed as another request.
            self.close_connection |= error.status in (403, 404, 411, 413)
        self._send(reply)

    def _route(self, body: bytes) -> HttpReply:
        try:
            return self.server.route(self.command, self.path, body)
        except RefusedError:
            raise
        except Exception:
            # The rollout raises the error; the client gets no details.
            self.server.store_error()
            return error_reply(RefusedError("the endpoint failed", 500, "failed"))

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

    def _send(self, reply: HttpReply) -> None:
        self.connection.settimeout(self.limits.seconds)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.media_type)
        self.send_header("Content-Length", str(len(reply.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.body)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send a protocol error as JSON."""
        del explain
        self.close_connection = True
        self.request_version = self.protocol_version  # else an invalid request gets no headers
        self._send(error_reply(RefusedError(str(message or "bad request")[:200], code)))

    def handle_expect_100(self) -> bool:
        """Send ``100 Continue`` at once."""
        result = super().handle_expect_100()
        self.wfile.flush()
        return result

    def log_message(self, format: str, *args: object) -> None:
        """No-op: each path contains a secret."""


class Server(ThreadingHTTPServer):
    """HTTP server on a free port of 127.0.0.1.

    Attributes:
        error: first exception of the route, or None.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 2048  # all agents of a large batch may connect at once

    def __init__(self, route: Route, limits: HttpLimits) -> None:
        self.route, self.limits = route, limits
        self.error: BaseException | None = None
        self._free = threading.BoundedSemaphore(limits.connections)
        self._channels: set[Any] = set()
        super().__init__((_LOOPBACK, 0), RequestHandler)

    @property
    def address(self) -> str:
        """Return the URL."""
        return f"http://{_LOOPBACK}:{self.server_port}"

    def server_bind(self) -> None:
        """Bind without a lookup of the host name."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = _LOOPBACK, int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Handle a connection in a thread; close it if there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._channels.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Handle a connection, then free its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._channels.discard(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """No-op: a broken connection is no error."""

    def store_error(self) -> None:
        """Store the current exception, unless an earlier one is stored."""
        self.error = self.error or sys.exc_info()[1]

    def end(self) -> None:
        """Close the server and all connections."""
        self.shutdown()
        self.server_close()
        for channel in [*self._channels]:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serving(route: Route, limits: HttpLimits) -> Iterator[Server]:
    """Serve requests within a context."""
    server = Server(route, limits)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        thread.join()
