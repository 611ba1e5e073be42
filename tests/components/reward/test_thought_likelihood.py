import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.advantage.group import GroupMean
from components.advantage.reweighted import Noon
from components.reward.thought import ThoughtLikelihood
from rlcomp.data.examples import prompt_batch
from rlcomp.engine.decoding import Decoding
from rlcomp.interfaces.task import Example
from rlcomp.testing import tiny_policy
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import byte_tokenizer

TOKENIZER = byte_tokenizer()

# Far from uniform.
make_policy = partial(
    tiny_policy,
    tokenizer=TOKENIZER,
    num_hidden_layers=2,
    context_length=64,
    scale=4.0,
    vector_scale=4.0,
)

POLICY = make_policy()


def answered(responses, *, answer="xyz", ends=(1, 2, 3), prompt="ab<think>"):
    """One row a response, EOS included."""
    batch = prompt_batch([Example(prompt, answer, "", ends)] * len(responses))
    return batch.update(encode_rows(TOKENIZER, [prompt] * len(responses), responses))


def log_prob(policy, context, target, tokenizer=TOKENIZER):
    """Return a continuation's log-prob by transformers' forward pass, without the pad token."""
    ids = torch.tensor([tokenizer(context + target)["input_ids"]])
    start = len(tokenizer(context)["input_ids"])
    with torch.no_grad():
        logits = policy.model(input_ids=ids).logits[0].double()
    logits[:, tokenizer.pad_token_id] = -math.inf
    steps = logits.log_softmax(-1)[start - 1 : -1]
    return float(steps.gather(1, ids[0, start:, None]).sum())


@pytest.mark.parametrize(("num_tokens", "target"), [(1, "x"), (2, "xy"), (5, "xyz")])
def test_it_is_the_log_prob_of_the_next_tokens_after_the_thought(num_tokens, target):
    batch = ThoughtLikelihood(policy=POLICY, num_tokens=num_tokens)(
        answered(["so</think>no", "hm, so"])
    )

    expected = [log_prob(POLICY, f"ab<think>{t}</think>", target) for t in ("so", "hm, so")]
    assert batch["reward"].tolist() == pytest.approx(expected, abs=1e-4)
    assert batch["rewards", "thought_likelihood"].equal(batch["reward"])
    assert batch["reward_valid"].all()


@pytest.mark.parametrize("decoding", [Decoding(temperature=0.3), Decoding(top_p=0.2)])
def test_how_the_policy_samples_does_not_matter(decoding):
    batch = answered(["so"])

    result = ThoughtLikelihood(policy=make_policy(decoding=decoding))(batch.copy())

    assert result["reward"].equal(ThoughtLikelihood(policy=make_policy())(batch)["reward"])


REWARD = ThoughtLikelihood(policy=POLICY)


@settings(max_examples=15, deadline=None)
@given(st.text(alphabet="ab {}\\>", max_size=8))
def test_text_after_the_thought_does_not_count(rest):
    batch = REWARD(answered(["so</think>", f"so</think>{rest}"]))

    assert batch["reward"][0].item() == pytest.approx(batch["reward"][1].item(), abs=1e-5)


@pytest.mark.parametrize("logit", [5.5, 5.6])
def test_correct_is_more_than_half_of_the_probability(logit):
    # The logit of x is `logit`, those of the 256 other tokens but the pad token are 0:
    # p = e^logit / (e^logit + 256), more than half from ln 256 = 5.545 on.
    policy = make_policy()
    ids = torch.tensor([TOKENIZER("ab<think>so</think>")["input_ids"]])
    with torch.no_grad():
        state = policy.model.get_decoder()(input_ids=ids).last_hidden_state[0, -1]
        head = policy.model.get_output_embeddings().weight.zero_()
        head[TOKENIZER("x")["input_ids"][0]] = logit * state / state.square().sum()

    result = ThoughtLikelihood(policy=policy)(answered(["so"]))

    assert result["reward"].item() == pytest.approx(logit - math.log(math.exp(logit) + 256))
    assert result["correct"].item() == (logit == 5.6)


def test_half_of_the_probability_is_not_correct():
    # The logits of x and y are 0, of all others -200.
    policy = make_policy()
    ids = torch.tensor([TOKENIZER("ab<think>so</think>")["input_ids"]])
    with torch.no_grad():
        state = policy.model.get_decoder()(input_ids=ids).last_hidden_state[0, -1]
        head = policy.model.get_output_embeddings().weight
        head.copy_((-200 * state / state.square().sum()).expand_as(head))
        head[[TOKENIZER(text)["input_ids"][0] for text in "xy"]] = 0.0

    result = ThoughtLikelihood(policy=policy)(answered(["so"]))

    assert result["reward"].item() == torch.tensor(0.5).log().item()
    assert result["correct"].tolist() == [False]


def test_a_row_that_the_context_cannot_hold_and_an_empty_answer_are_not_valid():
    # ab<think> is 9 tokens, the thought with its end 10 or 18, the target 1: 20 and 28.
    reward = ThoughtLikelihood(policy=make_policy(context_length=20))

    batch = reward(answered(["so</think>", "so and so</think>"]))
    empty = reward(answered(["so</think>"], answer="", ends=()))

    assert batch["reward_valid"].tolist() == [True, False]
    assert batch["reward"][1].item() == 0.0
    assert batch["rewards", "thought_likelihood"][1].item() == 0.0
    assert empty["reward_valid"].tolist() == [False]


def test_no_gradient_flows():
    with torch.enable_grad():
        batch = REWARD(answered(["so"]))

    assert not batch["reward"].requires_grad
    assert not batch["rewards", "thought_likelihood"].requires_grad


def test_the_policy_is_not_part_of_the_reward():
    assert not list(REWARD.parameters())
    assert not REWARD.state_dict()


def test_above_the_group_s_mean_and_clipped_it_is_quiet_stars_reward():
    # Zelikman et al. 2024, arXiv:2403.09629: max(0, log p_j - mean over the thoughts of log p).
    batch = REWARD(answered(["a", "so</think>", "hm", "b c"]))
    batch["group_id"] = torch.zeros(4, dtype=torch.int64)
    scores = [log_prob(POLICY, f"ab<think>{t}</think>", "x") for t in ("a", "so", "hm", "b c")]

    advantage = Noon(advantage=GroupMean())(batch)["advantage"]

    mean = sum(scores) / 4
    first = batch["response_mask"].int().argmax(1)
    result = advantage[torch.arange(4), first].tolist()
    assert result == pytest.approx([max(0.0, score - mean) for score in scores], abs=1e-4)
