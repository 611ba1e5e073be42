import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlcomp.engine.minibatch import micro_batches, minibatches
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch


def batch(*lengths: int) -> TensorDict:
    """Return rows 0, 1, ... with the given numbers of tokens."""
    width = max(lengths)
    filled = torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]
    row = torch.arange(len(lengths))
    return make_batch(row=row, attention_mask=filled, tokens=filled * (row[:, None] + 1))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def rows(parts):
    return [part["row"].tolist() for part in parts]


def flat(parts):
    return [row for part in parts for row in part]


def test_one_minibatch_is_the_batch_itself():
    whole = batch(1, 2, 3)

    assert next(minibatches(whole, 1, 1, generator())) is whole


@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from([1, 2]))
def test_minibatches_have_nearly_equal_size(units, number, unit_rows):
    number = min(number, units)
    parts = rows(minibatches(batch(*[3] * (units * unit_rows)), number, unit_rows, generator()))

    assert sorted(flat(parts)) == list(range(units * unit_rows))
    sizes = [len(part) // unit_rows for part in parts]
    assert len(sizes) == number
    assert max(sizes) - min(sizes) <= 1


def test_rows_are_shuffled_by_the_generator():
    order = flat(rows(minibatches(batch(*[2] * 20), 2, 1, generator())))

    assert order != sorted(order)
    assert order == flat(rows(minibatches(batch(*[2] * 20), 2, 1, generator())))


def test_pairs_stay_together_in_order():
    for part in rows(minibatches(batch(*[2] * 12), 3, 2, generator())):
        assert part[1::2] == [first + 1 for first in part[::2]]
        assert all(first % 2 == 0 for first in part[::2])


def test_more_minibatches_than_units_are_refused():
    with pytest.raises(ConfigError, match="num_minibatches is 3, but the batch has only 2 units"):
        list(minibatches(batch(1, 1, 1, 1), 3, 2, generator()))


@pytest.mark.parametrize("packed", [False, True])
def test_without_a_budget_there_is_one_micro_batch(packed):
    whole = batch(1, 2, 3)

    assert next(micro_batches(whole, None, 1, packed=packed)) is whole


@pytest.mark.parametrize("packed", [False, True])
def test_a_batch_within_the_budget_is_not_split(packed):
    whole = batch(1, 2, 3)

    assert next(micro_batches(whole, 9, 1, packed=packed)) is whole


def test_micro_batches_have_rows_of_similar_length():
    # Budget 8: one row of 5 (two would take 10), then 4 with 2 (2 x 4), the rest 2 x 1.
    parts = list(micro_batches(batch(1, 5, 2, 4, 1), 8, 1, packed=False))

    assert rows(parts) == [[1], [3, 2], [0, 4]]
    assert [part["attention_mask"].shape[1] for part in parts] == [5, 4, 1]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=10), st.integers(1, 40))
def test_micro_batches_have_every_row_once_within_the_budget(lengths, budget):
    parts = list(micro_batches(batch(*lengths), budget, 1, packed=False))

    assert sorted(flat(rows(parts))) == list(range(len(lengths)))
    for part in parts:
        assert part["attention_mask"].sum(1).tolist() == [lengths[r] for r in part["row"].tolist()]
        assert part["attention_mask"].numel() <= budget or part.shape[0] == 1


def test_a_pair_may_exceed_the_budget():
    parts = rows(micro_batches(batch(4, 1, 2, 3), 2, 2, packed=False))

    assert parts == [[0, 1], [2, 3]]


def test_nested_entries_are_split_and_trimmed_alike():
    whole = batch(1, 5)
    whole["(prepared)", "loss", "loss_weight"] = whole["attention_mask"].float()

    short = list(micro_batches(whole, 5, 1, packed=False))[1]

    assert short["(prepared)", "loss", "loss_weight"].tolist() == [[1.0]]


def test_an_incomplete_pair_is_refused():
    with pytest.raises(ConfigError, match="3 rows, not a multiple of 2"):
        list(minibatches(batch(1, 1, 1), 2, 2, generator()))


def answered(*prompts: int) -> TensorDict:
    """Return rows with a prompt of three tokens, equal for equal numbers, and different answers."""
    whole = batch(*[5] * len(prompts))
    whole["tokens"] = torch.tensor(
        [[prompt] * 3 + [20 + row, 2] for row, prompt in enumerate(prompts)]
    )
    whole["response_mask"] = torch.tensor([[False] * 3 + [True] * 2]).expand(len(prompts), -1)
    return whole


def test_packed_micro_batches_count_a_shared_prompt_once():
    # A prompt takes 3, and each answer 1: its last token is not read. Budget 5: two answers.
    parts = micro_batches(answered(7, 8, 7, 8, 7), 5, 1, packed=True)

    assert rows(parts) == [[0, 2], [4], [1, 3]]


def test_packed_pairs_stay_together():
    # Two prompts with an answer each take 8: more than the budget, and alone.
    parts = micro_batches(answered(7, 8, 7, 9), 7, 2, packed=True)

    assert rows(parts) == [[0, 1], [2, 3]]


def test_packed_micro_batches_are_trimmed():
    whole = answered(7, 8)
    whole["attention_mask"] = torch.tensor([[True] * 5, [True] * 4 + [False]])
    whole["response_mask"] = whole["response_mask"] & whole["attention_mask"]

    assert [len(part["tokens"][0]) for part in micro_batches(whole, 4, 1, packed=True)] == [5, 4]
