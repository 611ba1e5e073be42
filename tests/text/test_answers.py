import pytest
import torch

from rlcomp.batch import decode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError, DataError
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import (
    SampledAnswer,
    add_texts,
    answer_prompts,
    answer_prompts_in_context,
    encode_answers,
)


def test_one_text_is_no_list_of_prompts():
    policy, generator = tiny_policy(), torch.Generator()

    with pytest.raises(ConfigError, match=r"hand over a list of texts, \['12\+'\]"):
        answer_prompts(policy, "12+", group_size=1, max_new_tokens=2, generator=generator)
    with pytest.raises(ConfigError, match="the prompts are a text"):
        encode_answers(policy, "12", ["1", "2"])


def answered(policy, prompts=("1", "22="), **changes):
    settings = {"group_size": 2, "max_new_tokens": 3, **changes}
    return answer_prompts(policy, prompts, generator=torch.Generator().manual_seed(2), **settings)


def test_answers_are_the_texts_of_what_was_sampled():
    policy = tiny_policy()

    rows = answered(policy)

    assert decode_texts(rows["prompt"]) == ["1", "1", "22=", "22="]
    eos = policy.tokenizer.eos_token_id
    for row, text in zip(rows, decode_texts(rows["response"]), strict=True):
        ids = row["tokens"][row["response_mask"]].tolist()
        assert text == policy.tokenizer.decode([one for one in ids if one != eos])
    same = answered(policy)
    assert torch.equal(rows["tokens"], same["tokens"])
    greedy = answered(policy, decoding=Decoding(temperature=0.0))
    assert torch.equal(greedy["tokens"][0], greedy["tokens"][1])
    barred = [one for one in range(2, 15)]
    only = answered(policy, suppressed_tokens=barred)
    assert decode_texts(only["response"]) == [""] * 4


def test_a_policy_reads_the_ids_that_are_given():
    policy = tiny_policy()

    rows = answered(policy, prompts=["1"], prompt_ids=[[5, 6, 7]])

    assert rows["tokens"][:, :3].tolist() == [[5, 6, 7]] * 2
    assert decode_texts(rows["prompt"]) == ["1", "1"]


@pytest.mark.parametrize("prompts", [[], ()])
def test_no_prompts_are_refused(prompts):
    with pytest.raises(DataError):
        answered(tiny_policy(), prompts=prompts)
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
def test_a_response_is_one_piece(mask, whole):
    policy = tiny_policy()
    rows = answered(policy, prompts=["1"], group_size=1)
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


def test_rows_of_a_policy_are_all_there_and_in_their_order():
    policy = tiny_policy()
    rows = answered(policy).exclude("prompt", "response")

    for key in ("tokens", "policy_version", "truncated"):
        with pytest.raises(ConfigError, match=key):
            add_texts(policy, ["1", "22="], rows.exclude(key), 2)
    for prompts, size in ((["1"], 2), (["1", "2"], 1), (["1"] * 4, 1)):
        with pytest.raises(ConfigError, match="rows"):
            add_texts(policy, prompts, rows.copy(), size)


def test_given_answers_fill_the_context_and_no_more():
    # Prompt, answer and EOS.
    policy = tiny_policy(context_length=6)
    rows = encode_answers(policy, ["1", "1+1="], ["2222", "2"])

    assert rows["attention_mask"].sum(1).tolist() == [6, 6]
    assert rows["response_mask"].sum(1).tolist() == [5, 2]
    for prompts, answers in ((["1", "1+1="], ["2", "22"]), (["1+1=1", "1"], ["2", "2"])):
        with pytest.raises(DataError, match=r"1\+1"):
            encode_answers(policy, prompts, answers)


def test_a_prompt_without_room_has_no_answer_and_the_others_have():
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
