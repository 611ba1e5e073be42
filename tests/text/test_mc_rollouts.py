"""Continuations of cut responses."""

import pytest
import torch

from rlcomp.batch import decode_texts, encode_texts
from rlcomp.errors import ShapeError
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.answers import answer_prompts, continue_rows, state_ids

PROMPTS = ["1+2=", "34=", "5+6+7="]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def answered(policy, longest=6):
    rows = answer_prompts(
        policy, PROMPTS, group_size=1, max_new_tokens=longest, generator=generator(1)
    )
    rows["answer"] = encode_texts(["3", "7", "18"])
    return rows


def batch(tokens, response):
    return make_batch(tokens=tokens, response_mask=torch.tensor(response).bool())


def test_a_state_is_the_prompt_and_what_is_kept():
    rows = batch([[5, 6, 7, 8, 9], [5, 7, 8, 0, 0]], [[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])

    assert state_ids(rows, torch.tensor([2, 0])) == ([[5, 6], [5]], [[7, 8], []])


def test_a_response_with_holes_is_refused():
    for mask in ([0, 1, 0, 1, 0], [1, 0, 0, 0, 1]):
        with pytest.raises(ShapeError, match=r"holes.*advantage=vine"):
            state_ids(batch([[5, 6, 7, 8, 9]], [mask]), torch.tensor([0]))


def test_uncut_prompts_are_answered_as_generate_answers_them():
    policy = tiny_policy()
    rows = answered(policy)

    found = continue_rows(
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
        assert torch.equal(found[key], expected[key]), key
    assert decode_texts(found["response"]) == decode_texts(expected["response"])
    assert decode_texts(found["answer"]) == ["3"] * 4 + ["7"] * 4 + ["18"] * 4


def test_what_is_kept_stays_and_the_whole_response_keeps_to_its_limit():
    policy = tiny_policy()
    rows = answered(policy)
    lengths = rows["response_mask"].sum(1)
    assert lengths.tolist() != [1, 1, 1]
    cuts = lengths - 1

    found = continue_rows(
        policy, rows, cuts, continuations=2, max_new_tokens=6, generator=generator()
    )

    _, kept = state_ids(rows, cuts)
    whole = [row[mask] for row, mask in zip(found["tokens"], found["response_mask"], strict=True)]
    for number, ids in enumerate(whole):
        mine = kept[number // 2]
        assert ids[: len(mine)].tolist() == mine
        assert len(mine) < len(ids) <= 6
        ended = int(ids[-1]) == policy.tokenizer.eos_token_id
        assert bool(found["truncated"][number]) == (len(ids) == 6 and not ended)


def test_a_horizon_ends_a_continuation_early():
    policy = tiny_policy()
    rows = answered(policy)

    found = continue_rows(
        policy,
        rows,
        torch.zeros(3).long(),
        continuations=8,
        max_new_tokens=6,
        horizon=1,
        generator=generator(),
    )

    assert found["response_mask"].sum(1).tolist() == [1] * 24
    ended = (found["tokens"] == policy.tokenizer.eos_token_id) & found["response_mask"]
    assert torch.equal(found["truncated"], ~ended.any(1))
