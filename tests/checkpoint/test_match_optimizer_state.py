import pytest
import torch

from rlcomp.checkpoint.optimizer_state import match_optimizer_state
from rlcomp.errors import CheckpointError
from rlcomp.model.optimizer import MuonAdamW


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
