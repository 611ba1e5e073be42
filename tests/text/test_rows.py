from dataclasses import replace

import pytest
import torch

from rlcomp.engine.draw import SampledResponses
from rlcomp.engine.routing import UNKNOWN
from rlcomp.errors import DataError, NumericalError
from rlcomp.text.rows import check_room, encode_rows, pad_rows, response_columns, rollout_rows
from rlcomp.text.tokenizer import character_tokenizer

# <pad> 0, <eos> 1, a 2, b 3.
TOKENIZER = character_tokenizer(characters="ab")


def test_a_row_is_prompt_response_eos_and_padding():
    rows = encode_rows(TOKENIZER, ["aa", "b"], ["b", ""])

    assert rows["tokens"].tolist() == [[2, 2, 3, 1], [3, 1, 0, 0]]
    assert rows["attention_mask"].tolist() == [[True] * 4, [True, True, False, False]]
    assert rows["response_mask"].tolist() == [
        [False, False, True, True],
        [False, True] + [False] * 2,
    ]


def test_an_empty_prompt_is_one_token():
    rows = encode_rows(TOKENIZER, [""], ["ab"])

    assert rows["tokens"].tolist() == [[1, 2, 3, 1]]
    assert rows["response_mask"].tolist() == [[False, True, True, True]]


def test_without_a_pad_token_eos_pads_and_is_masked():
    tokenizer = character_tokenizer(characters="ab")
    tokenizer.pad_token = None

    rows = encode_rows(tokenizer, ["aa", "b"], ["b", ""])

    assert rows["tokens"][1].tolist() == [3, 1, 1, 1]
    assert torch.equal(rows["attention_mask"][1], torch.tensor([True, True, False, False]))


def test_a_character_without_a_token_raises():
    with pytest.raises(DataError, match="no token for 'c'"):
        encode_rows(TOKENIZER, ["a"], ["c"])


def sampled(**changes):
    """One answer to each of two prompts, of two tokens and of one."""
    columns = {
        "tokens": torch.tensor([[2, 3], [3, 0]]),
        "log_probs": torch.tensor([[-1.0, -2.0], [-3.0, 0.0]]),
        "lengths": torch.tensor([2, 1]),
        "truncated": torch.tensor([True, False]),
    }
    return SampledResponses(**columns | changes)


def test_rollout_rows_have_the_version_and_the_group():
    rows = rollout_rows([[2, 2]], sampled(), pad=0, version=7)

    assert rows["group_id"].tolist() == [0, 0]
    assert rollout_rows([[2], [3]], sampled(), pad=0, version=7)["group_id"].tolist() == [0, 1]
    assert rows["policy_version"].tolist() == [[0, 0, 7, 7], [0, 0, 7, 0]]
    assert rows["truncated"].tolist() == [True, False]
    assert rows["tokens"].tolist() == [[2, 2, 2, 3], [2, 2, 3, 0]]
    assert "routed_experts" not in rows.keys()


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
def test_a_sampled_token_of_infinite_log_prob_raises(value):
    broken = torch.tensor([[-1.0, value], [-3.0, 0.0]])

    with pytest.raises(NumericalError):
        rollout_rows([[2]], sampled(log_probs=broken), pad=0, version=0)
    # Behind the end of a response anything may stand.
    rollout_rows([[2]], sampled(log_probs=broken, lengths=torch.tensor([1, 1])), pad=0, version=0)


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_routes_are_cut_or_padded_to_the_rows(columns):
    # Of each column two layers and three experts.
    routes = torch.arange(2 * columns * 2 * 3, dtype=torch.int16).reshape(2, columns, 2, 3)

    result = rollout_rows([[2]], sampled(routes=routes), pad=0, version=0)["routed_experts"]

    assert result.shape == (2, 3, 2, 3)
    known = min(columns, 3)
    assert torch.equal(result[:, :known], routes[:, :known])
    assert result[:, known:].eq(UNKNOWN).all()


def test_check_room_allows_exactly_the_context():
    def named(place):
        return "abc"[place]

    check_room([3, 5], [2, 0], 5, named)
    check_room([300], [2], None, named)
    for lengths, more in (([3, 6], [2, 0]), ([3, 3], [2, 3])):
        with pytest.raises(DataError, match="prompt 'b'"):
            check_room(lengths, more, 5, named)


# Two prompts of 1 and 3 tokens; the first answer has 3 tokens, the second 1 of the 3 steps taken.
SAMPLED = SampledResponses(
    tokens=torch.tensor([[7, 8, 9], [7, 99, 99]]),
    log_probs=torch.tensor([[-1.0, -2.0, -3.0], [-4.0, torch.nan, torch.inf]]),
    lengths=torch.tensor([3, 1]),
    truncated=torch.tensor([True, False]),
)


PROMPTS = [[4], [4, 5, 6]]


def test_rows_are_prompt_then_response_then_padding():
    columns = response_columns(PROMPTS, SAMPLED, pad=0)

    assert columns["tokens"].tolist() == [[4, 7, 8, 9], [4, 5, 6, 7]]
    assert columns["response_mask"].int().tolist() == [[0, 1, 1, 1], [0, 0, 0, 1]]
    assert columns["attention_mask"].all()


def test_log_probs_are_at_their_tokens_and_0_elsewhere():
    columns = response_columns(PROMPTS, SAMPLED, pad=0)

    assert columns["rollout_log_probs"].tolist() == [[0, -1, -2, -3], [0, 0, 0, -4]]


def test_the_width_is_that_of_the_longest_row():
    short = SampledResponses(
        SAMPLED.tokens, SAMPLED.log_probs, torch.tensor([1, 1]), SAMPLED.truncated
    )

    columns = response_columns([[4], [4]], short, pad=0)

    assert columns["tokens"].tolist() == [[4, 7], [4, 7]]


def test_a_sampled_pad_id_is_a_response_token():
    columns = response_columns(PROMPTS, SAMPLED, pad=7)

    assert columns["response_mask"].int().tolist() == [[0, 1, 1, 1], [0, 0, 0, 1]]
    assert columns["tokens"].tolist() == [[4, 7, 8, 9], [4, 5, 6, 7]]


def test_pad_rows_fills_up_to_the_longest_row():
    tokens, filled = pad_rows([[5], [6, 7, 8], [9, 9]], 4)

    assert tokens.tolist() == [[5, 4, 4], [6, 7, 8], [9, 9, 4]]
    assert filled.int().tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 0]]


def test_padding_is_not_in_the_response_mask():
    short = SampledResponses(
        SAMPLED.tokens, SAMPLED.log_probs, torch.tensor([3, 1]), SAMPLED.truncated
    )

    columns = response_columns([[4, 4], [4]], short, pad=0)

    assert columns["tokens"].tolist() == [[4, 4, 7, 8, 9], [4, 7, 0, 0, 0]]
    assert columns["attention_mask"].int().tolist() == [[1] * 5, [1, 1, 0, 0, 0]]
    assert columns["response_mask"].int().tolist() == [[0, 0, 1, 1, 1], [0, 1, 0, 0, 0]]
    assert columns["rollout_log_probs"].tolist() == [[0, 0, -1, -2, -3], [0, -4, 0, 0, 0]]
    assert "sampling_mask" not in columns


def test_sampling_masks_are_at_their_tokens_and_empty_elsewhere():
    # Two bytes for each of three steps: 10 * row + step, and the same + 100.
    sampling_mask = torch.tensor(
        [[[r * 10 + s, r * 10 + s + 100] for s in range(3)] for r in (1, 2)]
    )
    sampled = replace(SAMPLED, sampling_mask=sampling_mask.to(torch.uint8))

    result = response_columns(PROMPTS, sampled, pad=0)["sampling_mask"]

    assert result.dtype == torch.uint8
    assert result.tolist() == [
        [[0, 0], [10, 110], [11, 111], [12, 112]],
        [[0, 0], [0, 0], [0, 0], [20, 120]],
    ]
