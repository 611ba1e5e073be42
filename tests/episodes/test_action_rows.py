import torch

from rlcomp.episodes.action_rows import ActsInTokens, play_rows
from rlcomp.interfaces.batched_environment import BatchedEnvironment


class Walk(BatchedEnvironment):
    """Steps of 1 along a line; the goal is where the state is 0 or more: reward 0 there, else -1.

    Copy 3 falls off (terminates) at -8.
    """

    size, action = 1, (-1.0, 1.0)

    def begin(self):
        return torch.tensor([[-1.0], [-3.0], [-5.0], [-7.0]])

    def advance(self, state, action):
        after = state + action
        return after, torch.where(after[:, 0] >= 0, 0.0, -1.0), after[:, 0] <= -8

    def observe(self, state):
        return state.clone()


class Constant:
    """Tokens: the place + 20, then 1 or 0; steps right, copy 3 left; log-prob -place / 10."""

    observation_size = 1

    def act(self, seen, generator):
        place = seen["observation"]
        right = torch.tensor([[1], [1], [1], [0]])
        return torch.cat([place.long() + 20, right], dim=1), place / 10

    def decode_action(self, tokens):
        return tokens[:, 1:].float() * 2 - 1


def played():
    environment = Walk(num_envs=4, max_steps=4)
    return play_rows(environment, Constant(), environment.begin_groups(1), None, 0.0)


def test_rows_end_with_success_with_the_episode_or_where_it_is_cut():
    rows = played()

    # Goals after 1 and 3 steps; copy 2 needs 5 of 4; copy 3 falls off in its first.
    assert rows["attention_mask"].sum(1).tolist() == [2, 6, 8, 2]
    assert rows["response_mask"].sum(1).tolist() == [1, 3, 4, 1]
    assert rows["tokens"].tolist() == [
        [19, 1, 0, 0, 0, 0, 0, 0],
        [17, 1, 18, 1, 19, 1, 0, 0],
        [15, 1, 16, 1, 17, 1, 18, 1],
        [13, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert rows["turn_id"].tolist()[1] == [-1, 0, -1, 1, -1, 2, -1, -1]
    assert rows["truncated"].tolist() == [False, False, True, True]
    assert rows["trajectory_id"].tolist() == [0, 1, 2, 3]


def test_success_is_paid_at_the_last_token_of_its_step():
    rows = played()

    assert rows["turn_reward"].tolist() == [
        [0, 1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 0, 0],
        [0] * 8,
        [0] * 8,
    ]


def test_log_probs_stand_at_the_tokens_of_actions_only():
    recorded = played()["rollout_log_probs"]

    expected = torch.tensor([0, -0.3, 0, -0.2, 0, -0.1, 0, 0])
    torch.testing.assert_close(recorded[1], expected)
    assert recorded[0].tolist()[2:] == [0.0] * 6


def test_a_policy_in_tokens_is_known_by_what_it_does():
    assert isinstance(Constant(), ActsInTokens)
