import torch
from tensordict.nn import TensorDictModule

from components.evaluator.episodes import GreedySuccess
from components.worlds.point_maze.reach import Reach
from rlcomp.metrics import recording


class Placed(Reach):
    """Three copies: at the goal after one step to the right, after three, and never."""

    def begin(self):
        goal = torch.tensor([[0.1, 0.0], [0.3, 0.0], [0.9, 0.9]])
        return torch.cat([torch.zeros(3, 2), goal], dim=1)


def success(max_steps, episode=10):
    environment = Placed(num_envs=3, max_steps=episode, stride=0.1, radius=0.05)
    policy = TensorDictModule(
        lambda seen: torch.tensor([1.0, 0.0]).expand(len(seen), 2),
        in_keys=["observation"],
        out_keys=["action"],
    )
    part = GreedySuccess(environment=environment, policy=policy, max_steps=max_steps, reward=0.0)
    with recording() as ledger:
        part()
    return round(ledger.means()["evaluation/success"], 4)


def test_the_share_of_copies_that_arrive_is_recorded():
    assert [success(steps) for steps in (1, 2, 3, 5)] == [0.3333, 0.3333, 0.6667, 0.6667]


def test_only_the_first_episode_of_a_copy_counts():
    # Episodes of two steps begin where they began: the second copy never arrives.
    assert success(9, episode=2) == 0.3333
