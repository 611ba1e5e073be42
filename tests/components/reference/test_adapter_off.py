import pytest
import torch

from components.reference.frozen import AdapterOffReference
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.model.adapters import lora
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_model
from rlcomp.text.answers import answer_prompts
from rlcomp.text.tokenizer import character_tokenizer


def make_policy(*, adapters):
    tokenizer = character_tokenizer(characters="abc")
    model = tiny_model(tokenizer, num_hidden_layers=2)
    if adapters:
        model = lora(model=model, rank=2, alpha=16.0)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.normal_()
    return LanguageModel(model=model, tokenizer=tokenizer, decoding=Decoding())


def rollout(policy):
    generator = torch.Generator().manual_seed(0)
    return answer_prompts(policy, ["ab", "c"], group_size=4, max_new_tokens=5, generator=generator)


def test_reference_is_the_base_model():
    policy = make_policy(adapters=True)
    batch = rollout(policy)

    result = AdapterOffReference(policy=policy)(batch)["ref_log_probs"]

    base = make_policy(adapters=False).log_probs(batch)
    torch.testing.assert_close(result, base, atol=1e-5, rtol=0)
    assert (result - policy.log_probs(batch)).abs().max() > 0.1


def test_policy_still_learns_afterwards():
    policy = make_policy(adapters=True)
    batch = rollout(policy)
    before = policy.log_probs(batch)

    AdapterOffReference(policy=policy)(batch)
    after = policy.log_probs(batch)
    after.sum().backward()

    assert torch.equal(after, before)
    assert any(parameter.grad is not None for parameter in policy.model.parameters())


def test_distance_is_recorded_over_response_tokens():
    policy = make_policy(adapters=True)
    batch = rollout(policy)

    with recording() as ledger:
        result = AdapterOffReference(policy=policy)(batch)

    mask = batch["response_mask"]
    expected = (batch["rollout_log_probs"] - result["ref_log_probs"])[mask].mean()
    assert ledger.means()["kl/reference"] == pytest.approx(float(expected), abs=1e-5)


def test_reference_holds_no_tensor():
    reference = AdapterOffReference(policy=make_policy(adapters=True))

    assert not reference.state_dict()
    assert not list(reference.parameters())


def test_a_policy_without_adapters_is_refused():
    with pytest.raises(ConfigError, match="adapter=lora"):
        AdapterOffReference(policy=make_policy(adapters=False))
