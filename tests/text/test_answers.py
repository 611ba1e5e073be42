import pytest
import torch

from rlcomp.batch import decode_texts, encode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError, DataError, ShapeError
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.answers import (
    SampledAnswer,
    add_texts,
    answer_prompts,
    answer_prompts_in_context,
    continue_rows,
    encode_answers,
    state_ids,
)


def test_one_text_in_place_of_a_list_raises():
    policy, generator = tiny_policy(), torch.Generator()

    with pytest.raises(ConfigError, match=r"hand over a list of texts, \['12\+'\]"):
        answer_prompts(policy, "12+", group_size=1, max_new_tokens=2, generator=generator)
    with pytest.raises(ConfigError, match="the prompts are a text"):
        encode_answers(policy, "12", ["1", "2"])


def sample_answers(policy, prompts=("1", "22="), **changes):
    settings = {"group_size": 2, "max_new_tokens": 3, **changes}
    return answer_prompts(policy, prompts, generator=torch.Generator().manual_seed(2), **settings)


def test_responses_are_the_texts_of_sampled_tokens():
    policy = tiny_policy()

    rows = sample_answers(policy)

    assert decode_texts(rows["prompt"]) == ["1", "1", "22=", "22="]
    eos = policy.tokenizer.eos_token_id
    for row, text in zip(rows, decode_texts(rows["response"]), strict=True):
        ids = row["tokens"][row["response_mask"]].tolist()
        assert text == policy.tokenizer.decode([one for one in ids if one != eos])
    same = sample_answers(policy)
    assert torch.equal(rows["tokens"], same["tokens"])
    greedy = sample_answers(policy, decoding=Decoding(temperature=0.0))
    assert torch.equal(greedy["tokens"][0], greedy["tokens"][1])
    barred = [one for one in range(2, 15)]
    only = sample_answers(policy, suppressed_tokens=barred)
    assert decode_texts(only["response"]) == [""] * 4


def test_prompt_ids_are_the_input_of_the_policy():
    policy = tiny_policy()

    rows = sample_answers(policy, prompts=["1"], prompt_ids=[[5, 6, 7]])

    assert rows["tokens"][:, :3].tolist() == [[5, 6, 7]] * 2
    assert decode_texts(rows["prompt"]) == ["1", "1"]


@pytest.mark.parametrize("prompts", [[], ()])
def test_no_prompts_raise(prompts):
    with pytest.raises(DataError):
        sample_answers(tiny_policy(), prompts=prompts)
    with pytest.raises(DataError):
        encode_answers(tiny_policy(), prompts, [])


@pytest.mark.parametrize(
    ("mask", "whole"),
    [
        ([0, 1, 1, 1], True),
        ([1, 1, 0, 0], True),
        ([0, 0, 0, 0], True),
        ([0, 1, 0, 1], False),
        ([1, 0, 1, 0], False),
        ([1, 0, 0, 1], False),
    ],
)
def test_a_response_mask_with_holes_raises(mask, whole):
    policy = tiny_policy()
    rows = sample_answers(policy, prompts=["1"], group_size=1)
    rows = rows.exclude("prompt", "response")
    wide = {
        key: torch.zeros(1, 4, dtype=rows[key].dtype)
        for key in ("tokens", "rollout_log_probs", "policy_version")
    }
    rows.update({**wide, "attention_mask": torch.ones(1, 4, dtype=torch.bool)})
    rows["response_mask"] = torch.tensor([mask], dtype=torch.bool)

    if whole:
        assert len(add_texts(policy, ["1"], rows, 1)) == 1
    else:
        with pytest.raises(ConfigError, match="holes"):
            add_texts(policy, ["1"], rows, 1)


def test_missing_or_unsorted_rows_raise():
    policy = tiny_policy()
    rows = sample_answers(policy).exclude("prompt", "response")

    for key in ("tokens", "policy_version", "truncated"):
        with pytest.raises(ConfigError, match=key):
            add_texts(policy, ["1", "22="], rows.exclude(key), 2)
    for prompts, size in ((["1"], 2), (["1", "2"], 1), (["1"] * 4, 1)):
        with pytest.raises(ConfigError, match="rows"):
            add_texts(policy, prompts, rows.copy(), size)


def test_encoded_answers_may_fill_the_context_only():
    # Prompt, answer and EOS.
    policy = tiny_policy(context_length=6)
    rows = encode_answers(policy, ["1", "1+1="], ["2222", "2"])

    assert rows["attention_mask"].sum(1).tolist() == [6, 6]
    assert rows["response_mask"].sum(1).tolist() == [5, 2]
    for prompts, answers in ((["1", "1+1="], ["2", "22"]), (["1+1=1", "1"], ["2", "2"])):
        with pytest.raises(DataError, match=r"1\+1"):
            encode_answers(policy, prompts, answers)


def test_a_prompt_without_room_has_no_answer():
    policy = tiny_policy(context_length=6)

    def found(ids, policy=policy):
        return answer_prompts_in_context(
            policy,
            ["a"] * len(ids),
            prompt_ids=ids,
            max_new_tokens=2,
            generator=torch.Generator().manual_seed(1),
        )

    one, none, other = found([[5] * 4, [5] * 5, [6]])
    assert none is None
    assert isinstance(one, SampledAnswer)
    assert isinstance(other, SampledAnswer)
    assert found([[5] * 5]) == [None]
    assert found([]) == []
    rows = answer_prompts(
        policy,
        ["a", "a"],
        prompt_ids=[[5] * 4, [6]],
        group_size=1,
        max_new_tokens=2,
        generator=torch.Generator().manual_seed(1),
    )
    assert [one.text, other.text] == decode_texts(rows["response"])
    assert [one.truncated, other.truncated] == rows["truncated"].tolist()


PROMPTS = ["1+2=", "34=", "5+6+7="]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def answer_batch(policy, longest=6):
    rows = answer_prompts(
        policy, PROMPTS, group_size=1, max_new_tokens=longest, generator=generator(1)
    )
    rows["answer"] = encode_texts(["3", "7", "18"])
    return rows


def batch(tokens, response):
    return make_batch(tokens=tokens, response_mask=torch.tensor(response).bool())


def test_a_state_is_the_prompt_and_the_first_tokens_of_the_response():
    rows = batch([[5, 6, 7, 8, 9], [5, 7, 8, 0, 0]], [[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])

    assert state_ids(rows, torch.tensor([2, 0])) == ([[5, 6], [5]], [[7, 8], []])


def test_a_response_with_holes_raises():
    for mask in ([0, 1, 0, 1, 0], [1, 0, 0, 0, 1]):
        with pytest.raises(ShapeError, match=r"holes.*advantage=vine"):
            state_ids(batch([[5, 6, 7, 8, 9]], [mask]), torch.tensor([0]))


def test_continuations_after_0_tokens_equal_generate():
    policy = tiny_policy()
    rows = answer_batch(policy)

    result = continue_rows(
        policy,
        rows,
        torch.zeros(3).long(),
        continuations=4,
        max_new_tokens=6,
        generator=generator(),
    )

    expected = answer_prompts(
        policy, PROMPTS, group_size=4, max_new_tokens=6, generator=generator()
    )
    for key in ("tokens", "attention_mask", "response_mask", "truncated", "group_id"):
        assert torch.equal(result[key], expected[key]), key
    assert decode_texts(result["response"]) == decode_texts(expected["response"])
    assert decode_texts(result["answer"]) == ["3"] * 4 + ["7"] * 4 + ["18"] * 4


def test_continuations_keep_the_first_tokens_within_the_limit():
    policy = tiny_policy()
    rows = answer_batch(policy)
    lengths = rows["response_mask"].sum(1)
    assert lengths.tolist() != [1, 1, 1]
    cuts = lengths - 1

    result = continue_rows(
        policy, rows, cuts, continuations=2, max_new_tokens=6, generator=generator()
    )

    _, kept = state_ids(rows, cuts)
    whole = [row[mask] for row, mask in zip(result["tokens"], result["response_mask"], strict=True)]
    for number, ids in enumerate(whole):
        mine = kept[number // 2]
        assert ids[: len(mine)].tolist() == mine
        assert len(mine) < len(ids) <= 6
        ended = int(ids[-1]) == policy.tokenizer.eos_token_id
        assert bool(result["truncated"][number]) == (len(ids) == 6 and not ended)


def test_a_horizon_ends_a_continuation_early():
    policy = tiny_policy()
    rows = answer_batch(policy)

    result = continue_rows(
        policy,
        rows,
        torch.zeros(3).long(),
        continuations=8,
        max_new_tokens=6,
        horizon=1,
        generator=generator(),
    )

    assert result["response_mask"].sum(1).tolist() == [1] * 24
    ended = (result["tokens"] == policy.tokenizer.eos_token_id) & result["response_mask"]
    assert torch.equal(result["truncated"], ~ended.any(1))
