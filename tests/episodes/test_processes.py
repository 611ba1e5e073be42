import textwrap
import time

import pytest

from rlcomp.arguments import Unbuilt
from rlcomp.episodes.host import EnvironmentFailure, Start
from rlcomp.episodes.in_process import InProcessHosts
from rlcomp.episodes.processes import ProcessHosts
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.workers.pool import closing

MODULE = """
import os, random, time
from rlcomp.interfaces.environment import Turn

class Counter:
    stops = (">",)

    def __init__(self, first=0):
        self.count = first

    def reset(self, example, seed):
        self.draw = random.Random(seed)
        self.home = os.getpid()
        return Turn(observation=f"{example.prompt}{example.columns['n']}", anchor="start")

    def step(self, action):
        if action == "hang>":
            while True:
                pass
        if action == "die>":
            os._exit(3)
        if action == "raise>":
            raise ValueError("no such thing")
        if action == "much>":
            return Turn(observation="e" * 3_000_000)
        if action == "odd>":
            return "a text"
        if action == "other>":
            return Turn(observation=str(time.time_ns()))
        self.count += 1
        said = f"{self.count} {self.draw.randrange(1000)}"
        return Turn(observation=said, reward=0.5, done=action == "end>", anchor=str(self.count))

    def facts(self):
        return {"count": self.count}

    def close(self):
        with open(os.environ["CLOSED"], "a") as file:
            file.write("closed\\n")


class Refused:
    stops = ()

    def __init__(self):
        raise OSError("no world")
"""


@pytest.fixture
def counter(tmp_path, monkeypatch):
    (tmp_path / "counting_world.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CLOSED", str(tmp_path / "closed"))
    return Unbuilt("counting_world.Counter", {"first": 5})


@pytest.fixture
def hosts():
    made = ProcessHosts(num_workers=2, timeout=1.0)
    with closing([made]):
        yield made


def starts(count):
    return [Start(Example("a", "", "", columns={"n": n}), seed=n) for n in range(count)]


def test_it_says_what_it_says_in_the_process(counter, hosts):
    inline, apart = InProcessHosts().host(counter), hosts.host(counter)
    assert inline.stops == apart.stops == (">",)

    for host in (inline, apart):
        host.begun = host.open(starts(5))
    assert inline.begun == apart.begun
    assert apart.begun[2] == Turn(observation="a2", anchor="start")
    for actions in ({0: "x>", 1: "y>", 4: "z>"}, {1: "y>", 4: "end>"}, {1: "end>"}):
        assert inline.step(actions) == apart.step(actions)
    assert inline.facts() == apart.facts()
    assert [each["count"] for each in apart.facts()] == [6, 8, 5, 5, 7]


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("hang>", "ran for more than"),
        ("die>", "its process ended with exit code 3"),
        ("raise>", "ValueError: no such thing"),
        ("much>", "returned"),
        ("odd>", "TypeError: returned 'a text': must be a Turn"),
    ],
)
def test_what_fails_costs_its_own_episode(counter, hosts, action, why):
    # Episodes 0 and 2 live in one process, 1 in the other.
    host, plain = hosts.host(counter), InProcessHosts().host(counter)
    for each in (host, plain):
        each.open(starts(3))
        each.step({0: "x>", 1: "x>", 2: "x>"})

    start = time.monotonic()
    found = host.step({0: action, 1: "x>", 2: "x>"})
    assert time.monotonic() - start < 10.0

    want = plain.step({1: "x>", 2: "x>"})
    assert isinstance(found[0], EnvironmentFailure)
    assert why in found[0].reason
    assert (found[1], found[2]) == (want[1], want[2])
    # The others go on, though their process may be another one.
    assert host.step({1: "end>", 2: "x>"}) == plain.step({1: "end>", 2: "x>"})


def test_failures_of_all_kinds_in_one_step_cost_their_own_episodes(counter, hosts):
    host, plain = hosts.host(counter), InProcessHosts().host(counter)
    for each in (host, plain):
        each.open(starts(6))

    sound = {1: "x>", 4: "y>"}
    failing = {0: "hang>", 2: "die>", 3: "raise>", 5: "much>"}
    found, want = host.step({**failing, **sound}), plain.step(sound)

    assert all(isinstance(found[episode], EnvironmentFailure) for episode in failing)
    assert {episode: found[episode] for episode in sound} == want


def test_one_that_cannot_be_played_again_is_told_so(counter, hosts):
    host = hosts.host(counter)
    host.open(starts(3))
    host.step({0: "other>", 2: "x>"})
    found = host.step({2: "die>"})  # the process of both
    assert isinstance(found[2], EnvironmentFailure)

    (told,) = host.step({0: "x>"}).values()

    assert isinstance(told, EnvironmentFailure)
    assert "the environment, replayed from its seed, gave another turn" in told.reason


def test_environments_are_closed_after_each_batch(counter, hosts, tmp_path):
    host = hosts.host(counter)
    assert (tmp_path / "closed").read_text() == "closed\n"  # that of the stop texts
    host.open(starts(3))
    host.close()

    assert (tmp_path / "closed").read_text() == "closed\n" * 4


def test_one_that_cannot_be_made_is_a_mistake(counter, hosts):
    for each in (hosts, InProcessHosts()):
        with pytest.raises(ConfigError, match=r"cannot be made: .*no world"):
            each.host(Unbuilt("counting_world.Refused", {}))
        with pytest.raises(ConfigError, match="counting_world"):
            each.host(Unbuilt("counting_world.Missing", {}))


def test_an_object_cannot_be_sent(hosts):
    with pytest.raises(ConfigError, match="set environment_pool=in_process"):
        hosts.host(dict)
    with pytest.raises(ConfigError, match="has an argument that is not JSON"):
        hosts.host(Unbuilt("counting_world.Counter", {"first": object()}))


def test_processes_end_with_the_run(counter):
    made = ProcessHosts(num_workers=1)
    with closing([made]):
        made.host(counter).open(starts(1))
        (worker,) = made.pools[0]._workers
        assert not worker.process.has_exited()

    assert worker.process.has_exited()


def test_a_fork_goes_on_from_the_same_place_and_leaves_the_other_alone(counter, hosts):
    inline, apart = InProcessHosts().host(counter), hosts.host(counter)
    for host in (inline, apart):
        host.open(starts(2))
        host.step({0: "x>", 1: "y>"})
        assert [host.fork(1), host.fork(1)] == [2, 3]
        first = host.step({1: "z>", 2: "z>"})
        assert first[1] == first[2]
        host.said = host.step({1: "z>", 3: "z>"})
        assert host.said[3] == first[1]
        assert host.said[1] != first[1]
        assert [each["count"] for each in host.facts()] == [6, 8, 7, 7]
        assert host.fork(2) == 4
    assert inline.said == apart.said


def test_an_episode_that_cannot_be_played_again_is_not_forked(counter, hosts):
    for host in (InProcessHosts().host(counter), hosts.host(counter)):
        host.open(starts(2))
        host.step({0: "other>", 1: "x>"})  # says what time it is

        assert [host.fork(0), host.fork(1)] == [2, 3]
        said = host.step({0: "x>", 2: "x>", 3: "x>"})

        assert "the environment, replayed from its seed, gave another turn" in said[2].reason
        assert not isinstance(said[0], EnvironmentFailure)
        assert not isinstance(said[3], EnvironmentFailure)


class Copied:
    """Says how often it was asked; ``fork`` is its own, or fails."""

    stops = (">",)
    made = 0

    def __init__(self):
        Copied.made += 1
        self.count = 0

    def reset(self, example, seed):
        return Turn()

    def step(self, action):
        self.count += 1
        return Turn(observation=str(self.count))

    def fork(self):
        if self.count > 2:
            raise RuntimeError("too late")
        other = object.__new__(Copied)
        other.count = self.count
        return other

    def facts(self):
        return {}

    def close(self):
        pass


def test_an_environment_that_can_be_copied_is_not_played_again():
    host = InProcessHosts().host(Copied)
    host.open(starts(1))
    host.step({0: "a>"})
    made = Copied.made

    assert host.fork(0) == 1
    assert [host.step({n: "b>"})[n].observation for n in (0, 1, 1)] == ["2", "2", "3"]
    assert Copied.made == made
    assert (host.fork(1), host.step({2: "b>"})[2]) == (
        2,
        EnvironmentFailure("RuntimeError: too late"),
    )
