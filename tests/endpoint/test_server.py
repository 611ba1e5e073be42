"""The server of the endpoint: limits and end of connections."""

import contextlib
import socket
import threading
import time

import pytest

from rlcomp.endpoint.server import HttpLimits, HttpReply, Server, serving

ASK = b"POST /in HTTP/1.1\r\nContent-Length: 1\r\n\r\na"


class Route:
    """Answers, and raises what it is given."""

    def __init__(self, *errors):
        self.errors = [*errors]

    def admits(self, path):
        return True

    def __call__(self, method, path, body):
        if self.errors:
            raise self.errors.pop(0)
        return HttpReply(body)


def channel(server):
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=5)


def asked(connection):
    connection.sendall(ASK)
    return connection.recv(2**16)


def reached(server, seconds=2.0):
    """Whether a new connection is answered before some time is over."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with channel(server) as connection, contextlib.suppress(OSError):
            if asked(connection).startswith(b"HTTP/1.1 200"):
                return True
        time.sleep(0.01)
    return False


def test_address_is_the_url():
    with serving(Route(), HttpLimits()) as server:
        assert server.address == f"http://127.0.0.1:{server.server_port}"
        assert server.server_port == server.socket.getsockname()[1] > 0
        assert server.server_name == "127.0.0.1"


def test_the_host_name_is_not_looked_up(monkeypatch):
    def never(*arguments):
        raise AssertionError

    monkeypatch.setattr(socket, "getfqdn", never)
    with serving(Route(), HttpLimits()) as server, channel(server) as connection:
        assert asked(connection)


def test_the_number_of_connections_is_limited():
    with serving(Route(), HttpLimits(connections=2)) as server:
        first, second = channel(server), channel(server)
        assert asked(first)
        assert asked(second)
        with channel(server) as third:
            assert third.recv(1) == b""

        first.close()
        assert reached(server)
        assert asked(second)
        second.close()


def test_the_first_error_is_stored():
    first, second = ZeroDivisionError(), KeyError()
    with serving(Route(first, second), HttpLimits()) as server, channel(server) as connection:
        assert server.error is None
        assert b" 500 " in asked(connection)
        assert b" 500 " in asked(connection)
        assert b" 200 " in asked(connection)
        assert server.error is first


@pytest.mark.parametrize("fails", [False, True])
def test_end_closes_every_connection_and_the_thread(fails):
    before = threading.active_count()
    start = time.monotonic()
    try:
        with serving(Route(), HttpLimits()) as server:
            idle, busy = channel(server), channel(server)
            assert asked(busy)
            assert asked(idle)
            if fails:
                raise ValueError
    except ValueError:
        assert fails
    for connection in (idle, busy):
        assert connection.recv(1) == b""
        connection.close()
    with pytest.raises(OSError, match="refused"):
        channel(server)
    while threading.active_count() > before and time.monotonic() - start < 2:
        time.sleep(0.01)
    assert threading.active_count() <= before
    assert time.monotonic() - start < 1  # it looks often whether it shall end


def test_a_closed_connection_is_removed():
    with serving(Route(), HttpLimits()) as server:
        with channel(server) as connection:
            assert asked(connection)
            assert len(server._channels) == 1
        until = time.monotonic() + 2
        while server._channels and time.monotonic() < until:
            time.sleep(0.01)
        assert not server._channels


def test_connections_do_not_keep_the_process_alive():
    before = {*threading.enumerate()}
    with serving(Route(), HttpLimits()) as server, channel(server) as connection:
        assert asked(connection)
        assert all(thread.daemon for thread in {*threading.enumerate()} - before)
        assert Server.daemon_threads
