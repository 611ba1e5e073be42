"""Continuous batching of transformers samples from the policy, and leaves no trace."""

import logging

import pytest
import torch

from components.sampler_engine import transformers_batching
from components.sampler_engine.transformers_batching import TransformersBatching
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.testing import tiny_policy

from .conftest import request

HOT = Decoding(temperature=0.7)


def rollout(policy, seed=0, **changes):
    given = {"group_size": 4, "max_new_tokens": 12, **changes}
    return policy.generate([[3, 4, 5], [6]], generator=torch.Generator().manual_seed(seed), **given)


def make_policy():
    policy = tiny_policy(scale=4.0, num_hidden_layers=2, context_length=64, decoding=HOT)
    policy.sampler_engine = TransformersBatching()
    return policy


def test_its_log_probs_are_the_policys_and_its_rows_depend_on_the_seed_alone(caplog):
    policy = make_policy()
    state, attention = torch.get_rng_state(), policy.model.config._attn_implementation

    rows, again, other = rollout(policy), rollout(policy), rollout(policy, seed=1)

    mask = rows["response_mask"]
    gap = (policy.log_probs(rows) - rows["rollout_log_probs"])[mask]
    assert float(gap.detach().abs().max()) < 1e-5
    assert torch.equal(rows["tokens"], again["tokens"])
    assert not torch.equal(rows["tokens"], other["tokens"])
    assert rows["tokens"][:, 0].tolist() == [3] * 4 + [6] * 4
    assert not bool((rows["tokens"][mask] == 0).any())  # <pad>
    last = rows["attention_mask"].sum(1) - 1
    ended = rows["tokens"].gather(1, last[:, None])[:, 0] == 1
    assert torch.equal(rows["truncated"], ~ended)
    assert {*ended.tolist()} == {True, False}
    assert int(mask.sum(1).max()) == 12
    assert torch.equal(state, torch.get_rng_state())
    assert policy.model.config._attn_implementation == attention
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []
    assert logging.getLogger("ContinuousBatchingLogger").level != logging.ERROR


def test_a_greedy_policy_takes_the_likeliest_token_with_probability_one():
    policy, own = make_policy(), make_policy()
    own.sampler_engine = None
    greedy = {"decoding": Decoding(temperature=0.0), "group_size": 1, "max_new_tokens": 5}

    rows, expected = rollout(policy, **greedy), rollout(own, **greedy)

    assert torch.equal(rows["tokens"], expected["tokens"])
    assert torch.equal(rows["rollout_log_probs"], expected["rollout_log_probs"])


def test_on_a_cpu_the_cache_has_the_pages_that_all_rows_need():
    """Two rows each of 2 + 3 and of 1 + 3 tokens."""
    model = make_policy().model

    for size, pages in ((4, 2 * (2 + 1)), (5, 2 * (1 + 1)), (1, 2 * (5 + 4))):
        assert TransformersBatching(page_size=size)._pages(request(), model) == pages
    assert TransformersBatching(num_blocks=7)._pages(request(), model) == 7
    assert TransformersBatching()._pages(request(max_new_tokens=254), model) == 2 * (1 + 1)
    assert TransformersBatching()._pages(request(max_new_tokens=255), model) == 2 * (2 + 1)

    class OnGpu:
        device = torch.device("cuda")

    assert TransformersBatching()._pages(request(), OnGpu()) is None


def test_filters_reach_the_generation_config():
    config = transformers_batching._config(
        request(decoding=Decoding(temperature=0.5, top_k=3, top_p=0.9, min_p=0.1), stops=[1, 4])
    )

    assert (config.temperature, config.top_k, config.top_p, config.min_p) == (0.5, 3, 0.9, 0.1)
    assert config.do_sample is True
    assert config.eos_token_id == [1, 4]
    assert config.suppress_tokens == [0]
    assert config.max_new_tokens == 3


@pytest.mark.parametrize("decoding", [Decoding(top_p=0.9), Decoding(top_k=2, replay=True)])
def test_truncated_sampling_is_refused(decoding):
    TransformersBatching().check(HOT, None)
    with pytest.raises(ConfigError, match="subset of the tokens that it does not return"):
        TransformersBatching().check(decoding, None)


def test_lost_and_failed_responses_stop_the_run(monkeypatch):
    policy = make_policy()

    class Broken:
        error, generated_tokens, logprobs = "out of pages", [1], [0.0]

    for found, message in (
        ({}, "gave 0 responses of 8"),
        (dict.fromkeys(range(8), Broken()), "out of pages"),
    ):
        monkeypatch.setattr(policy.model, "generate_batch", lambda *_, f=found, **__: f)
        with pytest.raises(RlcompError, match=message):
            rollout(policy)
