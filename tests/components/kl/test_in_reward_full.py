from functools import partial

import pytest
import torch

from components.kl import KLInRewardFull
from components.kl_controller import FixedKL
from components.reference.frozen import FrozenReference
from rlcomp.engine.decoding import Decoding
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import answer_prompts

make_policy = partial(tiny_policy, "abc", decoding=Decoding(temperature=0.8))


def change(policy):
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(torch.randn(parameter.shape))


def rollout(policy):
    generator = torch.Generator().manual_seed(0)
    return answer_prompts(policy, ["ab", "c"], group_size=4, max_new_tokens=5, generator=generator)


def test_the_reward_pays_the_kl_of_the_whole_distribution():
    policy = make_policy()
    reference = FrozenReference(policy=policy, full=True)
    change(policy)
    batch = reference(rollout(policy))
    batch["reward"] = torch.ones(len(batch))

    shaper = KLInRewardFull(policy=policy, controller=FixedKL(kl_coef=0.1))
    with recording() as ledger:
        reward = shaper(batch.copy())["reward"]

    with torch.no_grad():
        own, ref = policy.log_distribution(batch), batch["ref_log_distribution"]
    wanted = torch.ones(len(batch))
    for row, token in batch["response_mask"].nonzero().tolist():
        p, q = own[row, token], ref[row, token]
        wanted[row] -= 0.1 * sum(
            float(p[v].exp() * (p[v] - q[v])) for v in range(len(p)) if p[v] > -1e30
        )
    torch.testing.assert_close(reward, wanted, atol=1e-5, rtol=0)
    assert bool((reward < 1).all())
    tokens = len(batch["response_mask"].nonzero())
    assert ledger.means()["kl/in_reward"] == pytest.approx(
        float((1 - wanted).sum()) / 0.1 / tokens, abs=1e-4
    )


def test_greedy_answers_pay_nothing_and_the_others_what_they_would():
    policy = make_policy()
    reference = FrozenReference(policy=policy, full=True)
    change(policy)
    batch = reference(rollout(policy))
    batch["reward"] = torch.ones(len(batch))
    shaper = KLInRewardFull(policy=policy, controller=FixedKL(kl_coef=0.1))
    paid = shaper(batch.copy())["reward"]
    greedy = torch.tensor([False, True, True, False, False, False, True, False])

    reward = shaper(batch.set("greedy", greedy))["reward"]

    assert bool((paid < 1).all())
    assert reward.tolist() == [1.0 if g else p for g, p in zip(greedy, paid.tolist(), strict=True)]


def test_at_the_reference_itself_the_reward_is_whole():
    policy = make_policy()
    batch = FrozenReference(policy=policy, full=True)(rollout(policy))
    batch["reward"] = torch.ones(len(batch))

    shaper = KLInRewardFull(policy=policy, controller=FixedKL(kl_coef=0.1))

    torch.testing.assert_close(shaper(batch)["reward"], torch.ones(8), atol=1e-6, rtol=0)


def test_the_policy_is_no_part_of_the_reward():
    shaper = KLInRewardFull(policy=make_policy(), controller=FixedKL(kl_coef=0.1))

    assert not list(shaper.parameters())
    assert list(shaper.state_dict()) == ["controller.kl_coef"]


def test_the_reward_has_no_graph():
    policy = make_policy()
    batch = FrozenReference(policy=policy, full=True)(rollout(policy))
    batch["reward"] = torch.ones(len(batch))
    batch["ref_log_distribution"].requires_grad_()

    with torch.enable_grad():
        shaped = KLInRewardFull(policy=policy, controller=FixedKL(kl_coef=0.1))(batch)["reward"]

    assert not shaped.requires_grad
