"""Weights in parts: what rank 0 has of them, checkpoints, the packed pass, what is refused."""

import contextlib
from functools import partial
from pathlib import Path

import pytest
import torch

from components.learner.gradient import Learner
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.parallel import Hybrid, Replicate, Shard
from rlcomp.checkpoint.state import collect, restore
from rlcomp.config.build import Make
from rlcomp.engine.engine import Engine
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.model.adapters import adapters_off
from rlcomp.model.optimizer import MuonAdamW
from rlcomp.parallel.ranks import sharing
from rlcomp.testing import example_batch, tiny_policy

KEYS = ("tokens", "attention_mask", "response_mask", "old_log_probs", "advantage")


def parts(make, optimizer=None, **model):
    policy = make(
        "policy", lambda: tiny_policy(**{"num_hidden_layers": 2, **model}).to(torch.float64)
    )
    loss = PolicyLoss(
        ratio=TokenRatio(), trust_region=Clip(clip_low=0.2, clip_high=0.2), reduction=TokenMean()
    )
    learner = make(
        "learner",
        Learner,
        model=policy,
        losses={"policy": loss},
        optimizer=optimizer or partial(torch.optim.AdamW, lr=1e-2, weight_decay=0.1),
        num_minibatches=2,
    )
    return policy, learner


def batch(seed=0):
    found = example_batch(KEYS, seed=seed, dtype=torch.float64)
    found["tokens"] = 2 + found["tokens"]
    return found


def on(parallel):
    return sharing(parallel) if parallel else contextlib.nullcontext()


def apart(found, expected):
    """The largest distance of saved tensors."""
    assert found.keys() == expected.keys()
    assert all(found[key].shape == expected[key].shape for key in expected)
    return max(float((found[key].double() - expected[key].double()).abs().max()) for key in found)


def went_on(parallel, saved, seeds):
    """A run's state after some steps, from a saved state if there is one."""
    make = Make(0)
    with on(parallel) as ranks:
        parts(make)
        if ranks is not None and not ranks.lead(make.nodes):
            return None
        if saved is not None:
            restore(Path("saved"), make.nodes, *saved, keep_generators=False)
        for seed in seeds:
            with recording(progress=0.5), torch.no_grad():
                make.nodes["learner"](batch(seed))
        return collect(make.nodes)


def test_a_run_on_2_ranks_goes_on_alone_and_then_on_3_ranks(of_all):
    saved = of_all(2, partial(went_on, Shard(), None, (0, 1)))[0]
    saved = went_on(None, saved, (2,))
    tensors, state = of_all(3, partial(went_on, Shard(), saved, (3, 4)))[0]

    expected, there = went_on(None, None, range(5))
    assert apart(tensors, expected) < 1e-12
    assert any("exp_avg_sq" in key for key in tensors)
    assert state["nodes"].keys() == there["nodes"].keys()
    assert state["nodes"]["learner:"] == there["nodes"]["learner:"]


@pytest.mark.slow
def test_replicas_go_on_from_parts(of_all):
    saved = of_all(2, partial(went_on, Shard(), None, (0,)))[0]
    tensors, _ = of_all(3, partial(went_on, Replicate(), saved, (1,)))[0]

    expected, _ = went_on(None, None, (0, 1))
    assert apart(tensors, expected) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_two_dimensions_take_the_same_steps(of_all, size):
    tensors, _ = of_all(size, partial(went_on, Hybrid(parts=2), None, (0, 1)))[0]

    expected, _ = went_on(None, None, (0, 1))
    assert apart(tensors, expected) < 1e-12


def held(size):
    make = Make(0)
    with on(Shard()) as ranks:
        policy, learner = parts(make)
        if not ranks.lead(make.nodes):
            return sum(p.numel() for p in policy.parameters()), [p.shape for p in learner.trained]
        with recording(progress=0.5), torch.no_grad():
            learner(batch())
        return sum(p.numel() for p in policy.parameters()), [p.shape for p in learner.trained]


def test_each_rank_trains_its_rows_and_only_rank_0_has_the_whole(of_all):
    found = of_all(3, partial(held, 3))

    policy = tiny_policy(num_hidden_layers=2)
    whole = [p.shape for p in policy.parameters()]
    assert [count for count, _ in found] == [sum(p.numel() for p in policy.parameters()), 0, 0]
    for n, shape in enumerate(whole):
        assert sum(shapes[n][0] for _, shapes in found) == shape[0]
        # Of 15 tokens each rank has 5, of 16 numbers the first two have 6.
        assert found[0][1][n][0] == -(-shape[0] // 3)


def packed(forward):
    """How often our own pass and that of transformers ran on the parts."""
    make, counts = Make(0), {"ours": 0, "theirs": 0}
    with on(Shard()) as ranks, pytest.MonkeyPatch.context() as patch:
        policy, learner = parts(make, engine=Engine(forward=forward))
        twin = learner.strategy.module
        assert twin is not policy
        if twin.causal_forward.transformer is not None:
            plain = type(twin.causal_forward.transformer)._run

            def ours(self, *given):
                counts["ours"] += 1
                return plain(self, *given)

            patch.setattr(type(twin.causal_forward.transformer), "_run", ours)
        theirs = type(twin.model).forward

        def counted(self, *given, **named):
            counts["theirs"] += 1
            return theirs(self, *given, **named)

        patch.setattr(type(twin.model), "forward", counted)
        if not ranks.lead(make.nodes):
            return counts
        with recording(progress=0.5), torch.no_grad():
            learner(batch())
        return counts


@pytest.mark.parametrize(
    ("forward", "expected"),
    [("packed", {"ours": 2, "theirs": 0}), ("transformers", {"ours": 0, "theirs": 2})],
)
def test_parts_are_read_by_the_pass_that_the_engine_names(of_all, forward, expected):
    # Two minibatches, each one pass on each rank.
    assert of_all(2, partial(packed, forward)) == [expected, expected]


def checkpointed(parallel, forward):
    make = Make(0)
    with on(parallel) as ranks:
        parts(make, engine=Engine(checkpointing=True, forward=forward))
        if ranks is not None and not ranks.lead(make.nodes):
            return None
        with recording(progress=0.5), torch.no_grad():
            make.nodes["learner"](batch())
        return collect(make.nodes)[0]


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_layers_in_parts_are_computed_again(of_all, forward):
    found = of_all(2, partial(checkpointed, Shard(), forward))[0]

    assert apart(found, checkpointed(None, forward)) < 1e-12


def generated(parallel):
    """Answers on rank 0 behind a step; none of the others is asked to take part."""
    make = Make(0)
    with on(parallel) as ranks:
        policy, learner = parts(make)
        if ranks is not None and not ranks.lead(make.nodes):
            return None
        with recording(progress=0.5), torch.no_grad():
            learner(batch())
            patch = pytest.MonkeyPatch()
            if ranks is not None:
                patch.setattr(torch.distributed, "all_reduce", None)
                patch.setattr(ranks, "_send", None)
            draw = torch.Generator().manual_seed(0)
            rows = policy.generate([[3, 4], [5]], group_size=3, max_new_tokens=6, generator=draw)
            patch.undo()
        return rows["tokens"].tolist()


def test_what_is_in_parts_generates_without_the_other_ranks(of_all):
    assert of_all(2, partial(generated, Shard()))[0] == generated(None)


def refused(parallel, **changed):
    def build():
        make = Make(0)
        with on(parallel):
            parts(make, **changed)

    return build


@pytest.mark.parametrize(
    ("parallel", "changed", "told"),
    [
        (Shard(), {"rank": 2}, r"frozen weights \(.*\).*use parallel=replicate, or adapter=none$"),
        (
            Shard(),
            {"optimizer": partial(MuonAdamW, lr=1e-3)},
            "^optimizer is MuonAdamW, .*: use parallel=replicate, or optimizer@",
        ),
        (Hybrid(parts=2), {}, "^parallel.parts is 2, which does not divide 1 ranks: set "),
    ],
)
def test_what_cannot_be_put_into_parts_is_refused(parallel, changed, told):
    with pytest.raises(ConfigError, match=told):
        refused(parallel, **changed)()


def test_adapters_are_replicated_and_read_by_rank_0_alone_where_they_are_off(of_all):
    def adapted(parallel):
        make = Make(0)
        with on(parallel) as ranks:
            policy, learner = parts(make, rank=2)
            if ranks is not None and not ranks.lead(make.nodes):
                return None
            with recording(progress=0.5), torch.no_grad():
                learner(batch())
                found = {"on": policy.log_probs(batch())}
                with adapters_off(policy.model):
                    found["off"] = policy.log_probs(batch())
            return collect(make.nodes)[0] | found

    expected = adapted(None)  # first: peft takes seconds to import, and ranks are forked
    found = of_all(2, partial(adapted, Replicate()))[0]

    assert apart(found, expected) < 1e-12
    assert float((expected["on"] - expected["off"]).abs().max()) > 1e-3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("parallel", [Shard(), Replicate(), Hybrid(parts=1)], ids=type)
def test_nccl_takes_the_steps_of_one_process(parallel):
    def after_4_steps(parallel):
        make = Make(0)
        with sharing(parallel, "cuda") if parallel else contextlib.nullcontext() as ranks:
            policy, learner = parts(make)
            policy.to("cuda")
            assert ranks is None or ranks.lead(make.nodes)
            for seed in range(4):
                with recording(progress=0.5), torch.no_grad():
                    learner(batch(seed))
            return collect(make.nodes)[0]

    assert apart(after_4_steps(parallel), after_4_steps(None)) < 1e-12
