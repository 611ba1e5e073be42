"""An outside agent: what it returns or raises is told to its episode of the endpoint."""

import asyncio
import math
import os
import threading
from fractions import Fraction

import pytest

from rlcomp.endpoint import agent as module
from rlcomp.endpoint.agent import Agent, named, tell, usable
from rlcomp.endpoint.handler import HttpLimits, HttpReply
from rlcomp.endpoint.server import serving

FILE = """
def agent(url, example):
    return 1.0

number = 3
"""


@pytest.fixture
def told(monkeypatch):
    """What is told to the endpoint, in order."""
    found = []
    monkeypatch.setattr(module, "tell", lambda *what: found.append(what))
    return found


def run(function, timeout=5.0, example=None):
    return asyncio.run(Agent(function)("http://x/v1", example or {}, timeout))


def test_a_function_is_named_by_its_path_or_its_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)

    assert named("math.sqrt") is math.sqrt
    assert named(f"{path}:agent")("", {}) == 1.0
    assert usable(f"{path}:agent") == usable("math.sqrt") == ""
    for wrong in (f"{path}:number", f"{path}:other", "math.pi", "no_such.module", "none.txt:a"):
        assert usable(wrong)


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [
        (None, {}),
        (0.5, {"reward": 0.5}),
        (3, {"reward": 3.0}),
        (True, {"reward": 1.0}),
        (Fraction(1, 4), {"reward": 0.25}),
    ],
)
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_what_an_agent_returns_is_its_reward(returned, outcome, kind, told):
    seen = []

    def agent(url, example):
        seen.append((url, example))
        return returned

    async def later(url, example):
        return agent(url, example)

    late = run(agent if kind == "function" else later, example={"prompt": "a"})

    assert late is False
    assert seen == [("http://x/v1", {"prompt": "a"})]
    assert told == [("http://x/v1", "begin", {}), ("http://x/v1", "end", outcome)]


@pytest.mark.parametrize("returned", [math.nan, math.inf, "1", 1j, [1.0]])
def test_what_is_no_number_is_told_as_a_failure(returned, told):
    run(lambda url, example: returned)

    (_, what, outcome) = told[1]
    assert what == "end"
    assert set(outcome) == {"failed"}
    assert repr(returned) in outcome["failed"]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_an_exception_is_told_with_the_place_in_the_agent(kind, told):
    def agent(url, example):
        os.stat("/no/such/file")

    async def later(url, example):
        agent(url, example)

    run(agent if kind == "function" else later)

    where = agent if kind == "function" else later
    line = where.__code__.co_firstlineno + 1
    failed = told[1][2]["failed"]
    assert failed.startswith("FileNotFoundError")
    assert failed.endswith(f"(test_agent.py, line {line})")


def test_a_call_with_the_wrong_arguments_has_no_place(told):
    run(lambda: 1.0)

    assert "line" not in told[1][2]["failed"]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_an_agent_that_takes_too_long_has_failed(kind, told):
    release, threads = threading.Event(), []

    def agent(url, example):
        threads.append(threading.current_thread())
        release.wait(5)
        return 1.0

    async def later(url, example):
        await asyncio.sleep(5)

    assert run(agent if kind == "function" else later, timeout=0.05) is True
    release.set()
    for thread in threads:
        thread.join()

    assert told[0][1:] == ("begin", {})
    assert told[1][1] == "end"
    assert "0.05 s" in told[1][2]["failed"]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_an_endpoint_that_cannot_be_told_is_an_error(kind, monkeypatch):
    def broken(*what):
        raise ConnectionError("gone")

    async def later(url, example):
        return 1.0

    monkeypatch.setattr(module, "tell", broken)

    with pytest.raises(ConnectionError):
        run((lambda url, example: 1.0) if kind == "function" else later)


@pytest.mark.parametrize(
    ("variables", "value"),
    [
        ({}, "127.0.0.1"),
        ({"no_proxy": "a"}, "a,127.0.0.1"),
        ({"NO_PROXY": "b"}, "b,127.0.0.1"),
        ({"no_proxy": "a", "NO_PROXY": "b"}, "a,127.0.0.1"),
    ],
)
def test_clients_of_an_agent_ask_no_proxy_for_this_machine(variables, value, monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")  # so that it is as before behind the test
        monkeypatch.delenv(name)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)

    Agent(print)

    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == value


def test_what_is_told_is_posted_as_json(monkeypatch):
    seen = []

    class Route:
        def admits(self, path):
            return True

        def __call__(self, method, path, body):
            seen.append((method, path, body))
            return HttpReply(b"{}")

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(Route(), HttpLimits()) as server:
        tell(f"{server.address}/v1", "end", {"reward": 0.5})

    assert seen == [("POST", "/v1/end", b'{"reward": 0.5}')]


def test_an_agent_that_goes_on_keeps_no_process_alive(told):
    release, found = threading.Event(), []

    def agent(url, example):
        found.append(threading.current_thread())
        release.wait(5)

    run(agent, timeout=0.05)
    release.set()
    found[0].join()

    assert found[0].daemon
