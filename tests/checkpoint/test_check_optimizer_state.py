"""What a saved optimiser state may hold: counts of steps, shapes and values by hand."""

import pytest
import torch

from rlcomp.checkpoint.optimizer_state import check_moment_shapes, check_optimizer_state
from rlcomp.errors import CheckpointError


def state(moments, **group):
    return {"state": {0: moments}, "param_groups": [{"params": [0]} | group]}


@pytest.mark.parametrize(
    "step",
    [
        torch.tensor(2.0**24),
        torch.tensor(2.0**53, dtype=torch.float64),
        torch.tensor(0.0),
        2**53,
        7.0,
    ],
)
def test_a_count_of_steps_that_its_type_can_hold_is_taken(step):
    saved = state({"step": step})

    assert check_optimizer_state(saved) is saved


@pytest.mark.parametrize(
    "step",
    [
        torch.tensor(2.0**24 + 2),
        torch.tensor(2.0**53 + 2, dtype=torch.float64),
        2**53 + 1,
        -1,
        0.5,
        True,
        "7",
        torch.ones(2),
    ],
)
def test_a_count_of_steps_that_no_run_writes_is_refused(step):
    with pytest.raises(CheckpointError, match=r"^'step' is "):
        check_optimizer_state(state({"step": step}))


def test_a_number_that_is_not_finite_is_refused_and_a_list_of_them_left_to_its_shape():
    with pytest.raises(CheckpointError, match="'mu' is nan"):
        check_optimizer_state(state({"mu": float("nan")}))
    with pytest.raises(CheckpointError, match="'mu' is inf"):
        check_optimizer_state(state({"mu": torch.tensor([float("inf")])}))
    check_optimizer_state(state({"mu": torch.tensor([float("inf"), 1.0])}))


def test_parameters_have_one_place_and_as_many_names():
    check_optimizer_state(state({}, params=[0, 1], param_names=["a", "b"]))
    with pytest.raises(CheckpointError, match="'params' has a parameter twice"):
        check_optimizer_state(state({}, params=[0, 0]))
    with pytest.raises(CheckpointError, match="differ in length"):
        check_optimizer_state(state({}, param_names=["a", "b"]))
    with pytest.raises(CheckpointError, match="of parameter 0, which no group has"):
        check_optimizer_state(state({}, params=[1]))


def adam(*sizes):
    return torch.optim.Adam([torch.nn.Parameter(torch.ones(size)) for size in sizes])


def moments(size, **changes):
    own = {"step": torch.tensor(1.0), "exp_avg": torch.ones(size), "exp_avg_sq": torch.ones(size)}
    return own | changes


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"exp_avg": torch.ones(3)}, r"'exp_avg' of parameter 1 is \[3\]: must be \[2\]"),
        ({"exp_avg": torch.tensor([1.0, float("inf")])}, "'exp_avg' of parameter 1 is not finite"),
        ({"exp_avg_sq": torch.tensor([1.0, -1e-9])}, "'exp_avg_sq' of parameter 1 is below 0"),
        ({"extra": torch.ones(2)}, "parameter 1 has the moments .*extra.*: one is missing"),
    ],
)
def test_each_moment_is_held_against_its_parameter(changes, refusal):
    optimizer = adam(2, 2)
    check_moment_shapes({0: moments(2), 1: moments(2, exp_avg=-torch.ones(2))}, optimizer)
    check_moment_shapes({0: moments(2), 1: moments(2, exp_avg_sq=torch.zeros(2))}, optimizer)

    with pytest.raises(CheckpointError, match=refusal):
        check_moment_shapes({0: moments(2), 1: moments(2, **changes)}, optimizer)


def test_a_part_of_a_parameter_is_held_against_the_shape_of_that_part():
    check_moment_shapes({0: moments(2)}, adam(4), lambda parameter: parameter[:2].shape)
    with pytest.raises(CheckpointError, match=r"must be \[2\]"):
        check_moment_shapes({0: moments(4)}, adam(4), lambda parameter: parameter[:2].shape)
