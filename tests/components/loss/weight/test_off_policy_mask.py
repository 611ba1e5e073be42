import pytest
import torch

from components.loss.weight.importance import OffPolicyMask
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")


def batch():
    # rollout - log_probs: means 0.6 (of 1.2 and 0) | 0.4 | 0.6, of a good answer.
    return make_batch(
        response_mask=[[True, False, True], [True, True, False], [True] * 3],
        log_probs=[[-2.2, NAN, -1.0], [-1.4, -1.4, NAN], [-1.6, -1.6, -1.6]],
        rollout_log_probs=[[-1.0, NAN, NAN], [-1.0, -1.0, NAN], [-1.0] * 3],
        advantage=[[-1.0] * 3, [-1.0] * 3, [1.0] * 3],
    )


def test_bad_answers_left_behind_are_dropped():
    weight = OffPolicyMask(delta=0.5)(batch())["token_weight"]

    assert weight.tolist() == [[0, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_an_answer_the_policy_likes_more_than_the_sampler_is_kept():
    rows = batch()
    rows["log_probs"] = torch.zeros(3, 3)

    assert OffPolicyMask(delta=0.0)(rows)["token_weight"].sum().item() == 7


def test_an_infinite_delta_keeps_everything():
    weight = OffPolicyMask(delta=1e30)(batch())["token_weight"]

    assert weight.bool().tolist() == batch()["response_mask"].tolist()


def test_each_token_s_own_advantage_decides():
    rows = batch()
    rows["advantage"] = torch.tensor([[-1.0, 0.0, 2.0], [0.0] * 3, [0.0] * 3])

    assert OffPolicyMask(delta=0.5)(rows)["token_weight"][0].tolist() == [0, 0, 1]


def test_the_dropped_share_is_recorded():
    with recording() as ledger:
        OffPolicyMask(delta=0.5)(batch())

    assert ledger.means() == {"weight/dropped_off_policy": pytest.approx(2 / 7)}
