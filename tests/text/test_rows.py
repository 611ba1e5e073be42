import pytest
import torch

from rlcomp.engine.draw import SampledResponses
from rlcomp.engine.routing import UNKNOWN
from rlcomp.errors import DataError, NumericalError
from rlcomp.text.rows import check_room, encode_rows, rollout_rows
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


def test_an_empty_prompt_is_the_token_the_model_starts_from():
    rows = encode_rows(TOKENIZER, [""], ["ab"])

    assert rows["tokens"].tolist() == [[1, 2, 3, 1]]
    assert rows["response_mask"].tolist() == [[False, True, True, True]]


def test_without_a_padding_token_eos_pads_and_is_masked():
    tokenizer = character_tokenizer(characters="ab")
    tokenizer.pad_token = None

    rows = encode_rows(tokenizer, ["aa", "b"], ["b", ""])

    assert rows["tokens"][1].tolist() == [3, 1, 1, 1]
    assert torch.equal(rows["attention_mask"][1], torch.tensor([True, True, False, False]))


def test_a_character_without_a_token_is_named():
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


def test_sampled_rows_hold_the_version_and_the_prompt_they_answer():
    rows = rollout_rows([[2, 2]], sampled(), pad=0, version=7)

    assert rows["group_id"].tolist() == [0, 0]
    assert rollout_rows([[2], [3]], sampled(), pad=0, version=7)["group_id"].tolist() == [0, 1]
    assert rows["policy_version"].tolist() == [[0, 0, 7, 7], [0, 0, 7, 0]]
    assert rows["truncated"].tolist() == [True, False]
    assert rows["tokens"].tolist() == [[2, 2, 2, 3], [2, 2, 3, 0]]
    assert "routed_experts" not in rows.keys()


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
def test_a_token_that_could_not_be_drawn_is_an_error(value):
    broken = torch.tensor([[-1.0, value], [-3.0, 0.0]])

    with pytest.raises(NumericalError):
        rollout_rows([[2]], sampled(log_probs=broken), pad=0, version=0)
    # Behind the end of a response anything may stand.
    rollout_rows([[2]], sampled(log_probs=broken, lengths=torch.tensor([1, 1])), pad=0, version=0)


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_routes_are_cut_or_widened_to_the_rows(columns):
    # Of each column two layers and three experts.
    routes = torch.arange(2 * columns * 2 * 3, dtype=torch.int16).reshape(2, columns, 2, 3)

    found = rollout_rows([[2]], sampled(routes=routes), pad=0, version=0)["routed_experts"]

    assert found.shape == (2, 3, 2, 3)
    known = min(columns, 3)
    assert torch.equal(found[:, :known], routes[:, :known])
    assert found[:, known:].eq(UNKNOWN).all()


def test_a_row_may_fill_the_context_and_no_more():
    def named(place):
        return "abc"[place]

    check_room([3, 5], [2, 0], 5, named)
    check_room([300], [2], None, named)
    for lengths, more in (([3, 6], [2, 0]), ([3, 3], [2, 3])):
        with pytest.raises(DataError, match="prompt 'b'"):
            check_room(lengths, more, 5, named)
