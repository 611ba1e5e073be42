import pytest
import torch

from components.collector.steps import ActionEpisodes
from components.worlds.point_maze.reach import Reach
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.model.action_tokens import ActionTokenPolicy
from rlcomp.testing import check_component


def collector(group_size=3, copies=6):
    torch.manual_seed(0)
    environment = Reach(num_envs=copies, max_steps=4, stride=0.5, radius=0.4)
    policy = ActionTokenPolicy(
        environment=environment,
        inputs=["observation", "desired_goal"],
        num_cells=[4],
        action_bins=7,
        observation_bins=200,
        low=-1.0,
        high=1.0,
    )
    return ActionEpisodes(
        environment=environment, policy=policy, group_size=group_size, goal_reward=0.0
    )


def test_the_episodes_of_a_group_start_alike_and_go_on_by_themselves():
    made = collector()
    rows = made()

    start, first_action = rows["tokens"][:, :4], rows["tokens"][:, 4:6]
    assert rows["group_id"].tolist() == [0, 0, 0, 1, 1, 1]
    assert torch.equal(start[:3], start[:1].expand(3, 4))
    assert torch.equal(start[3:], start[3:4].expand(3, 4))
    assert not torch.equal(start[0], start[3])
    assert len(first_action[:3].unique(dim=0)) > 1
    assert rows.batch_size == (6,)
    # The next batch has other starts.
    assert not torch.equal(made()["tokens"][:, :4], start)


def test_what_was_sampled_is_scored_the_same():
    made = collector()
    rows = made()

    torch.testing.assert_close(made.policy(rows.copy())["log_probs"], rows["rollout_log_probs"])


def test_rows_hold_the_version_of_the_weights_or_that_of_a_policy_without_any():
    made = collector()
    made.policy.updated()
    assert made()["policy_version"].unique().tolist() == [1]

    class Acts:
        """What an expert has: it is not updated."""

        def __init__(self, policy):
            self.policy = policy

        def act(self, seen, generator):
            return self.policy.act(seen, generator)

        def decode_action(self, tokens):
            return self.policy.decode_action(tokens)

    without = ActionEpisodes(
        environment=made.environment, policy=Acts(made.policy), group_size=3, goal_reward=0.0
    )
    assert without()["policy_version"].unique().tolist() == [0]


def test_success_and_steps_are_recorded():
    made = collector()
    with recording() as ledger:
        rows = made()

    success = rows["turn_reward"].sum(1)
    acted = rows["response_mask"].sum(1) / 2
    told = ledger.means()
    assert 0 < float(success.mean()) < 1
    assert told["episode/success"] == pytest.approx(float(success.mean()))
    assert told["episode/length"] == pytest.approx(float(acted.mean()))
    assert told["collector/frames"] == float(acted.sum())


def test_rows_tell_which_weights_acted():
    made = collector()
    made.policy.updated()

    assert made()["policy_version"].unique().tolist() == [1]


def test_groups_that_do_not_fit_are_refused_at_once():
    with pytest.raises(ConfigError, match=r"num_envs is 6: must be a multiple of group_size, 4"):
        collector(group_size=4)


def test_it_keeps_the_contract():
    check_component(collector())
