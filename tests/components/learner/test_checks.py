"""A loss without a gradient is told by the part that cuts it."""

from functools import partial

import pytest
import torch

from components.learner.checks import check_gradient
from components.learner.gradient import Learner
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.testing import make_batch, tiny_policy


class Detaching(Clip):
    def forward(self, batch):
        batch = super().forward(batch)
        batch["surrogate"] = batch["surrogate"].detach()
        return batch


class Constant(RowLoss):
    reads = ("reward",)

    def forward(self, batch):
        return scalars(loss=batch["reward"].mean())


def rows():
    log_probs = torch.full((2, 3), -1.0, requires_grad=True)
    return make_batch(
        log_probs=log_probs,
        old_log_probs=log_probs.detach(),
        advantage=torch.ones(2, 3),
        response_mask=torch.ones(2, 3, dtype=torch.bool),
        reward=torch.ones(2),
    )


def refused(**losses):
    modules, batch = torch.nn.ModuleDict(losses), rows()
    values = {name: loss(batch.copy())["loss"] for name, loss in losses.items()}
    check_gradient(modules, values, dict.fromkeys(losses, batch))


def of(region):
    return PolicyLoss(ratio=TokenRatio(), trust_region=region, reduction=TokenMean())


def test_the_trust_region_that_detaches_is_named():
    message = (
        r"loss 'policy': trust_region \(Detaching\) writes 'surrogate' without the gradient of"
    )
    with pytest.raises(ConfigError, match=message):
        refused(policy=of(Detaching()))
    with pytest.raises(ConfigError, match=message):  # beside one that has a gradient as well
        refused(policy=of(Detaching()), other=of(Clip()))


def test_losses_with_a_gradient_are_left_alone():
    refused(policy=of(Clip()))
    refused(policy=of(Clip()), constant=Constant())


def test_losses_of_which_none_has_a_gradient_are_named():
    with pytest.raises(ConfigError, match=r"loss 'constant' has no gradient: it depends on"):
        refused(constant=Constant())


def test_hooks_are_taken_away():
    loss = of(Detaching())
    with pytest.raises(ConfigError):
        refused(policy=loss)

    assert not any(part._forward_hooks for part in loss.modules() if isinstance(part, Component))


@pytest.mark.parametrize("order", [("policy", "other"), ("other", "policy")])
def test_a_learner_refuses_a_loss_that_detaches_beside_one_that_learns(order):
    losses = {"policy": of(Detaching()), "other": of(Clip())}
    learner = Learner(
        model=tiny_policy(),
        losses={name: losses[name] for name in order},
        optimizer=partial(torch.optim.SGD, lr=1.0),
        schedule=lambda progress: 1.0,
        num_minibatches=1,
    )
    tokens = torch.tensor([[2, 3, 4], [5, 6, 7]])
    batch = rows().update({"tokens": tokens, "attention_mask": tokens > 0})
    batch["old_log_probs"] = torch.full((2, 3), -1.0)

    with pytest.raises(ConfigError, match=r"loss 'policy': trust_region \(Detaching\)"):
        learner(batch.detach())


def test_so_many_minibatches_are_no_more_than_units_of_rows(monkeypatch):
    class Pairs(Constant):
        unit_rows = 2

        def forward(self, batch):
            return scalars(loss=(batch["log_probs"] * batch["response_mask"]).mean())

        reads = ("log_probs", "response_mask")

    learner = Learner(
        model=tiny_policy(),
        losses={"pairs": Pairs()},
        optimizer=partial(torch.optim.SGD, lr=1.0),
        schedule=lambda progress: 1.0,
        num_minibatches=2,
    )
    tokens = torch.tensor([[2, 3, 4], [5, 6, 7]]).repeat(2, 1)
    batch = torch.cat([rows(), rows()]).update({"tokens": tokens, "attention_mask": tokens > 0})
    counted = []
    monkeypatch.setattr(
        "components.learner.gradient.limit_minibatches",
        lambda units, requested, name: counted.append(units) or requested,
    )

    learner(batch.detach())

    assert counted == [2]
