import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.engine.minibatch import micro_batches
from rlcomp.parallel.load_balancing import assign_rows, balance
from rlcomp.testing import make_batch


@given(st.lists(st.integers(0, 50), max_size=7), st.integers(1, 4))
def test_every_piece_is_dealt_once_and_none_much_more_than_another(costs, size):
    shares = balance(costs, size)

    assert sorted(itertools.chain(*shares)) == [*range(len(costs))]
    held = [sum(costs[n] for n in share) for share in shares]
    # Graham: within 4/3 - 1/(3 size) of the best, which enumeration finds.
    best = min(
        max(sum(c for c, to in zip(costs, deal, strict=True) if to == rank) for rank in range(size))
        for deal in itertools.product(range(size), repeat=len(costs))
    )
    assert max(held) <= (4 / 3 - 1 / (3 * size)) * best + 1e-9


@pytest.mark.parametrize(
    ("costs", "size", "shares"),
    [
        ([5, 3, 3, 1], 2, [[0, 3], [1, 2]]),
        ([1, 4], 3, [[1], [0], []]),
        # Pieces without tokens count as pieces.
        ([0, 0, 0], 3, [[0], [1], [2]]),
        ([2, 0, 0], 2, [[0], [1, 2]]),
        ([], 2, [[], []]),
    ],
)
def test_the_longest_goes_first_to_whoever_has_the_least(costs, size, shares):
    assert balance(costs, size) == shares


def rows(lengths, width=12):
    attention = torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]
    response = attention & (torch.arange(width) >= 1)
    tokens = torch.arange(len(lengths))[:, None] * attention + 2 * attention
    return make_batch(tokens=tokens, attention_mask=attention, response_mask=response)


def split(unit=1, packed=False):
    return lambda some, tokens: micro_batches(some, tokens, unit, packed=packed)


@pytest.mark.parametrize("packed", [False, True])
def test_rows_are_dealt_by_their_tokens(packed):
    shares = assign_rows(rows([12, 2, 10, 4]), split(packed=packed), 2)

    assert [share.tolist() for share in shares] == [[0, 1], [2, 3]]
    assert all(share.dtype == torch.int64 for share in shares)


def test_pairs_stay_together():
    shares = assign_rows(rows([2, 12, 3, 3, 8, 8]), split(unit=2), 2)

    # 14, 6 and 16 tokens.
    assert [share.tolist() for share in shares] == [[4, 5], [0, 1, 2, 3]]


def test_fewer_rows_than_ranks_leave_some_without():
    shares = assign_rows(rows([5]), split(), 3)

    assert [share.tolist() for share in shares] == [[0], [], []]
    assert shares[1].dtype == torch.int64


def test_rows_are_cut_finer_than_shares():
    # 10 of length 6: 60 tokens, 60 // (2 * 4) = 7 a piece: one row each, five for each rank.
    shares = assign_rows(rows([6] * 10), split(), 2)

    assert [len(share) for share in shares] == [5, 5]
    assert sorted(torch.cat(shares).tolist()) == [*range(10)]
