"""Tokens that somebody else wrote, anywhere within a response, change nothing."""

import inspect
import pkgutil
from importlib import import_module

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import components.advantage
from components.filter import OverlongFilter
from components.kl import KLInReward
from components.kl_controller import FixedKL
from components.loss.policy import PolicyLoss
from components.loss.ratio import SequenceRatio, TokenRatio
from components.loss.reduction import SequenceMean, TokenMean
from components.loss.trust_region.clip import Clip
from components.shaping.length import SoftOverlong
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.testing.invariance import with_hole
from rlcomp.testing.subject import Subject


def advantages():
    """Yield the public advantages that need no arguments."""
    for module in pkgutil.iter_modules(components.advantage.__path__, "components.advantage."):
        for name, part in inspect.getmembers(import_module(module.name), inspect.isclass):
            is_own = part.__module__ == module.name and not name.startswith("_")
            if is_own and issubclass(part, Component):
                try:
                    yield part()
                except ConfigError:
                    continue


ADVANTAGES = [*advantages()]
OTHERS = [
    KLInReward(controller=FixedKL(kl_coef=0.1), estimator="k1"),
    KLInReward(controller=FixedKL(kl_coef=0.1), estimator="k3"),
    OverlongFilter(),
    SoftOverlong(max_length=6, buffer=4),
]
PLACES = st.integers(0, 9)  # before a column of the example
HOLES = st.lists(st.tuples(PLACES, st.integers(1, 4)), min_size=1, max_size=3)


def with_holes(subject, holes):
    """The batch with holes one after the other, and which columns are new."""
    batch, new = subject.batch, torch.zeros(subject.inside.shape[1], dtype=torch.bool)
    for place, columns in holes:
        batch, hole = with_hole(subject, batch, place, columns)
        new = hole.masked_scatter(~hole, new)
    return batch, new


def test_most_advantages_are_tried():
    assert len(ADVANTAGES) >= 24


@pytest.mark.parametrize("part", [*ADVANTAGES, *OTHERS], ids=lambda part: type(part).__name__)
@settings(max_examples=8, deadline=None)
@given(holes=HOLES)
def test_holes_change_no_advantage_no_reward_and_no_length(part, holes):
    subject = Subject(part, None)
    batch, new = with_holes(subject, holes)
    want, got = subject.run(subject.batch), subject.run(batch)

    for key in subject.writes:
        tokens = subject.spec(key).along_tokens
        if tokens:
            assert not got[key][:, new].any()
        torch.testing.assert_close(got[key][:, ~new] if tokens else got[key], want[key])


@pytest.mark.parametrize("ratio", [TokenRatio(), SequenceRatio()])
@pytest.mark.parametrize("reduction", [TokenMean(), SequenceMean()])
@settings(max_examples=8, deadline=None)
@given(holes=HOLES)
def test_holes_change_no_loss_and_no_gradient(ratio, reduction, holes):
    loss = PolicyLoss(ratio=ratio, trust_region=Clip(), reduction=reduction)
    subject = Subject(loss, None, torch.float64)
    batch, new = with_holes(subject, holes)

    def evaluated(rows):
        rows = rows.copy()
        leaf = rows["log_probs"] = rows["log_probs"].clone().requires_grad_()
        value = loss(rows)["loss"]
        value.backward()
        return value.detach(), leaf.grad

    (want, slopes), (got, found) = evaluated(subject.batch), evaluated(batch)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(found[:, ~new], slopes)
    assert not found[:, new].any()
