import pytest
import torch
from tensordict import TensorDict

from components.kl import KLInReward
from components.kl_controller import AdaptiveKL, FixedKL
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch


def batch() -> TensorDict:
    return make_batch(
        reward=[1.0, 0.0],
        response_mask=[[True, True], [True, False]],
        old_log_probs=[[-1.0, -2.0], [-1.0, 9.0]],
        ref_log_probs=[[-1.5, -2.3], [-1.0, 0.0]],
    )


def in_reward() -> KLInReward:
    return KLInReward(controller=FixedKL(kl_coef=0.1), estimator="k1")


def test_every_nat_of_the_response_costs_its_price():
    # d = 0.5 + 0.3 in the first row, 0 in the second.
    reward = in_reward()(batch())["reward"]

    torch.testing.assert_close(reward, torch.tensor([0.92, 0.0]))


@pytest.mark.parametrize("key", ["old_log_probs", "ref_log_probs"])
def test_the_reward_has_no_graph_whatever_its_penalty_is_made_of(key):
    rows = batch()
    rows[key] = rows[key].requires_grad_()

    assert not in_reward()(rows)["reward"].requires_grad


def test_the_reward_given_is_not_changed_in_place():
    rows = batch()
    given = rows["reward"]

    in_reward()(rows)

    assert given.tolist() == [1.0, 0.0]


def test_the_kl_of_each_token_and_its_price_are_recorded():
    with recording() as ledger:
        in_reward()(batch())

    assert ledger.means()["kl/in_reward"] == pytest.approx(0.8 / 3)
    assert ledger.means()["kl/coef"] == 0.1


def test_the_price_is_used_then_updated():
    # 0.4 nats a response on average, 4 times the target: the error is clipped to 0.2, and 2 of 10
    # responses of the horizon went by: 0.1 * (1 + 0.2 * 0.2) = 0.104 from the next batch on.
    controller = AdaptiveKL(kl_coef=0.1, target=0.1, unit="sequence", horizon=10)
    shaper = KLInReward(controller=controller, estimator="k1")

    first, second = (shaper(batch())["reward"][0].item() for _ in range(2))

    assert first == pytest.approx(1 - 0.1 * 0.8)
    assert second == pytest.approx(1 - 0.104 * 0.8)


def test_an_estimator_that_differs_in_its_gradient_only_is_refused():
    with pytest.raises(ConfigError, match="estimator is 'k3_plus': must be one of 'k1'"):
        KLInReward(controller=FixedKL(kl_coef=0.1), estimator="k3_plus")


def test_a_greedy_answer_pays_nothing():
    entries = {
        "reward": torch.tensor([1.0, 1.0]),
        "response_mask": torch.ones(2, 1, dtype=torch.bool),
        "old_log_probs": torch.tensor([[-1.0], [-1.0]]),
        "ref_log_probs": torch.tensor([[-3.0], [-3.0]]),
        "greedy": torch.tensor([False, True]),
    }

    part = KLInReward(controller=FixedKL(kl_coef=0.1), estimator="k1")
    reward = part(TensorDict(entries, batch_size=[2]))["reward"]

    # d = 2 nats at 0.1 each; the baseline of ReMax holds no KL.
    assert reward.tolist() == pytest.approx([0.8, 1.0])


def test_it_keeps_the_contract():
    check_component(KLInReward(controller=FixedKL(kl_coef=0.1), estimator="k1"))
