import pytest

from components.environment.control import CartPole
from components.intervention import FunctionIntervention
from components.worlds.point_maze.reach import Reach
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch


def asked(function):
    environment = Reach(num_envs=2, max_steps=9, stride=0.1, radius=0.1)
    batch = make_batch(
        observation=[[0.1, 0.2], [0.3, 0.4]],
        action=[[-1.0, 0.5], [0.25, 0.0]],
    )
    return FunctionIntervention(environment=environment, function=function)(batch)


def test_it_is_asked_for_every_copy_with_what_is_seen_and_proposed():
    calls = []

    batch = asked(lambda *given: calls.append([given[0], *(part.tolist() for part in given[1:])]))

    near = pytest.approx
    assert calls == [[0, near([0.1, 0.2]), [-1.0, 0.5]], [1, near([0.3, 0.4]), [0.25, 0.0]]]
    assert batch["action"].tolist() == [[-1.0, 0.5], [0.25, 0.0]]
    assert batch["intervened"].tolist() == [[False], [False]]


def test_what_it_answers_is_done_within_bounds():
    batch = asked(lambda copy, seen, action: [-action[0], 7] if copy else None)

    assert batch["action"].tolist() == [[-1.0, 0.5], [-0.25, 1.0]]
    assert batch["intervened"].tolist() == [[False], [True]]


@pytest.mark.parametrize("answer", [[1.0], [[1.0, 2.0]], ["a", "b"], [1.0, float("nan")], False])
def test_what_is_no_action_is_told(answer):
    with pytest.raises(ConfigError, match=r"intervention is .*an action of 2 finite numbers"):
        asked(lambda *_: answer)


def test_numbered_actions_have_no_intervener():
    with pytest.raises(ConfigError, match="bounded"):
        FunctionIntervention(
            environment=CartPole(num_envs=1, max_steps=9), function=lambda *_: None
        )
