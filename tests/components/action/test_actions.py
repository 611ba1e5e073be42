"""What is done at the begin of a phase: weights kept and put back, frozen, moments forgotten."""

import json
from functools import partial

import pytest
import torch

from components.action import Freeze, ResetOptimizer, Restore, Snapshot
from components.learner.gradient import Learner
from components.loss.imitation import SFTLoss
from components.loss.reduction import TokenMean
from rlcomp.errors import CheckpointError, ConfigError, FlowError
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.rows import encode_rows


def weights(policy):
    return {name: value.detach().clone() for name, value in policy.weights().items()}


def same(one, other):
    return [name for name in one if bool((one[name] == other[name]).all())]


@pytest.mark.parametrize("rank", [0, 2])
def test_the_weights_of_a_snapshot_come_back(rank):
    policy = tiny_policy("abc", rank=rank)
    snapshot = Snapshot(policy=policy)
    back = Restore(snapshot=snapshot)
    with torch.no_grad():
        for value in policy.weights().values():
            value.add_(1.0)
    snapshot.begin_phase()
    at_snapshot, version = weights(policy), policy.version
    with torch.no_grad():
        for value in policy.weights().values():
            value.mul_(3.0).add_(0.5)
    assert same(weights(policy), at_snapshot) == []

    back.begin_phase()

    assert same(weights(policy), at_snapshot) == [*at_snapshot]
    assert policy.version == version + 1
    # The copies are the snapshot's, so that a checkpoint holds them once.
    assert list(back.parameters()) + list(back.buffers()) == []


def test_without_a_snapshot_nothing_comes_back():
    policy = tiny_policy("abc")
    before = weights(policy)
    with pytest.raises(FlowError, match="the snapshot holds no weights"):
        Restore(snapshot=Snapshot(policy=policy)).begin_phase()
    assert same(weights(policy), before) == [*before]


def trained(**settings):
    torch.manual_seed(0)
    policy = tiny_policy("abc")
    optimizer = partial(torch.optim.AdamW, lr=0.1, weight_decay=0.5)
    learner = Learner(
        model=policy,
        losses={"sft": SFTLoss(reduction=TokenMean())},
        optimizer=optimizer,
        **settings,
    )
    return policy, learner, encode_rows(policy.tokenizer, ["ab", "c"], ["bc", "a"])


def step(learner, batch):
    with recording(progress=0.5) as ledger:
        learner(batch.clone())
    return ledger.means()


def test_forgotten_moments_are_those_of_a_learner_that_has_never_stepped():
    policy, learner, batch = trained(max_grad_norm=None)
    first = weights(policy)
    step(learner, batch)
    after_one = weights(policy)
    step(learner, batch)

    with torch.no_grad():
        for name, value in policy.weights().items():
            value.copy_(first[name])
    ResetOptimizer(learner=learner).begin_phase()
    assert learner.optimizer.state_dict()["state"] == {}
    step(learner, batch)
    assert same(weights(policy), after_one) == [*after_one]


def test_frozen_parameters_get_neither_step_nor_decay_and_thaw_again():
    policy, learner, batch = trained()
    before = weights(policy)
    frozen = {name for name in before if "embed" in name}
    Freeze(learner=learner, parameters="embed").begin_phase()

    step(learner, batch)

    assert 0 < len(frozen) < len(before)
    assert {*same(weights(policy), before)} == frozen

    Freeze(learner=learner).begin_phase()
    step(learner, batch)
    assert same(weights(policy), before) == []


def test_the_norm_is_of_what_moves():
    _, learner, batch = trained(max_grad_norm=None)
    with recording(progress=0.5):
        learner.accumulate(batch)
        whole = {
            n: p.grad.clone() for n, p in zip(learner.trained_names, learner.trained, strict=True)
        }
        learner.optimizer.zero_grad()
        Freeze(learner=learner, parameters="embed").begin_phase()
        learner.accumulate(batch)
        norm = learner.step()
    moving = [g.square().sum() for name, g in whole.items() if "embed" not in name]
    assert norm == pytest.approx(float(sum(moving).sqrt()), rel=1e-6)


def test_what_is_frozen_stands_in_the_checkpoint():
    _, learner, batch = trained()
    assert "frozen" not in learner.run_state()
    Freeze(learner=learner, parameters="embed").begin_phase()
    step(learner, batch)
    state = learner.run_state()
    assert json.dumps(state["frozen"])

    policy, other, _ = trained()
    other.load_run_state(state)
    before = weights(policy)
    step(other, batch)
    assert {*same(weights(policy), before)} == {name for name in before if "embed" in name}

    with pytest.raises(CheckpointError, match="frozen names parameters that learner lacks"):
        other.load_run_state({**state, "frozen": ["gone"]})


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("gone", "which matches none of the learner's"),
        (".", "which matches all of the learner's"),
        ("(", "write a regular expression"),
    ],
)
def test_a_pattern_finds_some(pattern, told):
    _, learner, _ = trained()
    with pytest.raises(ConfigError, match=told):
        Freeze(learner=learner, parameters=pattern)
