import torch
from tensordict import TensorDict

from components.evaluator.episodes import ActionTokenSuccess
from components.worlds.point_maze.reach import Reach
from rlcomp.metrics import recording

COPIES = 200


class Some:
    """Policy that reaches the goal in 150 of 200 copies sampled, and in 50 greedily."""

    observation_size = 0

    def __init__(self):
        self.starts = []

    def act(self, seen, generator):
        self.starts.append(seen["observation"])
        going = (torch.arange(COPIES) < (50 if generator is None else 150)).float()[:, None]
        self.towards = going * (seen["desired_goal"] - seen["observation"]) / 2
        return torch.zeros(COPIES, 2, dtype=torch.int64), torch.zeros(COPIES, 2)

    def decode_action(self, tokens):
        return self.towards


def evaluated(name="evaluation"):
    # A stride of 2 reaches every goal of the square.
    environment = Reach(num_envs=COPIES, max_steps=2, stride=2.0, radius=1e-3)
    policy = Some()
    evaluator = ActionTokenSuccess(
        environment=environment, policy=policy, goal_reward=0.0, name=name
    )
    with recording() as ledger:
        evaluator(TensorDict({}, batch_size=[]))
    return ledger.means(), policy.starts


def test_sampled_and_greedy_actions_are_recorded_apart():
    told, _ = evaluated()

    assert told == {"evaluation/success": 0.75, "evaluation/greedy_success": 0.25}


def test_both_are_of_the_same_starts_in_every_evaluation():
    _, (drawn, _, greedy, _) = evaluated()
    _, (again, *_) = evaluated()

    assert torch.equal(drawn, greedy)
    assert torch.equal(drawn, again)


def test_its_name_is_the_prefix_of_its_metrics():
    assert set(evaluated("held_out")[0]) == {"held_out/success", "held_out/greedy_success"}
