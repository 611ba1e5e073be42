"""Where agents run: in processes of their own, or in threads; each says how it ended."""

import os
import threading

import pytest

from rlcomp.arguments import Unbuilt
from rlcomp.endpoint import agents as module
from rlcomp.endpoint.agents import InProcessAgents, ProcessAgents
from rlcomp.errors import ConfigError
from rlcomp.workers.executor import FailedCall, ReturnedCall

CALLS = [{"base_url": f"http://x/{number}", "example": {}} for number in range(5)]


class Pool:
    """A pool of workers that notes what it is to run, and answers what it is given."""

    def __init__(self, outcomes=(), **settings):
        self.settings, self.outcomes = settings, outcomes
        self.orders, self.closed = [], 0

    def map(self, function, arguments, **settings):
        self.orders.append((function, arguments, settings))
        return [self.outcomes[call["base_url"]] for call in arguments]

    def close(self):
        self.closed += 1


@pytest.fixture
def pools(monkeypatch):
    monkeypatch.setattr(module, "WorkerPool", Pool)
    agents = ProcessAgents(num_workers=2, timeout=3.0, memory_gib=2.0, output_limit=7)
    return agents, agents.pools


def outcome(value):
    return value if isinstance(value, FailedCall) else ReturnedCall(value, 0.0)


def test_each_process_has_the_limits_and_runs_its_share_concurrently(pools):
    agents, (first, second) = pools
    for pool in pools[1]:
        pool.outcomes = {call["base_url"]: outcome(False) for call in CALLS}
        assert pool.settings == {"num_workers": 1, "memory_gib": 2.0, "output_limit": 7}

    assert agents.run("mine.agent", CALLS) == [""] * 5

    for pool, share in ((first, CALLS[::2]), (second, CALLS[1::2])):
        ((function, arguments, settings),) = pool.orders
        assert function == Unbuilt("rlcomp.endpoint.agent.Agent", {"function": "mine.agent"})
        assert arguments == [{**call, "timeout": 3.0} for call in share]
        # Five seconds to say so, of an agent that took too long.
        assert settings == {"timeout": 8.0, "concurrency": len(share)}
        assert pool.closed == 0
    agents.close()
    assert first.closed == second.closed == 1


def test_run_returns_failures_and_kills_processes_of_late_agents(pools):
    agents, (first, second) = pools
    results = [False, True, FailedCall("died", "killed"), False, False]
    for pool in pools[1]:
        pool.outcomes = {
            call["base_url"]: outcome(value) for call, value in zip(CALLS, results, strict=True)
        }

    assert agents.run("mine.agent", CALLS) == ["", "", "killed", "", ""]
    assert (first.closed, second.closed) == (0, 1)


def test_fewer_agents_than_processes_leave_some_idle(pools):
    agents, (first, second) = pools
    for pool in pools[1]:
        pool.outcomes = {call["base_url"]: outcome(False) for call in CALLS}

    assert agents.run("mine.agent", CALLS[:1]) == [""]

    assert (len(first.orders), len(second.orders)) == (1, 0)
    # One agent may do several things at a time.
    assert first.orders[0][2]["concurrency"] == 2


def test_the_default_is_one_process_per_processor(monkeypatch):
    monkeypatch.setattr(module, "WorkerPool", Pool)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)

    assert len(ProcessAgents().pools) == 3
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert len(ProcessAgents().pools) == 1
    assert ProcessAgents().timeout == InProcessAgents().timeout == 120.0
    (pool,) = ProcessAgents().pools
    assert pool.settings == {"num_workers": 1, "memory_gib": 8.0, "output_limit": 10_000_000}
    assert ProcessAgents.ends_with_run


class Checks(Pool):
    def map(self, function, arguments, **settings):
        super().map(function, [], **settings)
        return [self.outcomes]


@pytest.mark.parametrize(
    "told", [outcome(""), outcome("it is an int"), FailedCall("died", "no memory")]
)
def test_check_imports_the_agent_in_a_worker(told, monkeypatch):
    monkeypatch.setattr(module, "WorkerPool", Checks)
    agents = ProcessAgents(num_workers=2)
    agents.pools[0].outcomes = told

    if told == outcome(""):
        agents.check("mine.agent")
    else:
        with pytest.raises(ConfigError) as caught:
            agents.check("mine.agent")
        assert (told.message if isinstance(told, FailedCall) else told.value) in str(caught.value)
    # A minute, in which the libraries of an agent are imported.
    assert agents.pools[0].orders == [("rlcomp.endpoint.agent.why_unusable", [], {"timeout": 60.0})]
    with pytest.raises(ConfigError, match="other processes cannot import"):
        agents.check(print)


def test_agents_in_threads_run_concurrently(monkeypatch):
    from rlcomp.endpoint import agent

    monkeypatch.setattr(agent, "post_report", lambda *what: None)
    together = threading.Barrier(5, timeout=5)

    def meets(url, example):
        together.wait()

    assert InProcessAgents().run(meets, CALLS) == [""] * 5
    assert not together.broken


def test_an_agent_that_cannot_report_its_end_has_a_reason(monkeypatch):
    from rlcomp.endpoint import agent

    def post_report(url, what, body):
        if url.endswith("3"):
            raise ConnectionError("gone")

    monkeypatch.setattr(agent, "post_report", post_report)

    results = InProcessAgents().run(lambda url, example: None, CALLS)

    assert [bool(each) for each in results] == [False, False, False, True, False]
    assert "gone" in results[3]


def test_check_of_agents_in_threads():
    agents = InProcessAgents()

    agents.check(print)
    agents.check("math.sqrt")
    for wrong in ("math.pi", "no_such.module"):
        with pytest.raises(ConfigError):
            agents.check(wrong)
    assert agents.close() is None
