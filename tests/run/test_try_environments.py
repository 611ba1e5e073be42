import pytest

from rlcomp.errors import ConfigErrors
from rlcomp.interfaces.environment import Turn
from rlcomp.run.parts import build
from rlcomp.run.trials import try_environments


class Tuple:
    """Begins as environments of Gymnasium do."""

    stops = (">",)

    def reset(self, example, seed):
        return "guess", {}

    def step(self, action):
        return Turn(done=True)

    def facts(self):
        return {}

    def close(self):
        pass


def test_a_tuple_for_a_turn_is_told_before_the_run():
    nodes = build("recipe=agent", f"environment._target_={__name__}.Tuple")

    with pytest.raises(
        ConfigErrors, match=r"must be a Turn; write return Turn\(observation='guess'"
    ):
        try_environments(nodes)


def test_one_that_begins_is_left_as_it_was():
    nodes = build("recipe=agent")

    try_environments(nodes)

    assert nodes["player"].host.environments == {}
