"""Credit of traces: a trace as one row, and cut into one row a call, teach the same."""

import pytest
import torch

from components.advantage.group import GroupMean, GroupMeanStd, LeaveOneOut
from components.advantage.turns import MTGRPO, GiGPO, TurnReturn
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.reward.episode import EpisodeReturn
from components.reward_check import RewardCheck
from rlcomp.engine.session import TurnSample
from rlcomp.episodes.episode import Episode, EpisodeTurn, episode_rows
from rlcomp.interfaces.turns import last_rows
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy

# Two groups of two episodes: how many calls, and what each was paid.
PAID = [[0.0, 0.0, 1.0], [0.5], [0.0, 0.25], [0.0, 0.0, 0.0, 1.0]]


@pytest.fixture(scope="module")
def policy():
    return tiny_policy("abcd", context_length=32).double()


def whole(policy):
    """One row an episode."""
    draw = torch.Generator().manual_seed(1)
    made = []
    for paid in PAID:
        episode = Episode([2, 3])
        for number, reward in enumerate(paid):
            if number:
                episode.set_observation([*episode.ids, 4], "c")
            ids = torch.randint(2, 6, (2,), generator=draw).tolist()
            episode.append_turn(TurnSample(ids, [-1.4, -1.4], False), "", "here")
            episode.turns[-1].reward, episode.turns[-1].number = reward, number
        made.append(episode)
    return made


def cut(episode):
    """One row for each of its calls, which reads what came before."""
    for turn in episode.turns:
        row = Episode(episode.ids[: turn.end])
        row.trained = [turn.start <= place for place in range(turn.end)]
        row.log_probs = [
            each if t else 0.0 for each, t in zip(episode.log_probs, row.trained, strict=False)
        ]
        row.turns = [EpisodeTurn(turn.start, turn.end, turn.anchor, turn.reward, turn.number)]
        row.sampling_masks = [None]
        yield row


def batch_of(policy, rows, owner):
    batch = episode_rows(
        rows, policy.tokenizer, group_size=1, version=0, device=torch.device("cpu")
    )
    batch["trajectory_id"] = torch.tensor(owner)
    batch["group_id"] = torch.tensor(owner) // 2
    return batch


def both(policy):
    episodes = whole(policy)
    pieces = [[*cut(each)] for each in episodes]
    owner = [number for number, each in enumerate(pieces) for _ in each]
    parts = [row for each in pieces for row in each]
    return batch_of(policy, episodes, range(4)), batch_of(policy, parts, owner)


def of_turns(batch):
    """The advantage of each sampled token, by episode, number of the call and token."""
    advantages = {}
    for row, place in batch["response_mask"].nonzero().tolist():
        episode, call = int(batch["trajectory_id"][row]), int(batch["turn_id"][row, place])
        token = sum(key[:2] == (episode, call) for key in advantages)
        advantages[episode, call, token] = float(batch["advantage"][row, place])
    return advantages


def gradient(policy, batch):
    batch["old_log_probs"] = batch["rollout_log_probs"].double()
    policy.zero_grad()
    scored = policy(batch)
    loss = PolicyLoss(ratio=TokenRatio(), trust_region=Clip(), reduction=TokenMean())
    loss(scored)["loss"].backward()
    return torch.cat([weight.grad.flatten() for weight in policy.weights().values()])


ESTIMATORS = [
    *(GroupMean(), GroupMeanStd(), LeaveOneOut(), GiGPO(outcome=False)),
    *(MTGRPO(), TurnReturn(outcome=False)),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_a_trace_split_into_calls_has_the_same_gradient(estimator, policy):
    one, many = both(policy)
    with recording() as ledger:
        one = estimator(EpisodeReturn()(one))
    with recording() as other:
        many = estimator(EpisodeReturn()(many))

    expected = of_turns(one)
    assert len(one) == 4 < len(many) == 10
    assert of_turns(many) == pytest.approx(expected, abs=1e-6)
    assert any(abs(value) > 0.1 for value in expected.values())
    advantages = [gradient(policy, batch) for batch in (one, many)]
    torch.testing.assert_close(*advantages, atol=1e-7, rtol=1e-6)
    # Statistics are those of episodes: 1, .5, .25 and 1.
    assert ledger.means()["reward/mean"] == other.means()["reward/mean"] == 2.75 / 4


def test_checks_count_an_episode_once(policy):
    _, many = both(policy)
    many["reward"] = many["trajectory_id"].eq(0).float()
    many["reward_valid"] = many["trajectory_id"] != 0

    with recording() as ledger:
        RewardCheck(max_invalid_fraction=0.25)(many)

    # One of four episodes is invalid, though three of ten rows are: the run goes on. Of its group
    # one episode is left, which is no group that could vary.
    assert ledger.means()["groups/zero_variance"] == 1.0
    assert ledger.means()["groups/unjudged"] == 0.0


def test_the_last_row_of_an_episode_has_its_last_call(policy):
    one, many = both(policy)
    shuffled = torch.randperm(10, generator=torch.Generator().manual_seed(0))

    assert last_rows(one).tolist() == [0, 1, 2, 3]
    # Rows of 3, 1, 2 and 4 calls.
    assert last_rows(many).tolist() == [2, 3, 5, 9]
    assert shuffled[last_rows(many[shuffled])].tolist() == [2, 3, 5, 9]
