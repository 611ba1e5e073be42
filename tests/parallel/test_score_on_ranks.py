"""Passes without gradient that ranks share."""

import contextlib
from functools import partial

import pytest
import torch

from components.learner.gradient import Learner
from components.loss.imitation import SFTLoss
from components.loss.reduction import TokenMean
from components.loss.value import ValueLoss
from components.parallel import Replicate, Shard
from rlcomp.config.build import Make
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.model.causal_forward import CausalForward
from rlcomp.model.critics import Critic
from rlcomp.model.weight_snapshot import WeightSnapshot
from rlcomp.parallel.ranks import sharing
from rlcomp.testing import example_batch, tiny_model, tiny_policy

KEYS = ("tokens", "attention_mask", "response_mask")


def rows(number=8):
    found = example_batch(KEYS, rows=number)
    found["tokens"] = 2 + found["tokens"]
    return found


def learner(make, name, model, loss):
    optimizer = partial(torch.optim.SGD, lr=1.0)
    make(name, Learner, model=model, losses={"loss": loss}, optimizer=optimizer)


def scores(parallel, forward="packed"):
    """Log-probs, squares, distributions and values, and how many passes this rank made."""
    make, passes = Make(0), []
    context = sharing(parallel) if parallel else contextlib.nullcontext()
    with context as ranks, pytest.MonkeyPatch.context() as patch:
        policy = make(
            "policy", lambda: tiny_policy(scale=3.0, engine=Engine(forward=forward)).double()
        )
        critic = make("critic", lambda: Critic(model=tiny_model(policy.tokenizer)).double())
        with torch.no_grad():
            critic.value_head.weight.fill_(0.5)
        learner(make, "learner", policy, SFTLoss(reduction=TokenMean()))
        loss = ValueLoss(clip=0.2, value_coef=1.0, reduction=TokenMean())
        learner(make, "value_learner", critic, loss)
        plain = CausalForward.score

        def counted(self, columns, weights, routers):
            passes.append((ranks is not None and ranks.busy, columns.shape[0]))
            return plain(self, columns, weights, routers)

        patch.setattr(CausalForward, "score", counted)
        if ranks is not None and not ranks.lead(make.nodes):
            return passes
        with torch.no_grad():
            found = {
                "log_probs": policy.log_probs(rows()),
                "one": policy.log_probs(rows(1)),
                "cold": policy.log_probs(rows(), decoding=Decoding(temperature=0.5)),
                "squares": policy.squared_probs(rows()),
                "values": critic.values(rows()),
                "distribution": policy.log_distribution(rows()),
                "copied": policy.log_probs(rows(), WeightSnapshot(policy).weights()),
            }
        return found, passes


@pytest.mark.parametrize(
    ("size", "parallel", "forward"),
    [(2, Replicate, "packed"), (3, Shard, "packed"), (2, Shard, "transformers")],
)
def test_scores_are_those_of_one_process_and_shared(of_all, size, parallel, forward):
    (found, passes), *others = of_all(size, partial(scores, parallel(), forward))

    expected, _ = scores(None, forward)
    for key, value in expected.items():
        assert float((found[key] - value).nan_to_num().abs().max()) < 1e-12, key
        assert value.abs().sum() > 0, key
    shared = [sum(rows for busy, rows in each if busy) for each in (passes, *others)]
    # Three calls with 8 rows, one with 1; idle passes have one row each.
    assert sum(shared) >= 25
    assert max(shared) <= 25 - 3 * (size - 1)
    # What does not travel is read here alone.
    assert [rows for busy, rows in passes if not busy] == [8, 8]
    assert all(busy for each in others for busy, _ in each)


def test_with_gradient_nothing_is_shared():
    make = Make(0)
    with sharing(Replicate()) as ranks:
        policy = make("policy", tiny_policy)
        learner(make, "learner", policy, SFTLoss(reduction=TokenMean()))
        ranks.lead(make.nodes)
        ranks.call_on_all = None

        assert policy.log_probs(rows()).requires_grad
