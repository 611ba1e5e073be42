"""A POST of JSON over HTTP, with limits on the size and the time of the answer.

No redirect is followed and no proxy is used. The answer is returned as it is.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from rlcomp.errors import ConfigError, RlcompError, in_one_line

_CONNECT = 10.0  # seconds
_TOLD = 400  # bytes of a refusal in a message


class Lost(RlcompError):
    """Error without a valid answer; a later attempt may succeed."""


class Refused(RlcompError):
    """Error of a request that the server refuses; a later attempt would fail too.

    Args:
        told: the message.
        status: status code of the answer.
    """

    def __init__(self, told: str, status: int) -> None:
        super().__init__(told)
        self.status = status


def address(url: str, name: str = "sandbox.url") -> SplitResult:
    """Return the parts of the address of a server.

    Args:
        url: the address.
        name: its name in messages.

    Raises:
        ConfigError: it is no address, or holds a password.

    Examples:
        >>> address("http://localhost:8080/runner/").path
        '/runner'
    """
    if "@" in url:
        raise ConfigError(f"{name}: a user or password in it would be in the run's record")
    try:
        parts = urlsplit(url.rstrip("/"))
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment or not (url.isascii() and url.isprintable()):
        raise ConfigError(f"{name}={url!r}: must be http://host:port or https://host:port")
    return parts


def api_address(url: str, name: str, request: str) -> SplitResult:
    """Return the parts of the address of an API with version ``/v1``.

    The address of a server, without a path, and the address of a single request are accepted too
    and turned into the API's.

    Args:
        url: the address.
        name: its name in messages.
        request: the path of a request, below the API's.

    Raises:
        ConfigError: see :func:`address`.

    Examples:
        >>> for url in ("http://localhost:80", "http://localhost:80/v1/", "http://a/b/v1/chat"):
        ...     print(api_address(url, "url", "/chat").geturl())
        http://localhost:80/v1
        http://localhost:80/v1
        http://a/b/v1
    """
    where = address(url, name)
    return where._replace(path=where.path.removesuffix(request) or "/v1")


def connect(where: SplitResult) -> None:
    """Connect to a server and disconnect again.

    Raises:
        Lost: there is no connection.
    """
    kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
    try:
        there = (where.hostname or "", where.port or kind.default_port)
        socket.create_connection(there, timeout=_CONNECT).close()
    except OSError as error:
        raise Lost(in_one_line(error)) from error


def post(
    where: SplitResult,
    path: str,
    data: bytes,
    *,
    seconds: float,
    most: int,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Send a POST and return the body of the answer, at most ``most + 1`` bytes of it.

    Args:
        where: the server.
        path: path below the server's address.
        data: the body of the request.
        seconds: time limit of the whole answer.
        most: most bytes of the answer; a longer body has one byte more.
        headers: headers besides the content type.

    Raises:
        Lost: no connection, no whole answer in time, 429, or 5xx.
        Refused: any other status than 200.
    """
    kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
    port = where.port or kind.default_port
    connection = kind(where.hostname or "", port, timeout=_CONNECT)
    late = threading.Event()
    try:
        connection.connect()
        with _ended_after(seconds, connection.sock, late):
            fields = {**(headers or {}), "Content-Type": "application/json"}
            connection.request("POST", where.path + path, data, fields)
            answer = connection.getresponse()
            _check(answer, path)
            body = answer.read(most + 1)
    except (OSError, HTTPException) as error:
        reason = f"no answer within {seconds:g} s" if late.is_set() else in_one_line(error)
        raise Lost(reason) from error
    finally:
        connection.close()
    if late.is_set() or (len(body) <= most and answer.length):
        raise Lost(f"no whole answer within {seconds:g} s, only {len(body)} bytes of it")
    return body


@contextlib.contextmanager
def _ended_after(seconds: float, sock: socket.socket, late: threading.Event) -> Iterator[None]:
    """Close the connection after a time, even if the server sends bytes slowly."""

    def hang_up() -> None:
        late.set()
        with contextlib.suppress(OSError):  # it is already closed
            sock.shutdown(socket.SHUT_RDWR)

    sock.settimeout(None)  # the timer alone bounds the time
    watch = threading.Timer(seconds, hang_up)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _check(answer: HTTPResponse, path: str) -> None:
    status = f"{answer.status} {answer.reason!r:.60}"
    if answer.status == 429 or answer.status >= 500:
        raise Lost(f"it answers {status}")
    if 300 <= answer.status < 400:
        elsewhere = f"{answer.getheader('Location')!r:.100}"
        message = f"it answers {status} and sends to {elsewhere}, which is not followed"
        raise Refused(message, answer.status)
    if answer.status != 200:
        body = answer.read(_TOLD).decode(errors="replace")
        why = f" It says {body!r}" if body else ""
        raise Refused(f"it answers {status}: has it POST {path}?{why}", answer.status)
