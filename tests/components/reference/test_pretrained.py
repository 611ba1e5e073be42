import pytest
import torch

from components.reference.frozen import PretrainedReference
from rlcomp.engine.decoding import Decoding
from rlcomp.metrics import recording
from rlcomp.testing import check_component, tiny_model, tiny_policy
from rlcomp.text.answers import answer_prompts


def policy(seed):
    return tiny_policy("abc", seed=seed, scale=2.0, decoding=Decoding(temperature=0.8))


def rollout(of):
    draw = torch.Generator().manual_seed(0)
    return answer_prompts(of, ["ab", "c"], group_size=4, max_new_tokens=5, generator=draw)


def test_it_keeps_the_contract():
    own = tiny_policy()
    check_component(PretrainedReference(policy=own, model=tiny_model(own.tokenizer)))


def test_it_scores_as_the_policy_of_that_model_would():
    own, other = policy(0), policy(1)
    batch = rollout(own)

    found = PretrainedReference(policy=own, model=other.model)(batch.copy())["ref_log_probs"]

    mask = batch["response_mask"]
    assert not torch.allclose(found[mask], batch["rollout_log_probs"][mask], atol=0.1)
    torch.testing.assert_close(found, other.log_probs(batch).detach())
    assert not found.requires_grad


def test_distance_is_recorded_over_response_tokens():
    own, other = policy(0), policy(1)
    batch = rollout(own)

    with recording() as ledger:
        PretrainedReference(policy=own, model=other.model)(batch.copy())
        PretrainedReference(policy=own, model=other.model)(batch.exclude("rollout_log_probs"))

    rows = zip(
        batch["rollout_log_probs"].tolist(),
        other.log_probs(batch).tolist(),
        batch["response_mask"].tolist(),
        strict=True,
    )
    apart = [a - b for row in rows for a, b, own in zip(*row, strict=True) if own]
    assert ledger.means() == {"kl/reference": pytest.approx(sum(apart) / len(apart), abs=1e-5)}


def test_it_is_not_trained_and_the_policy_is_not_part_of_it():
    own, other = policy(0), policy(1)

    reference = PretrainedReference(policy=own, model=other.model)

    assert not any(parameter.requires_grad for parameter in reference.parameters())
    assert {id(one) for one in reference.parameters()} == {id(p) for p in other.model.parameters()}
    assert all(parameter.requires_grad for parameter in own.model.parameters())
