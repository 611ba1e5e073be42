from dataclasses import replace

import torch

from rlcomp.engine.draw import SampledResponses
from rlcomp.text.rows import pad_rows, response_columns

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


def test_log_probs_stand_at_their_tokens_and_are_zero_elsewhere():
    columns = response_columns(PROMPTS, SAMPLED, pad=0)

    assert columns["rollout_log_probs"].tolist() == [[0, -1, -2, -3], [0, 0, 0, -4]]


def test_width_is_that_of_the_longest_row():
    short = SampledResponses(
        SAMPLED.tokens, SAMPLED.log_probs, torch.tensor([1, 1]), SAMPLED.truncated
    )

    columns = response_columns([[4], [4]], short, pad=0)

    assert columns["tokens"].tolist() == [[4, 7], [4, 7]]


def test_a_sampled_pad_id_is_a_response_token():
    columns = response_columns(PROMPTS, SAMPLED, pad=7)

    assert columns["response_mask"].int().tolist() == [[0, 1, 1, 1], [0, 0, 0, 1]]
    assert columns["tokens"].tolist() == [[4, 7, 8, 9], [4, 5, 6, 7]]


def test_rows_are_as_wide_as_the_longest_and_filled_where_they_end():
    tokens, filled = pad_rows([[5], [6, 7, 8], [9, 9]], 4)

    assert tokens.tolist() == [[5, 4, 4], [6, 7, 8], [9, 9, 4]]
    assert filled.int().tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 0]]


def test_a_shorter_row_is_padded_and_its_padding_is_no_response():
    short = SampledResponses(
        SAMPLED.tokens, SAMPLED.log_probs, torch.tensor([3, 1]), SAMPLED.truncated
    )

    columns = response_columns([[4, 4], [4]], short, pad=0)

    assert columns["tokens"].tolist() == [[4, 4, 7, 8, 9], [4, 7, 0, 0, 0]]
    assert columns["attention_mask"].int().tolist() == [[1] * 5, [1, 1, 0, 0, 0]]
    assert columns["response_mask"].int().tolist() == [[0, 0, 1, 1, 1], [0, 1, 0, 0, 0]]
    assert columns["rollout_log_probs"].tolist() == [[0, 0, -1, -2, -3], [0, -4, 0, 0, 0]]
    assert "sampling_mask" not in columns


def test_sets_stand_at_their_tokens_and_are_empty_elsewhere():
    # Two bytes for each of three steps: 10 * row + step, and the same + 100.
    sampling_mask = torch.tensor(
        [[[r * 10 + s, r * 10 + s + 100] for s in range(3)] for r in (1, 2)]
    )
    sampled = replace(SAMPLED, sampling_mask=sampling_mask.to(torch.uint8))

    found = response_columns(PROMPTS, sampled, pad=0)["sampling_mask"]

    assert found.dtype == torch.uint8
    assert found.tolist() == [
        [[0, 0], [10, 110], [11, 111], [12, 112]],
        [[0, 0], [0, 0], [0, 0], [20, 120]],
    ]
