"""A POST with limits, against servers that do not keep to any."""

import itertools
import time

import pytest

from rlcomp.errors import ConfigError, RlcompError
from rlcomp.sandbox import http_post
from rlcomp.sandbox.http_post import NoAnswer, RequestRefused, address, post


def asked(url, seconds=20.0, most=1000):
    return post(address(url), "/run_code", b'{"a": 1}', seconds=seconds, max_bytes=most)


def with_body(body, status="200 OK", *headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_what_is_sent_and_what_comes_back(saying):
    assert asked(saying(with_body(b"fine")) + "/deep/") == b"fine"

    (heard,) = saying.heard
    assert heard.startswith(b"POST /deep/run_code HTTP/1.1\r\n")
    assert heard.endswith(b'\r\n\r\n{"a": 1}')
    assert b"Content-Type: application/json\r\n" in heard


def test_an_answer_may_be_as_long_as_it_may_and_is_cut_behind_that(saying):
    url = saying(with_body(b"x" * 1000), with_body(b"x" * 1001), with_body(b"x" * 5000))

    assert [len(asked(url)) for _ in range(3)] == [1000, 1001, 1001]


def test_an_answer_without_end_is_cut(saying):
    def endless():
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        yield from itertools.repeat(b"x" * 65536)

    assert len(asked(saying(endless), most=100_000)) == 100_001


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nA: ",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n",
    ],
)
def test_an_answer_that_drips_is_lost_when_the_time_is_up(head, saying):
    def drip():
        yield head
        for _ in range(400):
            time.sleep(0.02)
            yield b"x"

    started = time.monotonic()

    with pytest.raises(NoAnswer, match=r"within 0\.5 s"):
        asked(saying(drip), seconds=0.5)

    assert 0.45 <= time.monotonic() - started < 4  # the drip would take 8 s


def test_an_answer_that_breaks_off_where_it_may_end_is_lost(saying):
    with pytest.raises(NoAnswer, match="only 1000 bytes of it"):
        asked(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1000))


def test_an_answer_may_take_longer_than_connecting(saying, monkeypatch):
    monkeypatch.setattr(http_post, "_CONNECT_SECONDS", 0.2)

    def slow():
        time.sleep(0.6)
        yield with_body(b"fine")

    assert asked(saying(slow)) == b"fine"


def test_a_silent_server_is_lost_after_the_time_limit(saying):
    def silence():
        time.sleep(1.5)
        yield b""

    with pytest.raises(NoAnswer, match=r"no answer within 0\.3 s"):
        asked(saying(silence), seconds=0.3)


def test_continue_without_end_is_lost(saying):
    def forever():
        for _ in range(400):
            time.sleep(0.02)
            yield b"HTTP/1.1 100 Continue\r\n\r\n"

    with pytest.raises(NoAnswer, match=r"within 0\.5 s"):
        asked(saying(forever), seconds=0.5)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "RemoteDisconnected"),
        (b"nonsense\r\n\r\n", "BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "only 4 bytes of it"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha", "IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000, "LineTooLong"),
        (with_body(b"", "429 Too Many"), "it answers 429 'Too Many'"),
        (with_body(b"", "500 Oops"), "it answers 500 'Oops'"),
        (with_body(b"", "503 Later"), "it answers 503 'Later'"),
    ],
)
def test_a_temporary_failure_is_no_answer(answer, message, saying):
    with pytest.raises(NoAnswer, match=message):
        asked(saying(answer))


def test_a_server_that_is_not_there_is_lost():
    with pytest.raises(NoAnswer, match="ConnectionRefusedError"):
        asked("http://127.0.0.1:9")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status, saying):
    url = saying(with_body(b"", f"{status} Moved", "Location: /\x1b[2J"), with_body(b"stolen"))

    with pytest.raises(
        RlcompError, match=rf"it answers {status} 'Moved' .* to '/\\x1b\[2J'; redirects are not"
    ):
        asked(url)

    assert len(saying.heard) == 1


@pytest.mark.parametrize("status", ["204 None", "400 Bad", "404 Not Found", "422 Unprocessable"])
def test_a_refused_request_is_not_repeated(status, saying):
    with pytest.raises(RlcompError, match=f"it answers {status[:3]} .*POST /run_code") as refused:
        asked(saying(with_body(b"", status)))

    assert not isinstance(refused.value, NoAnswer)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"no \x1b[2J \xff", r"; its answer: 'no \\x1b\[2J .'$"),
        (b"a" * 401, r"; its answer: 'a{400}'$"),
        (b"", "$"),
    ],
)
def test_the_body_of_a_refusal_is_escaped(body, message, saying):
    with pytest.raises(RequestRefused, match=rf"POST /run_code{message}"):
        asked(saying(with_body(body, "400 Bad")))


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8080", "ftp://host", "file:///etc/passwd", "http://", "http://host:0", "http://host:99999",
     "http://host:x", "http://[::1", "http://host/?a=1", "http://host/#a", "http://host/a\nb", "http://hóst"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ConfigError, match=r"sandbox\.url=.*: must be http://host:port or https://"):
        address(url)


def test_a_password_is_refused_and_not_shown():
    with pytest.raises(ConfigError, match=r"sandbox\.url: .* a user or password") as refused:
        address("http://me:hunter2@host:99999")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://host", ("HTTPConnection", "host", 80, "/run_code")),
        ("https://host/a", ("HTTPSConnection", "host", 443, "/a/run_code")),
        ("http://[::1]:8080/", ("HTTPConnection", "::1", 8080, "/run_code")),
        ("http://[::1]", ("HTTPConnection", "::1", 80, "/run_code")),
    ],
)
def test_where_it_goes(url, expected, monkeypatch):
    went = []

    class Stop(OSError):
        pass

    def connect(self):
        went.append((type(self).__name__, self.host, self.port))
        raise Stop

    monkeypatch.setattr("http.client.HTTPConnection.connect", connect)
    monkeypatch.setattr("http.client.HTTPSConnection.connect", connect)
    with pytest.raises(NoAnswer, match="Stop"):
        asked(url)

    assert went == [expected[:3]]
    assert address(url).path + "/run_code" == expected[3]
    assert http_post._CONNECT_SECONDS == 10
