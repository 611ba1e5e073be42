"""HTTP server of the endpoint: on loopback only, under limits of size, time and connections."""

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

from rlcomp.endpoint.request import RefusedError

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class HttpLimits:
    """Limits of the server.

    Attributes:
        body: bytes of a request.
        seconds: from the first byte of a request to its last, and to take a reply.
        idle: seconds that a connection may stay open between requests.
        connections: at a time; further ones are closed at once.
    """

    body: int = 4 * 2**20
    seconds: float = 10.0
    idle: float = 60.0
    connections: int = 2048


@dataclass(frozen=True)
class Sent:
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
    """Answers requests."""

    def admits(self, path: str) -> bool:
        """Whether somebody may ask here: only then the body is read."""
        ...

    def __call__(self, method: str, path: str, body: bytes) -> Sent:
        """From a method, a path and a body to a reply."""
        ...


def refusal(error: RefusedError) -> Sent:
    """An error as OpenAI writes it."""
    told = {"message": str(error), "type": "invalid_request_error", "param": None}
    body = json.dumps({"error": {**told, "code": error.code}}).encode()
    return Sent(body, status=error.status)


class _Until(io.RawIOBase):
    """What a socket receives, until a point in time."""

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


class _Handler(BaseHTTPRequestHandler):
    """One connection: any number of requests."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rlcomp", ""
    wbufsize = -1  # head and body of a reply in one packet
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        self.limits = self.server.limits
        self.source = _Until(self.connection)
        self.rfile = io.BufferedReader(self.source)

    def handle_one_request(self) -> None:
        try:
            self.close_connection = not self._one_request()
        except OSError:  # it took too long, or is gone: nobody is told
            self.close_connection = True

    def _one_request(self) -> bool:
        """Answer a request; whether another one may come."""
        self.source.end = time.monotonic() + self.limits.idle
        if not self.rfile.peek(1):
            return False
        self.source.end = time.monotonic() + self.limits.seconds
        self.raw_requestline = self.rfile.readline(2**16)
        if len(self.raw_requestline) == 2**16 or not self.parse_request():
            return False
        self._answer()
        return not self.close_connection

    def _answer(self) -> None:
        try:
            if not self.server.route.admits(self.path):
                raise RefusedError("there is nothing here", 404, "not_found")
            sent = self._routed(self._body())
        except RefusedError as error:
            sent = refusal(error)
            # What was not read of the body would be taken for another request.
            self.close_connection |= error.status in (404, 411, 413)
        self._send(sent)

    def _routed(self, body: bytes) -> Sent:
        try:
            return self.server.route(self.command, self.path, body)
        except RefusedError:
            raise
        except Exception:
            # Told to whoever waits for the episodes: a client learns no more than that.
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

    def _send(self, sent: Sent) -> None:
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
        """Errors of the protocol, as JSON."""
        del explain
        self.close_connection = True
        self.request_version = self.protocol_version  # of noise it is one without a head
        self._send(refusal(RefusedError(str(message or "bad request")[:200], code)))

    def handle_expect_100(self) -> bool:
        """Say so at once, to a client that waits for it."""
        done = super().handle_expect_100()
        self.wfile.flush()
        return done

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: a token stands in each path."""


class Server(ThreadingHTTPServer):
    """Serves on a free port of 127.0.0.1; there is no other address to choose.

    Args:
        route: answers.
        limits: of requests.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 2048  # every agent of a large batch calls at once

    def __init__(self, route: Route, limits: HttpLimits) -> None:
        self.route, self.limits = route, limits
        self.error: BaseException | None = None
        self._free = threading.BoundedSemaphore(limits.connections)
        self._channels: set[Any] = set()
        super().__init__((_LOOPBACK, 0), _Handler)

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://{_LOOPBACK}:{self.server_port}"

    def server_bind(self) -> None:
        """Bind, without looking up what the host is called."""
        self.socket.bind(self.server_address)  # type: ignore[arg-type]
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer in a thread, unless there are too many connections."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._channels.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer; the connection is free again then."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._channels.discard(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """A connection that broke is nobody's error."""

    def broke(self) -> None:
        """Keep the first mistake of our own, which ends the rollout."""
        self.error = self.error or sys.exc_info()[1]

    def end(self) -> None:
        """Close it, and all connections."""
        self.shutdown()
        self.server_close()
        for channel in [*self._channels]:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serving(route: Route, limits: HttpLimits) -> Iterator[Server]:
    """Context in which requests are answered."""
    server = Server(route, limits)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        thread.join()
