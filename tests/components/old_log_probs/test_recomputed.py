import pytest
import torch

from components.old_log_probs.recomputed import Recomputed
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import answer_prompts


def rollout(policy):
    generator = torch.Generator().manual_seed(0)
    return answer_prompts(policy, ["1+", "23"], group_size=2, max_new_tokens=4, generator=generator)


def test_on_policy_the_trainer_repeats_what_the_sampler_recorded():
    policy = tiny_policy()
    batch = rollout(policy)

    torch.testing.assert_close(
        Recomputed(policy=policy)(batch)["old_log_probs"], batch["rollout_log_probs"]
    )


def test_it_is_the_policy_as_it_is_now_without_gradient():
    policy = tiny_policy()
    batch = rollout(policy)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1.5)

    with torch.enable_grad():
        old = Recomputed(policy=policy)(batch)["old_log_probs"]

    torch.testing.assert_close(old, policy(batch)["log_probs"].detach())
    assert not old.requires_grad


def test_how_far_the_sampler_was_off_is_recorded():
    policy = tiny_policy()
    batch = rollout(policy)
    batch["rollout_log_probs"] = batch["rollout_log_probs"] + 0.25

    with recording() as ledger:
        Recomputed(policy=policy)(batch)

    assert ledger.means()["old_log_probs/sampler_gap"] == pytest.approx(0.25, abs=1e-5)


def test_without_rollouts_there_is_no_distance_to_record():
    policy = tiny_policy()
    batch = rollout(policy).exclude("rollout_log_probs")

    with recording() as ledger:
        result = Recomputed(policy=policy)(batch)

    assert "old_log_probs" in result.keys()
    assert not ledger.means()
