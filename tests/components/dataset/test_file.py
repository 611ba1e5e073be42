import json
from pathlib import Path

import pytest
import torch

from components.dataset import TransitionFile
from components.environment.control import CartPole, Pendulum
from components.worlds.point_maze.reach import Reach
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording


@pytest.fixture
def path(tmp_path):
    steps = [
        {
            "observation": [1.0, 0.0, number],
            "action": [0.5],
            "reward": number,
            "next_observation": [1.0, 0.0, 2.0],
            "terminated": False,
        }
        for number in (1.0, 4.0)
    ]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    return str(tmp_path / "steps.jsonl")


def test_all_steps_are_one_batch_and_are_counted(path):
    made = TransitionFile(path=path, environment=Pendulum(num_envs=1))
    with recording() as ledger:
        batch = made()

    assert batch["observation"][:, 2].tolist() == [1.0, 4.0]
    assert batch["next", "reward"].flatten().tolist() == [1.0, 4.0]
    assert ledger.means() == {"dataset/steps": 2.0, "dataset/reward": 2.5}
    batch["observation"][:] = 0.0
    assert made()["observation"][1, 2] == 4.0
    assert torch.equal(made()["action"], made.steps["action"])


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (
            Reach(num_envs=1, max_steps=5, stride=0.1, radius=0.1),
            r"'observation' has 3 numbers, but .* has 2: set",
        ),
        (CartPole(num_envs=1), "bounded"),
    ],
)
def test_steps_of_another_environment_are_refused(path, environment, told):
    with pytest.raises(ConfigError, match=told):
        TransitionFile(path=path, environment=environment)


def with_actions(path, *actions):
    file = Path(path)
    step = json.loads(file.read_text().splitlines()[0])
    file.write_text("".join(json.dumps({**step, "action": [one]}) + "\n" for one in actions))
    return TransitionFile(path=path, environment=Pendulum(num_envs=1))


def test_actions_lie_within_the_bounds_of_the_environment_but_for_rounding(path):
    # 1e-4 of the width of [-2, 2] is 4e-4.
    assert with_actions(path, -2.00039, 2.00039).steps["action"].numel() == 2


@pytest.mark.parametrize("action", [-2.00041, 2.00041])
def test_actions_outside_the_bounds_are_refused(path, action):
    with pytest.raises(ConfigError, match=rf"step 1 .* action {action:g}, .* in \[-2, 2\]: scale"):
        with_actions(path, 0.0, action)
