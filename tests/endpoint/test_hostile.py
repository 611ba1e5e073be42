"""A hostile client: nothing it does harms the run, or the agents beside it."""

import contextlib
import json
import socket
import threading
import time
import urllib.parse

import pytest

from rlcomp.batch import decode_texts
from rlcomp.endpoint.server import HttpLimits, HttpReply, RefusedError, Server, serving

BODY = json.dumps({"prompt": "a=", "max_tokens": 2}).encode()


def raw(address, data, seconds=5.0):
    """What comes back for bytes, until the connection ends."""
    place = urllib.parse.urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=seconds) as channel:
        channel.sendall(data)
        with contextlib.suppress(OSError):  # it may have been refused, and the connection ended
            channel.shutdown(socket.SHUT_WR)
        got = b""
        while piece := channel.recv(2**16):
            got += piece
    return got


def request(path, body=BODY, *, method="POST", head=""):
    length = f"Content-Length: {len(body)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{length}{head}\r\n".encode() + body


def status(got):
    return int(got.split()[1]) if got else 0


def path_of(url):
    return urllib.parse.urlsplit(url).path


ATTACKS = {
    "a wrong secret": lambda path: (request("/" + "A" * 32 + "/v1/completions"), {404}),
    "a web page": lambda path: (
        request(f"{path}/completions", head="Origin: http://example.org\r\n"),
        {403},
    ),
    "a path that climbs": lambda path: (request(f"{path}/../../../../etc/passwd", b""), {404}),
    "an encoded path that climbs": lambda path: (request(f"{path}/%2e%2e%2fetc%2fpasswd"), {404}),
    "a file of the system": lambda path: (request("/etc/passwd", b"", method="GET"), {404}),
    "a body that is not JSON": lambda path: (request(f"{path}/completions", b"{" * 10_000), {400}),
    "a body that is no object": lambda path: (request(f"{path}/completions", b"[1]"), {400}),
    "a body nested too deeply": lambda path: (
        request(f"{path}/completions", b'{"stop":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        {400},
    ),
    "bytes that are no UTF-8": lambda path: (request(f"{path}/completions", b"\xff\xfe"), {400}),
    "a negative number": lambda path: (
        request(f"{path}/completions", b'{"prompt": "a", "n": -4}'),
        {400},
    ),
    "a huge number": lambda path: (
        request(f"{path}/completions", b'{"prompt": "a", "n": 1e999}'),
        {400},
    ),
    "a reward that is NaN": lambda path: (request(f"{path}/reward", b'{"reward": NaN}'), {400}),
    "a reward that is infinite": lambda path: (
        request(f"{path}/reward", b'{"reward": 1e999}'),
        {400},
    ),
    "a reward that is a text": lambda path: (request(f"{path}/reward", b'{"reward": "1"}'), {400}),
    "a lone surrogate": lambda path: (
        request(f"{path}/completions", b'{"prompt": "\\ud800"}'),
        {400},
    ),
    "a huge body": lambda path: (
        request(f"{path}/completions", b"", head="X: y\r\n").replace(
            b"Content-Length: 0", b"Content-Length: 99999999999"
        ),
        {413},
    ),
    "a negative length": lambda path: (
        request(f"{path}/completions").replace(b"Content-Length: ", b"Content-Length: -"),
        {411},
    ),
    "chunks without a length": lambda path: (
        request(f"{path}/completions", head="Transfer-Encoding: chunked\r\n"),
        {411},
    ),
    "a thousand headers": lambda path: (
        request(f"{path}/completions", head="X: y\r\n" * 1000),
        {431},
    ),
    "a request line without an end": lambda path: (b"POST /" + b"a" * 2**17, {0}),
    "another method": lambda path: (request(f"{path}/completions", b"", method="DELETE"), {405}),
    "an injected header": lambda path: (
        request(f"{path}/no%0d%0aSet-Cookie:%20a=b", b"{}"),
        {404},
    ),
    "two requests smuggled into one": lambda path: (
        request("/x", request(f"{path}/reward", b'{"reward": 9}')),
        {404},
    ),
    "noise": lambda path: (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {0, 400}),
}


@pytest.fixture(scope="module")
def got():
    return {}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused_and_the_episode_continues(attack, play, got):
    def agent(url, example):
        if example["prompt"] == "b=":
            for name, make in ATTACKS.items():
                data, _ = make(path_of(url))
                got[name] = raw(url, data)
        return float(status(raw(url, request(f"{path_of(url)}/completions"))) == 200)

    if not got:
        rows = play(agent, prompts=["a=", "b="])
        assert decode_texts(rows["episode_error"]) == ["", ""]
        assert rows["facts"]["reward"].tolist() == [1.0, 1.0]
        # Nothing of the attacks was recorded, or paid.
        assert rows["facts"]["calls"].tolist() == [1.0, 1.0]
        assert rows["turn_reward"].sum() == 0

    assert status(got[attack]) in ATTACKS[attack](path_of("http://x/y"))[1]
    assert b"root:" not in got[attack]
    assert b"\r\nSet-Cookie" not in got[attack]


class Echo:
    """Answers with the body."""

    def admits(self, path):
        return path == "/in"

    def __call__(self, method, path, body):
        if body == b"fault":
            raise ZeroDivisionError
        if body == b"refused":
            raise RefusedError("no\r\nX: y")
        return HttpReply(body)


def test_the_server_listens_on_loopback_alone():
    with serving(Echo(), HttpLimits()) as server:
        assert server.socket.getsockname()[0] == "127.0.0.1"
        own = socket.gethostbyname(socket.gethostname())
        if not own.startswith("127."):
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((own, server.server_port), timeout=1)
    with pytest.raises(TypeError):
        Server(Echo(), HttpLimits(), host="0.0.0.0")


def test_a_slow_sender_is_disconnected():
    with serving(Echo(), HttpLimits(seconds=0.3, idle=5.0)) as server:
        channel = socket.create_connection(("127.0.0.1", server.server_port), timeout=5)
        start = time.monotonic()
        with channel:
            cut = False
            while not cut and time.monotonic() - start < 3:
                try:
                    channel.sendall(b"P")
                except OSError:
                    cut = True
                time.sleep(0.02)
        assert cut
        assert status(raw(server.address, request("/in"))) == 200


def test_a_missing_body_does_not_block_others():
    with serving(Echo(), HttpLimits(seconds=0.3)) as server:
        short = request("/in").replace(b"Content-Length: ", b"Content-Length: 9")
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as channel:
            channel.sendall(short)
            assert channel.recv(10) == b""


def test_connections_beyond_the_limit_are_closed():
    with serving(Echo(), HttpLimits(connections=8, idle=0.4)) as server:
        place = ("127.0.0.1", server.server_port)
        flood = [socket.create_connection(place, timeout=5) for _ in range(64)]
        closed = sum(not channel.recv(1) for channel in flood[8:])
        assert closed == 56
        for channel in flood:
            channel.close()
        time.sleep(0.6)
        assert status(raw(server.address, request("/in"))) == 200


def test_many_concurrent_requests_are_answered():
    with serving(Echo(), HttpLimits()) as server:
        got = []
        threads = [
            threading.Thread(target=lambda: got.append(raw(server.address, request("/in"))))
            for _ in range(200)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [status(each) for each in got] == [200] * 200


def test_an_internal_error_is_stored_and_not_revealed():
    with serving(Echo(), HttpLimits()) as server:
        reply = raw(server.address, request("/in", b"fault"))
        assert status(reply) == 500
        assert b"ZeroDivision" not in reply
        assert isinstance(server.error, ZeroDivisionError)
        assert b"\r\nX: y" not in raw(server.address, request("/in", b"refused"))
