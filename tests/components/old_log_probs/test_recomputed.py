import pytest
import torch

from components.old_log_probs import RecomputedLogProbs
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import answer_prompts
from rlcomp.text.rows import encode_rows


def rollout(policy):
    generator = torch.Generator().manual_seed(0)
    return answer_prompts(policy, ["1+", "23"], group_size=2, max_new_tokens=4, generator=generator)


def test_on_policy_the_trainer_repeats_what_the_sampler_recorded():
    policy = tiny_policy()
    batch = rollout(policy)

    torch.testing.assert_close(
        RecomputedLogProbs(policy=policy)(batch)["old_log_probs"], batch["rollout_log_probs"]
    )


def test_it_is_the_policy_as_it_is_now_without_gradient():
    policy = tiny_policy()
    batch = rollout(policy)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1.5)

    with torch.enable_grad():
        old = RecomputedLogProbs(policy=policy)(batch)["old_log_probs"]

    torch.testing.assert_close(old, policy(batch)["log_probs"].detach())
    assert not old.requires_grad


def test_how_far_the_sampler_was_off_is_recorded():
    policy = tiny_policy()
    batch = encode_rows(policy.tokenizer, ["1+", "23"], ["123", "4"])
    # Off by 0.5 in the first row, of 4 tokens with EOS, and by -0.2 in the second, of 2.
    off = torch.tensor([[0.5], [-0.2]])
    batch["rollout_log_probs"] = policy.log_probs(batch).detach() + off

    with recording() as ledger:
        RecomputedLogProbs(policy=policy)(batch)

    assert ledger.means()["old_log_probs/sampler_gap"] == pytest.approx(2.4 / 6, abs=1e-5)


def test_a_token_without_a_recorded_log_prob_is_not_in_the_distance():
    policy = tiny_policy()
    batch = encode_rows(policy.tokenizer, ["1+"], ["123"])
    batch["rollout_log_probs"] = policy.log_probs(batch).detach() + 0.5
    batch["rollout_log_probs"][0, -1] = torch.nan

    with recording() as ledger:
        RecomputedLogProbs(policy=policy)(batch)

    assert ledger.means()["old_log_probs/sampler_gap"] == pytest.approx(0.5, abs=1e-5)


def test_without_rollouts_there_is_no_distance_to_record():
    policy = tiny_policy()
    batch = rollout(policy).exclude("rollout_log_probs")

    with recording() as ledger:
        result = RecomputedLogProbs(policy=policy)(batch)

    assert "old_log_probs" in result.keys()
    assert not ledger.means()
