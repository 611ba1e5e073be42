import pytest
import torch

from rlcomp.errors import CheckpointError
from rlcomp.io.moments import matched_moments
from rlcomp.model.muon import MuonAdamW


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
        matched_moments("critic", state, own(parameters()).state_dict())


def test_a_parameter_that_only_one_side_trains_is_named():
    state = stepped(torch.optim.AdamW(parameters()))

    with pytest.raises(CheckpointError, match=r"only the checkpoint trains norm\.weight"):
        matched_moments("critic", state, torch.optim.AdamW(parameters()[:2]).state_dict())


def test_parameters_without_names_go_by_their_place():
    state = stepped(torch.optim.AdamW([parameter for _, parameter in parameters()]))

    own = torch.optim.AdamW([parameter for _, parameter in parameters()], lr=0.5).state_dict()
    found = matched_moments("critic", state, own)

    assert found["state"] == state["state"]
    assert found["param_groups"] == own["param_groups"]
