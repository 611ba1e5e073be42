"""The runner of an outside agent and its reports to the endpoint."""

import asyncio
import math
import os
import threading
from fractions import Fraction

import pytest

from rlcomp.endpoint import agent as module
from rlcomp.endpoint.agent import Agent, load_agent, post_report, why_unusable
from rlcomp.endpoint.server import HttpLimits, HttpReply, serving

FILE = """
def agent(url, example):
    return 1.0

number = 3
"""


@pytest.fixture
def reports(monkeypatch):
    """The reports to the endpoint, in order."""
    posted = []
    monkeypatch.setattr(module, "post_report", lambda *report: posted.append(report))
    return posted


def run(function, timeout=5.0, example=None):
    return asyncio.run(Agent(function)("http://x/v1", example or {}, timeout))


def test_load_agent_by_dotted_path_or_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)

    assert load_agent("math.sqrt") is math.sqrt
    assert load_agent(f"{path}:agent")("", {}) == 1.0
    assert why_unusable(f"{path}:agent") == why_unusable("math.sqrt") == ""
    for wrong in (f"{path}:number", f"{path}:other", "math.pi", "no_such.module", "none.txt:a"):
        assert why_unusable(wrong)


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
def test_the_return_value_is_the_reward(returned, outcome, kind, reports):
    seen = []

    def agent(url, example):
        seen.append((url, example))
        return returned

    async def later(url, example):
        return agent(url, example)

    late = run(agent if kind == "function" else later, example={"prompt": "a"})

    assert late is False
    assert seen == [("http://x/v1", {"prompt": "a"})]
    assert reports == [("http://x/v1", "begin", {}), ("http://x/v1", "end", outcome)]


@pytest.mark.parametrize("returned", [math.nan, math.inf, "1", 1j, [1.0]])
def test_an_invalid_return_value_is_reported_as_a_failure(returned, reports):
    run(lambda url, example: returned)

    (_, what, outcome) = reports[1]
    assert what == "end"
    assert set(outcome) == {"failed"}
    assert repr(returned) in outcome["failed"]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_an_exception_is_reported_with_the_line_of_the_agent(kind, reports):
    def agent(url, example):
        os.stat("/no/such/file")

    async def later(url, example):
        agent(url, example)

    run(agent if kind == "function" else later)

    where = agent if kind == "function" else later
    line = where.__code__.co_firstlineno + 1
    failed = reports[1][2]["failed"]
    assert failed.startswith("FileNotFoundError")
    assert failed.endswith(f"(test_agent.py, line {line})")


def test_an_exception_outside_the_agent_has_no_line(reports):
    run(lambda: 1.0)

    assert ", line " not in reports[1][2]["failed"]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_an_agent_that_takes_too_long_has_failed(kind, reports):
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

    assert reports[0][1:] == ("begin", {})
    assert reports[1][1] == "end"
    assert "0.05 s" in reports[1][2]["failed"]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_an_unreachable_endpoint_is_an_error(kind, monkeypatch):
    def broken(*what):
        raise ConnectionError("gone")

    async def later(url, example):
        return 1.0

    monkeypatch.setattr(module, "post_report", broken)

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
def test_clients_use_no_proxy_for_the_loopback(variables, value, monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")  # so that it is as before behind the test
        monkeypatch.delenv(name)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)

    Agent(print)

    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == value


def test_post_report_sends_json(monkeypatch):
    seen = []

    class Route:
        def admits(self, path):
            return True

        def __call__(self, method, path, body):
            seen.append((method, path, body))
            return HttpReply(b"{}")

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(Route(), HttpLimits()) as server:
        post_report(f"{server.address}/v1", "end", {"reward": 0.5})

    assert seen == [("POST", "/v1/end", b'{"reward": 0.5}')]


def test_a_late_agent_does_not_keep_the_process_alive(reports):
    release, threads = threading.Event(), []

    def agent(url, example):
        threads.append(threading.current_thread())
        release.wait(5)

    run(agent, timeout=0.05)
    release.set()
    threads[0].join()

    assert threads[0].daemon
