"""A POST of JSON over HTTP, with limits on what comes back and on when.

No redirect is followed, no proxy is asked, and nothing is done with what the server says but to
hand it on.
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
_TOLD = 400  # bytes of a refusal that are told on


class Lost(RlcompError):
    """No answer came, or none that counts: another time there may be one."""


class Refused(RlcompError):
    """The server does not do what it is asked, and another time it will not either.

    Args:
        told: the message.
        status: of its answer.
    """

    def __init__(self, told: str, status: int) -> None:
        super().__init__(told)
        self.status = status


def address(url: str, name: str = "sandbox.url") -> SplitResult:
    """The parts of the address of a server.

    Args:
        url: the address.
        name: what it is called in messages.

    Raises:
        ConfigError: it is none, or holds a password.

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
    """Return the parts of the address of an API whose version is ``/v1``.

    Servers print their own address, without a path, and examples that of one request: both are
    completed.

    Args:
        url: the address.
        name: what it is called in messages.
        request: the path of a request, below the API's.

    Raises:
        ConfigError: as :func:`address`.

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
    """Connect to a server, and say nothing.

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
    """The body of the answer; of one with more than ``most`` bytes, one byte more than that.

    Args:
        where: the server.
        path: below it.
        data: what is sent.
        seconds: until the whole answer must be there.
        most: bytes of it.
        headers: beside those that say what is sent.

    Raises:
        Lost: no connection, no whole answer in time, 429, or 5xx.
        Refused: any other answer than 200.
    """
    kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
    port = where.port or kind.default_port
    connection = kind(where.hostname or "", port, timeout=_CONNECT)
    late = threading.Event()
    try:
        connection.connect()
        with _ended_after(seconds, connection.sock, late):
            sent = {**(headers or {}), "Content-Type": "application/json"}
            connection.request("POST", where.path + path, data, sent)
            answer = connection.getresponse()
            _check(answer, path)
            body = answer.read(most + 1)
    except (OSError, HTTPException) as error:
        told = f"no answer within {seconds:g} s" if late.is_set() else in_one_line(error)
        raise Lost(told) from error
    finally:
        connection.close()
    if late.is_set() or (len(body) <= most and answer.length):
        raise Lost(f"no whole answer within {seconds:g} s, only {len(body)} bytes of it")
    return body


@contextlib.contextmanager
def _ended_after(seconds: float, sock: socket.socket, late: threading.Event) -> Iterator[None]:
    """Hang up then, however little at a time the other side says."""

    def hang_up() -> None:
        late.set()
        with contextlib.suppress(OSError):  # it has
            sock.shutdown(socket.SHUT_RDWR)

    sock.settimeout(None)  # one clock, not two that end at the same time
    watch = threading.Timer(seconds, hang_up)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _check(answer: HTTPResponse, path: str) -> None:
    told = f"{answer.status} {answer.reason!r:.60}"
    if answer.status == 429 or answer.status >= 500:
        raise Lost(f"it answers {told}")
    if 300 <= answer.status < 400:
        elsewhere = f"{answer.getheader('Location')!r:.100}"
        told = f"it answers {told} and sends to {elsewhere}, which is not followed"
        raise Refused(told, answer.status)
    if answer.status != 200:
        said = answer.read(_TOLD).decode(errors="replace")
        why = f" It says {said!r}" if said else ""
        raise Refused(f"it answers {told}: has it POST {path}?{why}", answer.status)
