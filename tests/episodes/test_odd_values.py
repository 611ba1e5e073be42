import textwrap

import numpy as np
import pytest
import torch

from rlcomp.arguments import Unbuilt
from rlcomp.episodes.host import EnvironmentFailure, Start
from rlcomp.episodes.in_process import InProcessHosts
from rlcomp.episodes.processes import ProcessHosts
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn, check_turn
from rlcomp.interfaces.task import Example
from rlcomp.workers.pool import closing


class World:
    """Answers with a turn, and tells facts, that it is given."""

    stops = (">",)

    def __init__(self, turn=None, facts=None):
        self.turn, self.told = turn, {} if facts is None else facts

    def reset(self, example, seed):
        return Turn()

    def step(self, action):
        return self.turn

    def facts(self):
        return self.told

    def close(self):
        pass


def answered(**turn):
    host = InProcessHosts().host(lambda: World(Turn(**turn)))
    host.open([Start(Example("a", "", ""), seed=0)])
    return host.step({0: "a>"})[0]


@pytest.mark.parametrize(
    ("entry", "value", "why"),
    [
        ("reward", float("nan"), "ValueError: reward is nan: must be a number"),
        ("reward", float("-inf"), "ValueError: reward is beyond 3.4e38"),
        ("reward", 3.41e38, "ValueError: reward is beyond 3.4e38: must be finite in float32"),
        ("reward", 10**400, "ValueError: reward is beyond 3.4e38"),
        ("reward", "1", "TypeError: reward is '1': must be a number"),
        ("reward", None, "TypeError: reward is None: must be a number"),
        ("reward", torch.ones(2), "TypeError: reward is a Tensor: must be a number"),
        ("done", "no", "TypeError: done is 'no': must be True or False"),
        ("done", None, "TypeError: done is None: must be True or False"),
        ("observation", None, "TypeError: observation is None: must be a text"),
        ("observation", b"ab", "TypeError: observation is b'ab': must be a text"),
        ("observation", "a\ud800", r"ValueError: observation holds '\\ud800', a lone surrogate"),
        ("closing", None, "TypeError: closing is None: must be a text"),
        ("anchor", ("a", 1), r"TypeError: anchor is \('a', 1\): must be a text"),
        ("anchor", "\udc80", "ValueError: anchor holds"),
        ("seat", "left", "TypeError: seat is 'left': must be an integer"),
    ],
)
def test_a_turn_of_other_types_is_a_broken_environment(entry, value, why):
    found = answered(**{entry: value})

    assert isinstance(found, EnvironmentFailure)
    with pytest.raises(ValueError, match=why):
        raise ValueError(found.reason)


def test_numbers_of_numpy_and_torch_are_plain_ones():
    found = answered(reward=np.float32(0.5), done=np.bool_(True), seat=np.int64(1))

    assert found == Turn(reward=0.5, done=True, seat=1)
    assert [type(each) for each in (found.reward, found.done, found.seat)] == [float, bool, int]
    assert type(answered(reward=torch.tensor(2.0)).reward) is float
    assert answered(reward=True) == Turn(reward=1.0)
    assert answered(reward=3.4e38).reward == 3.4e38


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (["a"], r"TypeError: facts returned \['a'\]: must be numbers by name"),
        ({"a": "x"}, r"TypeError: facts\['a'\] is 'x': must be a number"),
        ({"a": float("inf")}, r"ValueError: facts\['a'\] is beyond 3.4e38"),
        ({3: 1.0}, "TypeError: a name of facts is 3: must be a text"),
        ({"": 1.0}, "ValueError: facts holds a number without a name"),
        ({str(n): 1.0 for n in range(65)}, "ValueError: facts returned 65 numbers: must be at"),
    ],
)
def test_facts_that_are_no_numbers_are_a_broken_environment(facts, why):
    host = InProcessHosts().host(lambda: World(facts=facts))
    host.open([Start(Example("a", "", ""), seed=0)])

    (found,) = host.facts()

    assert isinstance(found, EnvironmentFailure)
    with pytest.raises(ValueError, match=why):
        raise ValueError(found.reason)


@pytest.mark.parametrize(
    ("stops", "why"),
    [
        ("</a>", "stops is '</a>': must be a tuple of texts, such as"),
        (None, "stops is None: must be a tuple of texts"),
        ((">", ""), "an empty text would end a turn anywhere"),
        ((3,), "an entry of stops is 3: must be a text"),
        (("\ud800",), "an entry of stops holds"),
    ],
)
def test_texts_that_cannot_end_a_turn_are_refused(stops, why):
    class Odd(World):
        pass

    Odd.stops = stops

    with pytest.raises(ConfigError, match=rf"cannot be made: .*{why}"):
        InProcessHosts().host(Odd)


@pytest.mark.parametrize("name", ["reset", "step", "facts", "close"])
def test_an_environment_without_a_method_is_refused_when_it_is_made(name):
    class Lacks(World):
        pass

    setattr(Lacks, name, None)

    with pytest.raises(ConfigError, match=f"Lacks has no method {name}"):
        InProcessHosts().host(Lacks)


def test_what_an_episode_changes_in_its_example_is_no_others():
    class Takes(World):
        def reset(self, example, seed):
            return Turn(observation=example.columns["left"].pop())

    host = InProcessHosts().host(Takes)
    shared = Example("a", "", "", columns={"left": ["a", "b"]})

    found = host.open([Start(shared, 0), Start(shared, 1)])

    assert [turn.observation for turn in found] == ["b", "b"]
    assert shared.columns["left"] == ["a", "b"]


MODULE = """
import dataclasses, os
import numpy as np
from rlcomp.interfaces.environment import Turn, check_turn

@dataclasses.dataclass(frozen=True, kw_only=True)
class Mine(Turn):
    private: object = None

class Odd:
    stops = (">",)

    def reset(self, example, seed):
        if example.prompt == "raise":
            raise ValueError("no such world")
        return Mine(observation="a", private=object())

    def step(self, action):
        print('["scored", {"forged": 1}, 0, []]')
        os.write(1, b'["scored", {"forged": 1}, 0, []]\\n')
        if action == "raise>":
            raise ValueError("no such thing")
        values = {"nan>": float("nan"), "numpy>": np.float32(0.5)}
        return Mine(reward=values.get(action, 1.0))

    def facts(self):
        return {"missing": float("nan"), "one": np.int64(1)}

    def close(self):
        with open(os.environ["CLOSED"], "a") as file:
            file.write("closed\\n")

class OneText(Odd):
    stops = "</a>"

class Empty(Odd):
    stops = ("",)
"""


@pytest.fixture
def odd(tmp_path, monkeypatch):
    (tmp_path / "odd_world.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CLOSED", str(tmp_path / "closed"))
    return tmp_path


@pytest.fixture
def hosts():
    made = ProcessHosts(num_workers=1, timeout=5.0)
    with closing([made]):
        yield made


def test_odd_values_cross_to_other_processes_as_they_do_inside(odd, hosts):
    for each in (InProcessHosts(), hosts):
        host = each.host(Unbuilt("odd_world.Odd", {}))
        began = host.open([Start(Example("a", "", ""), seed=n) for n in range(3)])
        found = host.step({0: "x>", 1: "nan>", 2: "numpy>"})
        facts = host.facts()
        host.close()

        assert began == [Turn(observation="a")] * 3
        assert (found[0], found[2]) == (Turn(reward=1.0), Turn(reward=0.5))
        assert isinstance(found[1], EnvironmentFailure)
        assert "reward is nan: must be a number" in found[1].reason
        assert facts[0]["one"] == 1.0
        assert np.isnan(facts[0]["missing"])


def test_stops_are_held_to_the_same_in_other_processes(odd, hosts):
    with pytest.raises(ConfigError, match="stops is '</a>': must be a tuple of texts"):
        hosts.host(Unbuilt("odd_world.OneText", {}))
    with pytest.raises(ConfigError, match="an empty text would end a turn anywhere"):
        hosts.host(Unbuilt("odd_world.Empty", {}))


def test_an_environment_that_raises_is_closed_too(odd, hosts):
    host = hosts.host(Unbuilt("odd_world.Odd", {}))
    (odd / "closed").unlink()  # that of the stop texts
    host.open([Start(Example(prompt, "", ""), seed=0) for prompt in ("a", "raise", "b")])
    assert isinstance(host.step({0: "raise>", 2: "x>"})[0], EnvironmentFailure)
    host.close()

    assert (odd / "closed").read_text() == "closed\n" * 3


def test_an_environment_of_gymnasiums_form_is_told_ours():
    class Gym(World):
        def reset(self, seed=None, options=None):
            return "", {}

    with pytest.raises(
        ConfigError, match=r"Gym has Gymnasium's interface.* reset\(example, seed\)"
    ):
        InProcessHosts().host(Gym)


def test_a_tuple_of_gymnasium_is_written_as_a_turn():
    with pytest.raises(TypeError, match=r"Turn\(observation='yes', reward=1.0, done=True\)$"):
        check_turn(("yes", 1.0, True, False, {}))
