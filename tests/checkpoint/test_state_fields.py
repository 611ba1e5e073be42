"""Messages about fields of a file that are not what they should be."""

import json
import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.checkpoint.state_fields import (
    check_fields,
    count_field,
    join_tree,
    seed_field,
    split_tree,
)
from rlcomp.errors import CheckpointError


@pytest.mark.parametrize(
    ("state", "shown"), [(10**60 - 1, "9" * 60), (-(10**60), "a huge number"), (None, "None")]
)
def test_what_is_no_mapping_is_shown_as_far_as_it_can_be(state, shown):
    with pytest.raises(CheckpointError, match=f"^the state is {shown}: must be a mapping$"):
        check_fields(state, ("a",))


@pytest.mark.parametrize(
    ("read", "largest"), [(count_field, 2**63 - 1), (partial(seed_field, name="n"), 2**64 - 1)]
)
def test_counts_and_seeds_are_whole_numbers_that_a_run_can_have(read, largest):
    for value in (0, 7, largest):
        assert read({"n": value}, name="n") == value
    for state in ({}, *({"n": value} for value in (-1, largest + 1, 1.0, True, None, "1"))):
        with pytest.raises(CheckpointError, match="'n' is "):
            read(state, name="n")


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
KEYS = st.text() | st.integers() | st.booleans() | st.tuples(st.integers(), st.text())
TREES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner)
        | st.sampled_from([{"tensor": "x"}, {"dict": []}, {"tuple": [1]}])
    ),
)


def there_and_back(tree):
    code, tensors = split_tree(tree, "state/a")
    return join_tree(json.loads(json.dumps(code)), tensors)


def same(one, other):
    """Equal, and of the same types all the way down (1 == True == 1.0 is not the same)."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True)
        return len(one) == len(other) and all(same(a, b) for a, b in pairs)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@given(TREES)
def test_every_tree_of_plain_values_comes_back_with_its_types(tree):
    assert same(there_and_back(tree), tree)


@given(st.floats())
def test_every_float_comes_back_bit_for_bit(value):
    back = there_and_back(value)

    assert (math.isnan(back) and math.isnan(value)) or (
        back == value and math.copysign(1, back) == math.copysign(1, value)
    )


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8]
)
def test_tensors_come_back_with_shape_and_dtype(dtype):
    tensor = torch.tensor([[1, 0], [2, 3]]).to(dtype)

    back = there_and_back({"a": [tensor, (1, tensor.T)]})

    assert torch.equal(back["a"][0], tensor)
    assert back["a"][0].dtype == dtype
    assert torch.equal(back["a"][1][1], tensor.T)


def test_a_saved_tensor_does_not_follow_the_original():
    tensor = torch.zeros(2)
    code, tensors = split_tree([tensor], "a")
    tensor += 1

    assert join_tree(code, tensors)[0].tolist() == [0.0, 0.0]


def test_tensors_whose_places_spell_the_same_stay_apart():
    tree = {
        "a.b": torch.tensor(1),
        "a": {"b": torch.tensor(2)},
        0: torch.tensor(3),
        "0": torch.tensor(4),
    }

    back = there_and_back(tree)

    assert [back["a.b"].item(), back["a"]["b"].item(), back[0].item(), back["0"].item()] == [
        1,
        2,
        3,
        4,
    ]


def test_an_optimizers_state_comes_back():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight], lr=0.1, betas=(0.9, 0.95))
    (weight**2).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()

    back = there_and_back(state)

    assert torch.equal(back["state"][0]["exp_avg"], state["state"][0]["exp_avg"])
    assert same(back["param_groups"], state["param_groups"])


@pytest.mark.parametrize("value", [{1, 2}, object(), b"bytes", torch.float32, 1j])
def test_what_is_no_plain_value_is_refused_with_its_place(value):
    with pytest.raises(
        CheckpointError, match=r"^state/learner:\.deep\.1 is a \w+: cannot be saved"
    ):
        split_tree({"deep": [0, value]}, "state/learner:")


def test_a_tensor_with_a_gradient_is_held_by_its_values():
    weight = torch.ones(2, requires_grad=True)

    _, tensors = split_tree({"a": weight * 2}, "state")

    (held,) = tensors.values()
    assert not held.requires_grad
    assert held.tolist() == [2.0, 2.0]
