"""What a saved optimiser state may hold: counts of steps, shapes and values by hand."""

import pytest
import torch

from rlcomp.checkpoint.optimizer_state import (
    check_moments,
    check_optimizer_state,
    match_optimizer_state,
)
from rlcomp.errors import CheckpointError
from rlcomp.model.optimizer import MuonAdamW


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
    with pytest.raises(CheckpointError, match="has parameter 0, but no group has it"):
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
    check_moments({0: moments(2), 1: moments(2, exp_avg=-torch.ones(2))}, optimizer)
    check_moments({0: moments(2), 1: moments(2, exp_avg_sq=torch.zeros(2))}, optimizer)

    with pytest.raises(CheckpointError, match=refusal):
        check_moments({0: moments(2), 1: moments(2, **changes)}, optimizer)


def test_a_part_of_a_parameter_is_held_against_the_shape_of_that_part():
    check_moments({0: moments(2)}, adam(4), lambda parameter: parameter[:2].shape)
    with pytest.raises(CheckpointError, match=r"must be \[2\]"):
        check_moments({0: moments(4)}, adam(4), lambda parameter: parameter[:2].shape)


def parameters():
    names = ("layers.0.weight", "layers.1.weight", "norm.weight")
    shapes = ((2, 3), (3, 2), (3,))
    return [(n, torch.nn.Parameter(torch.ones(s))) for n, s in zip(names, shapes, strict=True)]


def stepped(optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer.state_dict()


@pytest.mark.parametrize(
    ("saved", "own"),
    [
        (torch.optim.AdamW, MuonAdamW),
        (MuonAdamW, torch.optim.AdamW),
        (MuonAdamW, lambda named: MuonAdamW(named, not_muon="layers.0")),
    ],
)
def test_moments_of_another_kind_are_refused_with_the_parameter(saved, own):
    state = stepped(saved(parameters()))

    with pytest.raises(CheckpointError, match=r"critic\.optimizer .* for layers\.0\.weight it had"):
        match_optimizer_state("critic", state, own(parameters()).state_dict())


def test_a_parameter_that_only_one_side_trains_is_named():
    state = stepped(torch.optim.AdamW(parameters()))

    with pytest.raises(CheckpointError, match=r"only the checkpoint trains norm\.weight"):
        match_optimizer_state("critic", state, torch.optim.AdamW(parameters()[:2]).state_dict())


def test_parameters_without_names_go_by_their_place():
    state = stepped(torch.optim.AdamW([parameter for _, parameter in parameters()]))

    own = torch.optim.AdamW([parameter for _, parameter in parameters()], eps=0.5).state_dict()
    found = match_optimizer_state("critic", state, own)

    assert found["state"] == state["state"]
    assert found["param_groups"] == own["param_groups"]


def scheduled(rate):
    """An optimiser after an update at another rate than its first."""
    named = parameters()
    optimizer = torch.optim.AdamW(
        [{"params": named[:1], "lr": 0.1}, {"params": named[1:], "lr": 0.01}]
    )
    for group in optimizer.param_groups:
        group["lr"] *= rate
    return optimizer


def test_the_learning_rate_is_where_the_schedule_left_it():
    state = stepped(scheduled(0.34))

    found = match_optimizer_state("critic", state, scheduled(1.0).state_dict())

    assert [group["lr"] for group in found["param_groups"]] == [0.1 * 0.34, 0.01 * 0.34]


def test_it_belongs_to_the_parameters_and_not_to_the_place_of_their_group():
    state = stepped(scheduled(0.5))
    named = parameters()
    own = torch.optim.AdamW([{"params": named[1:]}, {"params": named[:1]}], weight_decay=0.3)

    found = match_optimizer_state("critic", state, own.state_dict())

    assert [group["lr"] for group in found["param_groups"]] == [0.005, 0.05]
    # All else is the config's.
    assert [group["weight_decay"] for group in found["param_groups"]] == [0.3, 0.3]


def test_a_learning_rate_that_is_none_is_refused():
    state = stepped(scheduled(1.0))
    own = scheduled(1.0).state_dict()

    for rate in (float("nan"), -1.0, "fast"):
        state["param_groups"][0]["lr"] = rate
        with pytest.raises(CheckpointError, match="'lr' is "):
            match_optimizer_state("critic", state, own)


def test_moments_keep_the_order_in_which_parameters_were_stepped():
    named = parameters()
    optimizer = torch.optim.AdamW(named)
    for index in (2, 0, 1):  # one at a time, as where some are updated less often
        optimizer.zero_grad()
        named[index][1].grad = torch.ones_like(named[index][1])
        optimizer.step()
    state = optimizer.state_dict()
    assert list(state["state"]) == [2, 0, 1]

    again = torch.optim.AdamW(parameters())
    again.load_state_dict(match_optimizer_state("critic", state, again.state_dict()))

    assert list(again.state_dict()["state"]) == [2, 0, 1]
