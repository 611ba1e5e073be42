import pytest
import torch
import torch.nn.functional as F

import rlcomp.model.causal_forward
from components.old_log_probs import RecomputedMoments
from rlcomp.engine.decoding import Decoding, sampling_log_probs
from rlcomp.engine.logprob import squared_probs
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import answer_prompts
from rlcomp.text.rows import encode_rows


def rollout(policy):
    generator = torch.Generator().manual_seed(0)
    return answer_prompts(
        policy, ["1+", "23", "7"], group_size=2, max_new_tokens=4, generator=generator
    )


def test_the_second_moment_is_that_of_the_distribution_that_samples():
    # Temperature 2 and the barred pad token, by the sampler's own log-probs at every place.
    policy = tiny_policy(decoding=Decoding(temperature=2.0))
    batch = RecomputedMoments(policy=policy)(rollout(policy))

    with torch.no_grad():
        logits = policy.model(input_ids=batch["tokens"]).logits
    suppressed = torch.arange(logits.shape[-1]) == policy.tokenizer.pad_token_id
    probs = sampling_log_probs(logits.flatten(0, 1), policy.decoding, suppressed).exp()
    moments = F.pad((probs**2).sum(-1).view(batch["tokens"].shape)[:, :-1], (1, 0))
    want = torch.where(batch["response_mask"], moments, 0)
    torch.testing.assert_close(batch["squared_probs"], want)
    assert bool((batch["squared_probs"] < 1).all())


def test_on_policy_the_log_probs_are_those_the_sampler_recorded():
    policy = tiny_policy()
    batch = rollout(policy)

    result = RecomputedMoments(policy=policy)(batch)

    torch.testing.assert_close(result["old_log_probs"], batch["rollout_log_probs"])


def test_how_far_the_sampler_was_off_is_recorded():
    policy = tiny_policy()
    batch = encode_rows(policy.tokenizer, ["1+", "23"], ["123", "4"])
    # Off by 0.5 in the first row, of 4 tokens with EOS, and by -0.2 in the second, of 2.
    off = torch.tensor([[0.5], [-0.2]])
    batch["rollout_log_probs"] = policy.log_probs(batch).detach() + off

    with recording() as ledger:
        RecomputedMoments(policy=policy)(batch)

    assert ledger.means()["old_log_probs/sampler_gap"] == pytest.approx(2.4 / 6, abs=1e-5)


def test_a_token_without_a_recorded_log_prob_is_not_in_the_distance():
    policy = tiny_policy()
    batch = encode_rows(policy.tokenizer, ["1+"], ["123"])
    batch["rollout_log_probs"] = policy.log_probs(batch).detach() + 0.5
    batch["rollout_log_probs"][0, -1] = torch.nan

    with recording() as ledger:
        RecomputedMoments(policy=policy)(batch)

    assert ledger.means()["old_log_probs/sampler_gap"] == pytest.approx(0.5, abs=1e-5)


def test_a_large_batch_is_read_in_pieces_without_gradient(monkeypatch):
    policy = tiny_policy()
    batch = rollout(policy)
    whole = policy.squared_probs(batch)
    monkeypatch.setattr(rlcomp.model.causal_forward, "_NO_GRAD_TOKENS", 8)

    with torch.enable_grad():
        pieces = policy.squared_probs(batch)

    torch.testing.assert_close(pieces, whole)
    assert not pieces.requires_grad


def test_squares_of_kept_tokens_only():
    # Of 2 2 0 top-k keeps the first two: 1/4 + 1/4; barring the first leaves the second: 1.
    logits, taken = torch.tensor([[2.0, 2.0, 0.0]]), torch.tensor([1])

    kept = squared_probs(logits, taken, Decoding(top_k=2))
    suppressed = squared_probs(logits, taken, Decoding(top_k=1), torch.tensor([True, False, False]))

    assert kept.tolist() == [0.5]
    assert suppressed.tolist() == [1.0]


def test_a_greedy_distribution_is_a_point():
    logits = torch.tensor([[2.0, 2.0, 0.0]])

    assert squared_probs(logits, torch.tensor([1]), Decoding(temperature=0.0)).tolist() == [1.0]
