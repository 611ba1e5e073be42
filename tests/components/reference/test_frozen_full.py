from functools import partial

import torch

from components.reference.frozen import FrozenReference
from rlcomp.component import limit_outputs
from rlcomp.engine.decoding import Decoding
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


def test_the_distribution_holds_the_log_probs_of_what_was_taken():
    policy = make_policy()
    reference = FrozenReference(policy=policy, full=True)
    change(policy)

    batch = reference(rollout(policy))

    whole, mask = batch["ref_log_distribution"], batch["response_mask"]
    taken = whole.gather(-1, batch["tokens"][..., None])[..., 0]
    torch.testing.assert_close(taken[mask], batch["ref_log_probs"][mask])
    torch.testing.assert_close(whole[mask].exp().sum(-1), torch.ones(int(mask.sum())))
    assert not whole[~mask].any()
    assert not whole.requires_grad


def test_beside_it_the_reference_is_the_frozen_one():
    policy = make_policy()
    frozen, full = FrozenReference(policy=policy), FrozenReference(policy=policy, full=True)
    change(policy)
    batch = rollout(policy)

    torch.testing.assert_close(
        full(batch.copy())["ref_log_probs"], frozen(batch.copy())["ref_log_probs"]
    )


def test_the_model_writes_its_distribution_only_where_a_loss_asks_for_it():
    policy = make_policy()
    batch = rollout(policy)

    with limit_outputs(["log_probs"]):
        silent = policy(batch.copy())
    with limit_outputs(["log_probs", "log_distribution"]):
        told = policy(batch.copy())

    assert "log_distribution" not in silent.keys()
    assert told["log_distribution"].requires_grad
    torch.testing.assert_close(told["log_distribution"], policy.log_distribution(batch))
