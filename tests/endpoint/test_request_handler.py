"""The request handler: parsing, replies, and when a connection is closed."""

import contextlib
import json
import socket
import time
from http.client import HTTPConnection

import pytest

from rlcomp.endpoint.server import HttpLimits, HttpReply, RefusedError, error_reply, serving


class Echo:
    """Answers with the method and the body, or with the status that the body names."""

    def admits(self, path):
        return path == "/in"

    def __call__(self, method, path, body):
        if body.isdigit():
            raise RefusedError("no", int(body), "word")
        return HttpReply(method.encode() + b" " + body, "text/plain", 201)


@pytest.fixture(scope="module")
def server():
    with serving(Echo(), HttpLimits(body=20, seconds=5.0, idle=5.0)) as server:
        yield server


@pytest.fixture
def client(server):
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    with contextlib.closing(connection):
        yield connection


def ask(client, method="POST", path="/in", body=b"", **headers):
    client.request(method, path, body, headers)
    reply = client.getresponse()
    return reply, reply.read()


def channel(server):
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=5)


def everything(connection):
    got = b""
    while piece := connection.recv(2**16):
        got += piece
    return got


def test_default_limits_allow_long_conversations():
    limits = HttpLimits()

    assert (limits.body, limits.connections) == (4_194_304, 2048)
    assert (limits.seconds, limits.idle) == (10.0, 60.0)


def test_a_reply_has_a_media_type_and_keeps_the_connection(client):
    for number in range(3):
        reply, body = ask(client, body=f"a{number}".encode())
        assert (reply.status, body) == (201, f"POST a{number}".encode())
        assert reply.headers["Content-Type"] == "text/plain"
        assert reply.headers["Content-Length"] == "7"
        assert reply.headers["Connection"] is None
        assert reply.headers["Server"].strip() == "rlcomp"
        assert not reply.will_close


def test_an_error_reply_is_json_with_its_status():
    sent = error_reply(RefusedError("no 'x'", 409, "word"))

    assert (sent.status, sent.media_type) == (409, "application/json")
    assert json.loads(sent.body)["error"] == {
        "message": "no 'x'",
        "type": "invalid_request_error",
        "param": None,
        "code": "word",
    }
    assert HttpReply(b"") == HttpReply(b"", "application/json", 200)


@pytest.mark.parametrize("status", [400, 409, 410, 500])
def test_a_connection_stays_open_after_a_refused_request(status, client):
    reply, body = ask(client, body=str(status).encode())

    assert (reply.status, json.loads(body)["error"]["code"]) == (status, "word")
    assert not reply.will_close
    assert ask(client, body=b"a")[1] == b"POST a"


@pytest.mark.parametrize("status", [403, 404, 411, 413])
def test_a_connection_with_an_unread_body_is_closed(status, client):
    reply, _ = ask(client, body=str(status).encode())

    assert reply.status == status
    assert reply.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"path": "/out"}, 404),
        ({"Origin": "http://a.example"}, 403),
        ({"body": b"a" * 20}, 201),
        ({"body": b"a" * 21}, 413),
        ({"method": "GET"}, 201),
        ({"method": "DELETE"}, 201),
    ],
)
def test_unknown_paths_and_web_pages_are_refused(changes, status, client):
    reply, _ = ask(client, **changes)

    assert reply.status == status


@pytest.mark.parametrize(
    ("length", "status"),
    [
        ("000000000002", 201),  # twelve digits
        ("0000000000002", 413),
        ("+2", 411),
        ("-2", 411),
        ("\xb2", 411),  # a digit, and no number
        ("", 411),
    ],
)
def test_content_length_has_at_most_twelve_digits(length, status, server):
    with channel(server) as connection:
        head = f"POST /in HTTP/1.1\r\nContent-Length: {length}\r\nConnection: close\r\n\r\nab"
        connection.sendall(head.encode("latin-1"))
        got = everything(connection)

    assert int(got.split()[1]) == status
    assert got.endswith(b"POST ab") is (status == 201)


@pytest.mark.parametrize(
    ("method", "head", "status"),
    [("GET", "", 201), ("POST", "", 411), ("POST", "Transfer-Encoding: x\r\n", 411)],
)
def test_a_body_needs_a_content_length(method, head, status, server):
    with channel(server) as connection:
        connection.sendall(f"{method} /in HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
        assert int(everything(connection).split()[1]) == status


@pytest.mark.parametrize(("length", "said"), [(2**16 - 1, True), (2**16, False)])
def test_the_request_line_is_limited(length, said, server):
    """The longest line is refused in words; a longer one is not read to its end."""
    with channel(server) as connection:
        connection.sendall(b"GET /" + b"a" * (length - 5 - 11) + b" HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):  # ended before all was read
            got = b""
            got = everything(connection)
    assert (b" 404 " in got) is said


def test_an_invalid_request_gets_an_http_error(server):
    with channel(server) as connection:
        connection.sendall(b"NOISE\r\n\r\n")
        head, _, body = everything(connection).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in head
    assert json.loads(body)["error"]["message"]


def test_a_long_protocol_error_is_truncated(server):
    with channel(server) as connection:
        connection.sendall(b"GET / " + b"a" * 300 + b"\r\n\r\n")
        _, _, body = everything(connection).partition(b"\r\n\r\n")

    assert len(json.loads(body)["error"]["message"]) == 200


def test_expect_100_continue_is_answered(server):
    with channel(server) as connection:
        head = b"POST /in HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
        connection.sendall(head + b"Connection: close\r\n\r\n")
        connection.settimeout(2)
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"ab")
        assert everything(connection).endswith(b"POST ab")


def test_an_idle_connection_is_closed():
    with (
        serving(Echo(), HttpLimits(seconds=5.0, idle=0.1)) as server,
        channel(server) as connection,
    ):
        start = time.monotonic()
        assert connection.recv(1) == b""
        assert 0.05 < time.monotonic() - start < 2


def test_a_request_may_take_longer_than_the_idle_time():
    with (
        serving(Echo(), HttpLimits(seconds=5.0, idle=0.1)) as server,
        channel(server) as connection,
    ):
        connection.sendall(b"POST /in HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n")
        time.sleep(0.2)
        connection.sendall(b"\r\nab")
        assert everything(connection).endswith(b"POST ab")


def test_a_client_that_does_not_read_its_reply_is_disconnected():
    class Large(Echo):
        def __call__(self, method, path, body):
            return HttpReply(b"a" * 30_000_000)

    limits = HttpLimits(seconds=0.1, idle=30.0)
    with serving(Large(), limits) as server, channel(server) as connection:
        connection.sendall(b"GET /in HTTP/1.1\r\n\r\n")
        until = time.monotonic() + 3
        assert connection.recv(1) == b"H"
        while server._channels and time.monotonic() < until:
            time.sleep(0.01)
        assert not server._channels


def test_requests_are_not_logged(client, capfd):
    ask(client, body=b"a")
    ask(client, path="/out")

    assert capfd.readouterr() == ("", "")
