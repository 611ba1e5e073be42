import pytest

from components.worlds.addition.task import Addition
from components.worlds.hops.task import Hops
from components.worlds.planted_calls.task import PlantedCalls
from rlcomp.errors import ConfigError


def test_some_demonstrations_begin_with_a_call_and_all_else_is_the_other_tasks():
    task, planted = Hops(letters="bcdf"), PlantedCalls(task=Hops(letters="bcdf"), says="no")
    calls = 0
    for index in range(400):
        plain, example = task.example(index), planted.example(index)
        here = example.turns[: len(example.turns) - len(plain.turns)]
        calls += bool(here)

        assert here in ((), ("<idle></idle>", "<information>no</information>"))
        assert example.turns[len(here) :] == plain.turns
        assert example.demonstration == "".join(example.turns)
        assert (example.prompt, example.answer) == (plain.prompt, plain.answer)
        assert example == planted.example(index)
    # Half of 400, within four standard deviations of 10.
    assert 160 < calls < 240
    assert (len(planted), planted.held_out) == (len(task), task.held_out)


def test_never_and_always():
    assert not any(
        "idle" in PlantedCalls(task=Hops(), often=0.0).example(n).demonstration for n in range(20)
    )
    told = PlantedCalls(task=Hops(), often=1.0, tool="x").example(0).turns[:2]
    assert told == ("<x></x>", "<information></information>")


def test_a_task_without_turns_is_refused():
    with pytest.raises(ConfigError, match="no turns: set task=hops"):
        PlantedCalls(task=Addition(digits=1)).example(0)
