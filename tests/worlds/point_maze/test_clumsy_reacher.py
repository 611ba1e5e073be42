import torch
from tensordict import TensorDict

from components.worlds.point_maze.experts import ClumsyReacher
from components.worlds.point_maze.reach import Reach
from rlcomp.episodes.action_rows import ActsInTokens
from rlcomp.model.action_tokens import ActionTokenPolicy

POLICY = ActionTokenPolicy(
    environment=Reach(num_envs=1, max_steps=5, stride=0.1, radius=0.05),
    inputs=["observation", "desired_goal"],
    num_cells=[4],
    action_bins=7,
    observation_bins=21,
    low=-1.0,
    high=1.0,
)


def state(point, goal, copies=1):
    seen = {"observation": torch.tensor([point]), "desired_goal": torch.tensor([goal])}
    return TensorDict(seen, batch_size=[1]).expand(copies).clone()


def expert(noise=0.5):
    return ClumsyReacher(policy=POLICY, stride=0.1, gain=0.5, noise=noise)


def test_it_goes_towards_the_goal_in_the_policys_tokens():
    tokens, log_probs = expert().act(state([0.0, 0.5], [0.14, -0.9]), None)

    # .5 * (.14, -1.4) / .1 = (.7, -7): bins 5 and 0 of seven, behind tokens 0..21.
    assert tokens.tolist() == [[11, 16, 12, 2, 27, 22]]
    assert log_probs.tolist() == [[0.0, 0.0]]
    action = expert().decode_action(tokens)
    torch.testing.assert_close(action, torch.tensor([[2 / 3, -1.0]]))
    assert isinstance(expert(), ActsInTokens)


def test_noise_spreads_its_actions():
    there = state([0.0, 0.0], [0.0, 0.0], copies=4000)

    tokens, _ = expert(0.2).act(there, torch.Generator().manual_seed(0))

    # Bin 3 is |noise| < 1/6, a share of 2 Phi(.833) - 1 = .595.
    share = float((tokens[:, 4] == 25).float().mean())
    assert abs(share - 0.595) < 0.03
