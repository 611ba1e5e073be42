import copy
from functools import partial

import pytest
import torch

from components.reference.frozen import FrozenReference
from rlcomp.engine.decoding import Decoding
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import answer_prompts

make_policy = partial(tiny_policy, "abc", num_hidden_layers=2, decoding=Decoding(temperature=0.8))


def change(policy):
    with torch.no_grad():
        for parameter in policy.model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape))


def rollout(policy):
    generator = torch.Generator().manual_seed(0)
    return answer_prompts(policy, ["ab", "c"], group_size=4, max_new_tokens=5, generator=generator)


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("rank", [0, 2])
def test_reference_is_the_policy_at_the_start_of_the_phase(tie, rank):
    policy = make_policy(tie_word_embeddings=tie, rank=rank)
    reference = FrozenReference(policy=policy)
    change(policy)

    reference.begin_phase()
    batch = rollout(policy)

    torch.testing.assert_close(
        reference(batch)["ref_log_probs"], batch["rollout_log_probs"], atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("rank", [0, 2])
def test_reference_stays_when_the_policy_changes(tie, rank):
    policy = make_policy(tie_word_embeddings=tie, rank=rank)
    reference = FrozenReference(policy=policy)
    twin = LanguageModel(
        model=copy.deepcopy(policy.model), tokenizer=policy.tokenizer, decoding=policy.decoding
    )
    change(policy)
    batch = rollout(policy)

    result = reference(batch)["ref_log_probs"]

    torch.testing.assert_close(result, twin.log_probs(batch), atol=1e-5, rtol=0)
    assert (result - policy.log_probs(batch)).abs().max() > 0.1


def test_policy_keeps_its_own_weights():
    policy = make_policy()
    reference = FrozenReference(policy=policy)
    change(policy)
    batch = rollout(policy)
    before = policy.log_probs(batch)

    reference(batch)

    assert torch.equal(policy.log_probs(batch), before)


def test_distance_is_recorded_over_response_tokens():
    policy = make_policy()
    reference = FrozenReference(policy=policy)
    change(policy)
    batch = rollout(policy)

    with recording() as ledger:
        result = reference(batch)

    mask = batch["response_mask"]
    expected = (batch["rollout_log_probs"] - result["ref_log_probs"])[mask].mean()
    assert ledger.means()["kl/reference"] == pytest.approx(float(expected), abs=1e-5)


def test_reference_gives_no_gradient():
    policy = make_policy()

    assert not FrozenReference(policy=policy)(rollout(policy))["ref_log_probs"].requires_grad


def test_policy_is_not_part_of_the_reference():
    reference = FrozenReference(policy=make_policy())

    assert not list(reference.parameters())
    assert list(reference.children()) == [reference.copied]
    assert not list(reference.copied.children())
    assert all("/" in name for name in reference.state_dict())


def test_with_adapters_only_they_are_copied():
    policy = make_policy(rank=2)
    reference = FrozenReference(policy=policy)

    trainable = sum(v.numel() for v in policy.model.parameters() if v.requires_grad)
    assert sum(buffer.numel() for buffer in reference.buffers()) == trainable
    assert trainable < sum(v.numel() for v in policy.model.parameters()) / 2


def test_tied_weights_are_copied_once():
    policy = make_policy(tie_word_embeddings=True)

    copied = sum(buffer.numel() for buffer in FrozenReference(policy=policy).buffers())

    assert copied == sum(value.numel() for value in policy.model.parameters())


def test_state_travels_in_a_checkpoint():
    policy = make_policy()
    reference = FrozenReference(policy=policy)
    state = copy.deepcopy(reference.state_dict())
    batch = rollout(policy)
    expected = reference(batch)["ref_log_probs"]
    change(policy)
    restored = FrozenReference(policy=policy)

    restored.load_state_dict(state)

    torch.testing.assert_close(restored(batch)["ref_log_probs"], expected)


def test_without_rollouts_there_is_no_distance_to_record():
    policy = make_policy()
    batch = rollout(policy).exclude("rollout_log_probs")

    with recording() as ledger:
        result = FrozenReference(policy=policy)(batch)

    assert "ref_log_probs" in result.keys()
    assert not ledger.means()
