"""1 = 2 = 3 ranks: parameters, gradients, metrics, moments, whatever a step is made of."""

import contextlib
import importlib
import itertools
import pkgutil
import sys
from functools import partial

import pytest
import torch
from torch import nn

import components.loss
from components.learner.gradient import Learner
from components.learner.per_objective import PerObjectiveLearner
from components.loss.comparison import BradleyTerry, Davidson
from components.loss.entropy import AdaptiveEntropyLoss
from components.loss.imitation import PositiveNLL
from components.loss.labels import MultiLabelLoss, StepLabelLoss
from components.loss.link import Sigmoid
from components.loss.policy import PolicyLoss
from components.loss.preference import KTOLoss, PreferenceLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import FixedLength, SequenceMean, SequenceSum, TokenMean
from components.loss.score import LogRatio
from components.loss.trust_region.bapo import BAPO
from components.loss.trust_region.clip import Clip
from components.loss.trust_region.covariance import ClipCov, KLCov
from components.loss.trust_region.divergence import M2PO, KLPenalty
from components.loss.value import ValueLoss
from components.loss.weight.importance import SelfNormalisedWeight
from components.loss.weight.rows import BranchShareWeight, EqualRoleWeight, TopEntropy
from components.parallel import Replicate, Shard
from components.pareto.gradients import MGDA
from rlcomp.config.build import Make
from rlcomp.engine.engine import Engine
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import recording
from rlcomp.model.critics import Critic
from rlcomp.model.scorer import LabelClassifier, Scorer, TokenScorer
from rlcomp.parallel.data_parallel import DataParallelUpdate, choose_strategy
from rlcomp.parallel.ranks import sharing
from rlcomp.parallel.sharded import ShardedWeights
from rlcomp.testing import example_batch, tiny_model, tiny_policy
from rlcomp.text.tokenizer import character_tokenizer

PARTS = {
    "bapo": ("trust_region", BAPO),
    "clip_cov": ("trust_region", partial(ClipCov, share=0.3, covariance_low=0.0)),
    "kl_cov": ("trust_region", partial(KLCov, share=0.3)),
    "m2po": ("trust_region", M2PO),
    "kl_penalty": ("trust_region", KLPenalty),
    "branch_share": ("weight", BranchShareWeight),
    "equal_roles": ("weight", EqualRoleWeight),
    "self_normalised": ("weight", partial(SelfNormalisedWeight, level="token", cap=2.0, floor=0.0)),
    "top_entropy": ("weight", partial(TopEntropy, fraction=0.4)),
}
REDUCTIONS = {
    "token_mean": TokenMean,
    "sequence_mean": SequenceMean,
    "sequence_sum": SequenceSum,
    "fixed_length": partial(FixedLength, length=7),
}
SHAPES = ("uneven", "few", "masked")


def policy(shape):
    # Rows of the forward pass of transformers are dealt out one by one, empty ones as well.
    forward = "transformers" if shape == "masked" else "packed"
    return tiny_policy(scale=2.0, engine=Engine(forward=forward))


def critic(shape):
    del shape
    return Critic(model=tiny_model(character_tokenizer(characters="0123456789+=>"), scale=2.0))


def scorer(kind, shape, **more):
    return kind(policy=policy(shape), **more)


def policy_loss(part, reduction):
    slot, make = PARTS[part]
    parts = {"trust_region": Clip(clip_low=0.2, clip_high=0.2)}
    parts |= {slot: {part: make()} if slot == "weight" else make()}
    return PolicyLoss(ratio=TokenRatio(), reduction=REDUCTIONS[reduction](), **parts)


def entropy():
    return AdaptiveEntropyLoss(
        entropy_coef=0.1, target=3.0, step=0.05, maximum=1.0, reduction=TokenMean()
    )


OTHERS = {
    "positive_nll": (policy, lambda: PositiveNLL(nll_coef=0.7, reduction=TokenMean())),
    "entropy": (policy, entropy),
    "kto": (policy, lambda: KTOLoss(score=LogRatio())),
    "dpo": (policy, lambda: PreferenceLoss(score=LogRatio(), link=Sigmoid())),
    "value": (critic, lambda: ValueLoss(clip=0.2, value_coef=1.0, reduction=TokenMean())),
    "bradley_terry": (partial(scorer, Scorer), BradleyTerry),
    "davidson": (partial(scorer, Scorer), Davidson),
    "labels": (partial(scorer, LabelClassifier, labels=("a", "b")), MultiLabelLoss),
    "steps": (partial(scorer, TokenScorer), StepLabelLoss),
}
# One word a case: the part or the loss, then how rows are weighted, then their shape.
EVERY = [
    *("/".join(case) for case in itertools.product(PARTS, REDUCTIONS, SHAPES)),
    *("/".join(case) for case in itertools.product(OTHERS, ("own",), SHAPES)),
]
SOME = [
    "bapo/token_mean/uneven",
    "clip_cov/sequence_mean/few",
    "top_entropy/fixed_length/masked",
    "kl_penalty/sequence_sum/uneven",
    "davidson/own/masked",
]


class Watched(Learner):
    """Shows its gradient, whole, on any number of ranks."""

    def gradients(self):
        if not hasattr(self.strategy, "weights"):
            return [parameter.grad for parameter in self.trained]
        whole, divided = self.strategy.weights.full, self.strategy.weights.is_shard
        return [whole(p.grad, p) if divided(p) else p.grad for p in self.trained]


def learner(make, case, dtype):
    one, reduction, shape = case.split("/")
    model, loss = OTHERS.get(one) or (policy, partial(policy_loss, one, reduction))
    name = case.replace("/", "-")
    model = make(f"{name}-model", lambda: model(shape).to(dtype))
    return make(
        name,
        Watched,
        model=model,
        losses={"loss": loss()},
        optimizer=partial(torch.optim.AdamW, lr=1e-2),
        num_minibatches=1 if shape == "few" else 2,
        epochs=4 if shape == "few" else 2,
        micro_batch_tokens=40,
        max_grad_norm=0.1,
    )


def rows(learner, case, dtype):
    shape, written = case.split("/")[2], {*learner.model.out_keys, "loss_weight"}
    keys = {"tokens", "attention_mask", "response_mask", "reward_valid", *learner.loss_keys}
    parts = [part for loss in learner.losses.values() for part in loss.modules()]
    made = {key for part in parts for key in getattr(part, "out_keys", ())}
    made |= {key for part in parts for key in getattr(part, "step_keys", ())}
    keys = {key for key in keys - made - written if isinstance(key, str)}
    batch = example_batch(keys, rows=8, dtype=dtype)
    batch["tokens"] = 2 + batch["tokens"]  # no padding among them
    if shape == "few":  # one row, or one pair, for all ranks
        return batch[4 : 4 + learner.unit_rows]
    if shape == "masked":  # of 2 ranks the first has empty responses only, of 3 two have
        batch = batch[3:7] if learner.unit_rows == 2 else batch[3:6]
        batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
        batch["response_mask"][slice(2) if learner.unit_rows == 2 else slice(None, None, 2)] = False
    return batch


def taken(learner, batch):
    """What there is of four steps, and of the gradient before them."""
    with recording(progress=0.5), torch.no_grad():
        learner.accumulate(batch)
        gradients = learner.strategy.run(learner, "gradients")
    with recording(progress=0.5) as ledger, torch.no_grad():
        learner(batch)
    moments = learner.run_state()["optimizer"]["state"]
    parameters = [parameter.detach().clone() for parameter in learner.parameters()]
    return gradients, parameters, ledger.means(), [moments[n] for n in sorted(moments)]


def alone(cases, dtype):
    found = {}
    for case in cases:
        one = learner(Make(0), case, dtype)
        found[case] = taken(one, rows(one, case, dtype))
    return found


def shared(parallel, cases, dtype):
    make = Make(0)
    with sharing(parallel()) as ranks:
        learners = {case: learner(make, case, dtype) for case in cases}
        if not ranks.lead(make.nodes):
            return None
        return {case: taken(one, rows(one, case, dtype)) for case, one in learners.items()}


def apart(one, other):
    """The largest distance of two nested lists and dicts of tensors and numbers."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        return max((apart(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list):
        assert len(one) == len(other)
        return max((apart(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    one, other = (torch.as_tensor(x, dtype=torch.float64) for x in (one, other))
    assert one.shape == other.shape
    return float((one - other).abs().max()) if one.numel() else 0.0


def prepared():
    """Classes of every part of a loss that looks at all rows of a step before its passes."""
    for place in pkgutil.walk_packages(components.loss.__path__, "components.loss."):
        for kind in vars(importlib.import_module(place.name)).values():
            own = isinstance(kind, type) and kind.__module__ == place.name
            if own and issubclass(kind, LossPart) and kind.step_keys:
                yield kind


def test_every_part_that_prepares_is_among_the_cases():
    made = {make.func if isinstance(make, partial) else make for _, make in PARTS.values()}

    assert {kind.__name__ for kind in prepared()} - {kind.__name__ for kind in made} == set()


def shares(case):
    """Of each pass over the rows of a batch: how many this rank has, and their response tokens."""
    make, found = Make(0), []
    with pytest.MonkeyPatch.context() as patch, sharing(Replicate()) as ranks:
        mine = DataParallelUpdate._local_passes

        def noted(self, rows, split):
            own, pieces = mine(self, rows, split)
            found.append((len(own), int(rows[own]["response_mask"].sum())))
            return own, pieces

        patch.setattr(DataParallelUpdate, "_local_passes", noted)
        one = learner(make, case, torch.float64)
        if ranks.lead(make.nodes):
            with recording(progress=0.5), torch.no_grad():
                one.accumulate(rows(one, case, torch.float64))
    return found


@pytest.mark.parametrize(
    ("size", "case", "empty"),
    [
        (2, "top_entropy/token_mean/masked", 1),
        (3, "top_entropy/token_mean/masked", 2),
        (2, "davidson/own/masked", 1),
    ],
)
def test_masked_rows_leave_ranks_without_a_token_that_is_learnt_from(of_all, size, case, empty):
    of_ranks = of_all(size, partial(shares, case))

    assert all(all(count for count, _ in found) for found in of_ranks)
    assert sum(all(tokens == 0 for _, tokens in found) for found in of_ranks) == empty


def test_a_single_row_leaves_ranks_without_any(of_all):
    of_ranks = of_all(3, partial(shares, "top_entropy/token_mean/few"))

    assert [{count for count, _ in found} for found in of_ranks] == [{1}, {0}, {0}]


def check(found, expected):
    for case in expected:
        for what, ours, theirs in zip(
            ("gradient", "parameters", "metrics", "moments"),
            found[case],
            expected[case],
            strict=True,
        ):
            assert apart(ours, theirs) < 1e-12, (case, what)


def test_ranks_take_the_steps_of_one_process(of_all):
    found = of_all(2, partial(shared, Shard, SOME, torch.float64))[0]

    check(found, alone(SOME, torch.float64))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("turn", "size", "parallel"),
    [(0, 2, Replicate), (1, 3, Replicate), (2, 2, Shard), (3, 3, Shard)],
)
def test_ranks_take_the_steps_of_one_process_whatever_they_are_made_of(
    of_all, turn, size, parallel
):
    # Every case once: neighbours differ in the shape of their rows, and go to other ranks.
    cases = EVERY[turn::4]

    found = of_all(size, partial(shared, parallel, cases, torch.float64), alarm=300)[0]

    check(found, alone(cases, torch.float64))


# One learner, to be broken. SGD: the size of a gradient counts.
CASE = "top_entropy/token_mean/uneven"


def stepped(parallel, change=lambda patch: None, dtype=torch.float64, optimizer=None):
    """Gradient, parameters and metrics of two steps, with scoring in front of and between them."""
    make = Make(0)
    with (
        pytest.MonkeyPatch.context() as patch,
        sharing(parallel) if parallel else contextlib.nullcontext() as ranks,
    ):
        change(patch)
        model = make("policy", lambda: policy("uneven").to(dtype))
        one = make(
            "learner",
            Watched,
            model=model,
            losses={"loss": policy_loss("top_entropy", "token_mean")},
            optimizer=optimizer or partial(torch.optim.SGD, lr=0.5),
            max_grad_norm=None,
        )
        if ranks is not None and not ranks.lead(make.nodes):
            return None
        batch = rows(one, CASE, dtype)
        with recording(progress=0.5) as ledger, torch.no_grad():
            before = model.log_probs(batch)
            one.accumulate(batch)
            gradients = one.strategy.run(one, "gradients")
            one(batch)
            between = model.log_probs(batch)
            one(batch)
            parameters = [parameter.detach().clone() for parameter in model.parameters()]
            return {
                "gradients": gradients,
                "log_probs": [before, between, model.log_probs(batch)],
                "parameters": parameters,
                "metrics": ledger.means(),
            }


def far(found, expected):
    """What of it is not that of one process, to 1e-6."""
    return {key for key, value in found.items() if not apart(value, expected[key]) < 1e-6}


@pytest.mark.parametrize("parallel", [Replicate, Shard])
def test_scores_and_steps_on_ranks_are_those_of_one_process(of_all, parallel):
    found = of_all(2, partial(stepped, parallel()))[0]

    assert apart(found, stepped(None)) < 1e-12


@pytest.mark.parametrize("parallel", [Replicate, Shard])
def test_float32_gradients_agree_to_1e_minus_5(of_all, parallel):
    # Where gloo takes another branch than in float64.
    found = of_all(2, partial(stepped, parallel(), dtype=torch.float32))[0]["gradients"]

    expected = stepped(None, dtype=torch.float32)["gradients"]
    size = max(float(grad.abs().max()) for grad in expected)
    assert size > 0.01
    assert apart(found, expected) < 1e-5 * size


def average_parts(patch):
    patch.setattr("torch.distributed.fsdp.FSDPModule.set_gradient_divide_factor", lambda *_: None)


def average_copies(patch):
    plain = torch.distributed.all_reduce

    def averaged(tensor, *given, **named):
        plain(tensor, *given, **named)
        if tensor.numel() > 100:  # a flat gradient
            tensor /= 2

    patch.setattr("rlcomp.parallel.weights.dist.all_reduce", averaged)


@pytest.mark.parametrize(
    ("parallel", "change"), [(Shard, average_parts), (Replicate, average_copies)]
)
def test_gradients_that_are_averaged_over_ranks_are_wrong(of_all, parallel, change):
    found = of_all(2, partial(stepped, parallel(), change))[0]

    expected = stepped(None)
    assert {"gradients", "parameters"} <= far(found, expected)
    halves = [grad / 2 for grad in expected["gradients"]]
    assert apart(found["gradients"], halves) < 1e-12


def test_without_idle_passes_ranks_wait_for_one_another(ranks_of):
    def change(patch):
        patch.setattr(
            DataParallelUpdate,
            "_passes",
            lambda self, rows, split: self._local_passes(rows, split)[1],
        )
        # All rows to rank 0.
        patch.setattr(
            "rlcomp.parallel.data_parallel.assign_rows",
            lambda rows, split, size: [torch.arange(len(rows)), torch.arange(0)],
        )

    ended = ranks_of(2, partial(stepped, Shard(timeout=2.0), change), alarm=30)

    assert all(one.error is not None or not one.there for one in ended)
    assert any("longer than parallel.timeout=2 seconds" in (one.error or "") for one in ended)


def rescored(parallel, change=lambda patch: None):
    """Log-probs of a policy, and again when rank 0 has other weights: of a checkpoint, say."""
    make = Make(0)
    with (
        pytest.MonkeyPatch.context() as patch,
        sharing(parallel) if parallel else contextlib.nullcontext() as ranks,
    ):
        change(patch)
        one = learner(make, CASE, torch.float64)
        if ranks is not None and not ranks.lead(make.nodes):
            return None
        batch = rows(one, CASE, torch.float64)
        with torch.no_grad():
            found = [one.model.log_probs(batch)]
            for parameter in one.model.parameters():
                parameter.mul_(1.5)
            found.append(one.model.log_probs(batch))
        return found


@pytest.mark.parametrize("parallel", [Replicate, Shard])
def test_what_rank_0_writes_into_its_weights_reaches_the_others(of_all, parallel):
    found, expected = of_all(2, partial(rescored, parallel()))[0], rescored(None)

    assert apart(found, expected) < 1e-12
    assert apart(*expected) > 0.1


def test_without_resharding_after_scoring_new_weights_do_not_reach_the_next_pass(of_all):
    def change(patch):
        patch.setattr(ShardedWeights, "reshard", lambda self: None)

    found, expected = of_all(2, partial(rescored, Shard(), change))[0], rescored(None)

    assert apart(found[0], expected[0]) < 1e-12
    assert apart(found[1], expected[1]) > 0.1


def early(made):
    """An optimiser that holds the model's parameters as they were before the ranks shared them."""

    def optimizer(named):
        del named
        return torch.optim.SGD(made[-1].parameters(), lr=0.5)

    return optimizer


def with_early_optimizer(change=lambda patch: None):
    made = []

    def noted(patch):
        plain = Make.__call__

        def call(self, path, target, **arguments):
            result = plain(self, path, target, **arguments)
            made.append(result)
            return result

        patch.setattr(Make, "__call__", call)
        change(patch)

    return stepped(Shard(), noted, optimizer=early(made))


def test_an_optimiser_from_before_sharding_is_refused(ranks_of):
    ended = ranks_of(2, with_early_optimizer)

    told = "ConfigError: optimizer holds parameters from before they were put into parts"
    assert all(told in one.error for one in ended)


def test_an_optimiser_from_before_sharding_would_step_what_nobody_reads(of_all):
    def unchecked(patch):
        patch.setattr(DataParallelUpdate, "check", lambda self, optimizer: None)

    found = of_all(2, partial(with_early_optimizer, unchecked))[0]

    assert "parameters" in far(found, stepped(None))
    first, *_, last = found["log_probs"]
    assert torch.equal(first, last)


def test_without_the_ledgers_of_other_ranks_metrics_are_of_some_rows(of_all):
    def change(patch):
        patch.setattr("rlcomp.parallel.data_parallel.merge_ledgers", lambda ledgers: ledgers[0])

    found = of_all(2, partial(stepped, Replicate(), change))[0]

    assert far(found, stepped(None)) == {"metrics"}


def spoilt(parallel, key, value):
    """Steps of which two have a row that is no number: how many are skipped, and what is moved."""
    make = Make(0)
    with sharing(parallel()) if parallel else contextlib.nullcontext() as ranks:
        one = learner(make, CASE, torch.float64)
        start = [parameter.detach().clone() for parameter in one.parameters()]
        if ranks is not None and not ranks.lead(make.nodes):
            return None
        batch = rows(one, CASE, torch.float64)
        batch[key][7] = value
        with recording(progress=0.5) as ledger, torch.no_grad():
            one(batch)
            told = ""
            if key == "advantage":
                one.accumulate(batch)
                with pytest.raises(NumericalError) as error:
                    one.step(progress=0.5)
                told = str(error.value)
        moved = apart([parameter.detach() for parameter in one.parameters()], start)
        return ledger.means()["learner/non_finite"], moved, told


@pytest.mark.parametrize("key", ["old_log_probs", "advantage"])
def test_what_is_not_finite_on_one_rank_skips_the_step_on_all(of_all, key):
    value = torch.nan if key == "old_log_probs" else torch.inf
    skipped, moved, told = spoilt(None, key, value)

    assert skipped == 2.0  # of four steps, the two with that row
    assert moved > 0.01
    assert bool(told) == (key == "advantage")
    for parallel in (Replicate, Shard):
        found = of_all(2, partial(spoilt, parallel, key, value))[0]

        assert found[:2] == pytest.approx((skipped, moved), abs=1e-12)
        assert found[2] == told


def objectives(parallel):
    """Two steps along an aggregated gradient, some parameters outside the Jacobian."""
    make = Make(0)
    with sharing(parallel) if parallel else contextlib.nullcontext() as ranks:
        model = make("policy", lambda: policy("uneven").to(torch.float64))
        one = make(
            "learner",
            PerObjectiveLearner,
            model=model,
            losses={
                "loss": policy_loss("top_entropy", "token_mean"),
                "imitation": PositiveNLL(nll_coef=0.3, reduction=SequenceMean()),
            },
            aggregator=MGDA(row_norm="none"),
            compared="layers",
            optimizer=partial(torch.optim.SGD, lr=0.5),
            epochs=2,
            micro_batch_tokens=40,
        )
        if ranks is not None and not ranks.lead(make.nodes):
            return None
        keys = ("tokens", "attention_mask", "response_mask", "old_log_probs", "advantage")
        batch = example_batch(
            (*keys, "advantages", "rewards", "reward_valid", "correct"), dtype=torch.float64
        )
        batch["tokens"] = 2 + batch["tokens"]
        with recording(progress=0.5) as ledger, torch.no_grad():
            one(batch)
        return [p.detach().clone() for p in model.parameters()], ledger.means()


def test_gradients_of_objectives_are_compared_over_all_ranks(of_all):
    found, expected = of_all(2, partial(objectives, Replicate()))[0], objectives(None)

    assert apart(list(found[0]), list(expected[0])) < 1e-12
    assert apart(found[1], expected[1]) < 1e-12


def test_gradients_of_objectives_are_not_compared_in_parts(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchjd", None)  # an extra would not help

    with pytest.raises(ConfigError, match=r"^learner compares whole gradients.*=replicate$"):
        objectives(Shard())


@pytest.mark.parametrize(
    ("model", "losses", "told"),
    [
        (None, {"own": nn.Identity()}, "its losses hold their own models"),
        ("policy", {"foreign": nn.Identity()}, "a loss averages over its rows"),
        ("control", {}, "Control does not read rows of tokens"),
    ],
)
def test_learners_whose_steps_cannot_be_shared_are_refused(model, losses, told):
    class Control(nn.Module):
        in_keys = ("observation",)

    given = {"policy": partial(policy, "uneven"), "control": Control}.get(model, lambda: None)()

    assert choose_strategy(given, [], sums=not losses).module is given  # of one process
    with sharing(Replicate()), pytest.raises(ConfigError, match=rf"^parallel: .*{told}.*seed=0,1$"):
        choose_strategy(given, [], sums=not losses)
