"""POST requests with JSON over HTTP, with limits on the size and the time of the answer.

Redirects are not followed and proxies are not used.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from rlcomp.errors import ConfigError, RlcompError, in_one_line

_CONNECT_SECONDS = 10.0
_MAX_SHOWN_BYTES = 400  # bytes of the answer that the message of a refused request quotes


class NoAnswer(RlcompError):
    """Error of a request without a valid answer; a later attempt may succeed."""


class RequestRefused(RlcompError):
    """Error of a request that the server refuses; a later attempt would fail too.

    Args:
        message: the fault and the remedy.
        status: HTTP status code of the answer.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def address(url: str, name: str = "sandbox.url") -> SplitResult:
    """Return the parts of the address of a server.

    Args:
        url: the address.
        name: name of the setting, for messages.

    Raises:
        ConfigError: the address is malformed or holds a password.

    Examples:
        >>> address("http://localhost:8080/runner/").path
        '/runner'
    """
    if "@" in url:
        raise ConfigError(f"{name}: the run's record would store a user or password; remove it")
    try:
        parts = urlsplit(url.rstrip("/"))
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment or not (url.isascii() and url.isprintable()):
        raise ConfigError(f"{name}={url!r}: must be http://host:port or https://host:port")
    return parts


def api_address(url: str, name: str, request: str) -> SplitResult:
    """Return the parts of the address of an API, such as ``http://localhost:80/v1``.

    If the address has no path, ``/v1`` is added; the path of a request is removed.

    Args:
        url: the address.
        name: name of the setting, for messages.
        request: path of a request below ``/v1``.

    Raises:
        ConfigError: see :func:`address`.

    Examples:
        >>> for url in ("http://localhost:80", "http://localhost:80/v1/", "http://a/b/v1/chat"):
        ...     print(api_address(url, "url", "/chat").geturl())
        http://localhost:80/v1
        http://localhost:80/v1
        http://a/b/v1
    """
    server = address(url, name)
    return server._replace(path=server.path.removesuffix(request) or "/v1")


def check_connection(server: SplitResult) -> None:
    """Check that a server accepts connections.

    Raises:
        NoAnswer: there is no connection.
    """
    kind = HTTPSConnection if server.scheme == "https" else HTTPConnection
    try:
        host_and_port = (server.hostname or "", server.port or kind.default_port)
        socket.create_connection(host_and_port, timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise NoAnswer(in_one_line(error)) from error


def post(
    server: SplitResult,
    path: str,
    data: bytes,
    *,
    seconds: float,
    max_bytes: int,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Send a POST and return the body of the answer, at most ``max_bytes + 1`` bytes of it.

    Args:
        server: parts of the server's address.
        path: path below the server's address.
        data: the body of the request.
        seconds: time limit of the request and its whole answer; the connection has 10 s more.
        max_bytes: maximum size of the answer in bytes; a longer body is cut after one more byte.
        headers: headers besides the content type.

    Raises:
        NoAnswer: no connection, no whole answer in time, 429, or 5xx.
        RequestRefused: any other status than 200.
    """
    kind = HTTPSConnection if server.scheme == "https" else HTTPConnection
    port = server.port or kind.default_port
    connection = kind(server.hostname or "", port, timeout=_CONNECT_SECONDS)
    timed_out = threading.Event()
    try:
        connection.connect()
        with _close_after(seconds, connection.sock, timed_out):
            fields = {**(headers or {}), "Content-Type": "application/json"}
            connection.request("POST", server.path + path, data, fields)
            answer = connection.getresponse()
            _check(answer, path)
            body = answer.read(max_bytes + 1)
    except (OSError, HTTPException) as error:
        reason = f"no answer within {seconds:g} s" if timed_out.is_set() else in_one_line(error)
        raise NoAnswer(reason) from error
    finally:
        connection.close()
    if timed_out.is_set() or (len(body) <= max_bytes and answer.length):
        raise NoAnswer(f"no whole answer within {seconds:g} s, only {len(body)} bytes of it")
    return body


@contextlib.contextmanager
def _close_after(seconds: float, sock: socket.socket, timed_out: threading.Event) -> Iterator[None]:
    """Close the connection after a number of seconds, even while the server sends bytes."""

    def hang_up() -> None:
        timed_out.set()
        with contextlib.suppress(OSError):  # it is already closed
            sock.shutdown(socket.SHUT_RDWR)

    sock.settimeout(None)  # the timer alone bounds the time
    timer = threading.Timer(seconds, hang_up)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check(answer: HTTPResponse, path: str) -> None:
    status = f"{answer.status} {answer.reason!r:.60}"
    if answer.status == 429 or answer.status >= 500:
        raise NoAnswer(f"it answers {status}")
    if 300 <= answer.status < 400:
        location = f"{answer.getheader('Location')!r:.100}"
        message = f"it answers {status} and redirects to {location}; redirects are not followed"
        raise RequestRefused(message, answer.status)
    if answer.status != 200:
        body = answer.read(_MAX_SHOWN_BYTES).decode(errors="replace")
        reason = f"; its answer: {body!r}" if body else ""
        message = f"it answers {status}: check that it has POST {path}{reason}"
        raise RequestRefused(message, answer.status)
