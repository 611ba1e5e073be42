"""Padding on the left goes behind the tokens, in nested entries too."""

import torch

from rlcomp.batch import pad_right
from rlcomp.testing import make_batch


def test_every_entry_along_the_tokens_moves_and_no_other():
    mask = torch.tensor([[0, 1, 1], [1, 0, 1], [1, 1, 1]])
    ids = torch.tensor([[0, 5, 6], [7, 0, 8], [1, 2, 3]])
    inner = make_batch(mine=ids * 10, once=ids[:, 0])
    rows = make_batch(attention_mask=mask, tokens=ids, more=inner, reward=ids[:, 0])

    moved = pad_right(rows)

    wanted = torch.tensor([[5, 6, 0], [7, 8, 0], [1, 2, 3]])
    assert torch.equal(moved["tokens"], wanted)
    assert torch.equal(moved["more", "mine"], wanted * 10)
    assert torch.equal(moved["attention_mask"], torch.tensor([[1, 1, 0], [1, 1, 0], [1, 1, 1]]))
    assert torch.equal(moved["reward"], rows["reward"])
    assert torch.equal(rows["tokens"], ids)


def test_what_is_as_wide_by_chance_stays():
    mask = torch.tensor([[0, 1], [1, 1]])
    ends = torch.tensor([[True, False], [False, True]])

    moved = pad_right(make_batch(attention_mask=mask, answer_ends=ends))

    assert torch.equal(moved["answer_ends"], ends)
