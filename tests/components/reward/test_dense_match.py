from functools import partial

import pytest
import torch
from tokenizers import AddedToken

from components.reward.next_token import DenseMatch
from rlcomp.checkpoint.state import owned_tensors
from rlcomp.data.examples import prompt_batch
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.testing import check_component, tiny_policy
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import byte_tokenizer

CONTEXT, TRUTH = "ba", "ab"

# Far from uniform, so that tokens differ in probability. It samples neither at temperature 1 nor
# from everything: the reference does both.
make_policy = partial(
    tiny_policy,
    "abc<think>/\\oxed{}",
    context_length=64,
    scale=3.0,
    vector_scale=3.0,
    decoding=Decoding(temperature=0.5, top_k=2),
)

POLICY = make_policy()


def boxed(prediction):
    return f"</think>\\boxed{{{prediction}}}"


def rows(responses, *, policy=POLICY, groups=None, prompt=CONTEXT + "<think>", answer=TRUTH):
    prompts = [prompt] * len(responses) if isinstance(prompt, str) else prompt
    batch = prompt_batch([Example(text, answer, "", (1, 2)) for text in prompts])
    batch["group_id"] = torch.tensor(groups or [0] * len(responses))
    return batch.update(encode_rows(policy.tokenizer, prompts, responses))


def probability(policy, context, token):
    """By the model's own forward pass."""
    ids = policy.tokenizer(context, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = policy.model(input_ids=ids).logits[0, -1].double()
    # The pad token is never written: it has probability 0.
    logits[policy.tokenizer.pad_token_id] = -torch.inf
    return float(logits.softmax(-1)[policy.tokenizer.convert_tokens_to_ids(token)])


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_a_wrong_prediction_is_worth_its_first_tokens_probability_without_thinking(forward):
    policy = make_policy(engine=Engine(forward=forward))
    responses = [boxed("a"), boxed("ab"), boxed("b"), "ab" + boxed("ca")]

    result = DenseMatch(policy=policy)(rows(responses, policy=policy))

    expected = [1.0, 1.0, probability(policy, CONTEXT, "b"), probability(policy, CONTEXT, "c")]
    assert result["reward"].tolist() == pytest.approx(expected, abs=1e-5)
    assert result["rewards"]["dense_match"].tolist() == result["reward"].tolist()
    assert result["correct"].tolist() == [True, True, False, False]
    assert max(expected[2:]) < 1


def test_the_thought_changes_nothing():
    thoughts = ["", "a", "abc"]

    result = DenseMatch(policy=POLICY)(rows([text + boxed("b") for text in thoughts]))

    assert result["reward"].tolist() == pytest.approx([float(result["reward"][0])] * 3, abs=1e-6)


def test_every_row_is_scored_after_its_own_context():
    contexts = ["a", "bca", "cc"]
    batch = rows([boxed("b")] * 3, prompt=[text + "<think>" for text in contexts])

    result = DenseMatch(policy=POLICY)(batch)["reward"].tolist()

    assert result == pytest.approx([probability(POLICY, text, "b") for text in contexts], abs=1e-5)


@pytest.mark.parametrize("response", ["", "b", boxed(""), "\\boxed{b}", "</think>\\boxed{b"])
def test_no_prediction_is_worth_nothing(response):
    result = DenseMatch(policy=POLICY)(rows([response]))

    assert result["reward"].tolist() == [0.0]
    assert result["reward_valid"].tolist() == [True]


def test_the_first_token_is_the_longest_that_the_prediction_begins_with():
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens([AddedToken("bc")])
    policy = make_policy(tokenizer=tokenizer)
    # "bca" begins with "b" and with "bc"; of "é" a token is the first byte alone.
    batch = rows([boxed("bca"), boxed("éa")], policy=policy)

    result = DenseMatch(policy=policy)(batch)["reward"].tolist()

    tokens = ["bc", tokenizer.tokenize("é")[0]]
    expected = [probability(policy, CONTEXT, token) for token in tokens]
    assert result == pytest.approx(expected, abs=1e-5)
    assert abs(expected[0] - probability(policy, CONTEXT, "b")) > 1e-3


def test_conditional_rewards_wrong_predictions_only_in_a_group_with_a_right_one():
    responses = [boxed("a"), boxed("b"), boxed("b"), boxed("c"), boxed("b")]
    batch = rows(responses, groups=[5, 2, 5, 2, 7])

    result = DenseMatch(policy=POLICY, conditional=True)(batch)["reward"].tolist()

    expected = [1.0, 0.0, probability(POLICY, CONTEXT, "b"), 0.0, 0.0]
    assert result == pytest.approx(expected, abs=1e-5)


def test_scale_weighs_wrong_predictions_only():
    batch = rows([boxed("a"), boxed("b")])

    result = DenseMatch(policy=POLICY, scale=0.25)(batch)["reward"].tolist()

    assert result == pytest.approx([1.0, 0.25 * probability(POLICY, CONTEXT, "b")], abs=1e-5)


def test_left_out_rows_are_worth_nothing():
    batch = rows(["b", boxed("a")])

    result = DenseMatch(policy=POLICY, unanswered="invalid")(batch)

    assert result["reward_valid"].tolist() == [False, True]
    assert result["reward"].tolist() == [0.0, 1.0]


def test_the_reference_is_the_policy_as_the_phase_began():
    policy = make_policy()
    torch.manual_seed(1)
    reward, batch = DenseMatch(policy=policy), rows([boxed("b")])
    change(policy)
    reward.begin_phase()
    began = probability(policy, CONTEXT, "b")

    before = float(reward(batch.copy())["reward"])
    change(policy)
    after = float(reward(batch.copy())["reward"])

    assert before == pytest.approx(began, abs=1e-5)
    assert after == before
    assert abs(after - probability(policy, CONTEXT, "b")) > 0.01


def change(policy):
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))


def test_the_policys_tensors_stay_the_policys():
    reward = DenseMatch(policy=POLICY)
    theirs = {parameter.data_ptr() for parameter in POLICY.parameters()}

    mine = {tensor.data_ptr() for tensor in owned_tensors({"reward": reward}).values()}

    assert mine
    assert not mine & theirs
    assert not list(reward.parameters())


def test_a_prompt_that_does_not_start_a_thought_is_refused():
    with pytest.raises(DataError, match="'ba' does not end with '<think>'"):
        DenseMatch(policy=POLICY)(rows([boxed("b")], prompt=CONTEXT))


def test_without_a_start_of_thinking_the_prompt_is_the_context():
    batch = rows([boxed("b")], prompt=CONTEXT)

    result = float(DenseMatch(policy=POLICY, think_start="")(batch)["reward"])

    assert result == pytest.approx(probability(POLICY, CONTEXT, "b"), abs=1e-5)


def test_a_box_in_the_prompt_is_no_prediction():
    responses = [boxed("a"), "b", ""]

    result = DenseMatch(policy=POLICY)(rows(responses, prompt=boxed("a") + "<think>"))

    assert result["reward"].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("conditional", [False, True])
def test_it_keeps_the_contract(conditional):
    responses = [boxed("a"), boxed("b"), "", boxed("c"), boxed("ab"), boxed("x")]
    batch = rows(responses, groups=[3, 3, 7, 7, 7, 9])

    check_component(DenseMatch(policy=make_policy(), conditional=conditional), batch)
