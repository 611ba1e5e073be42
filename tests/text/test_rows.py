import pytest
import torch

from rlcomp.errors import DataError
from rlcomp.text.rows import encode_rows
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
