"""Optimiser steps that are not finite are skipped, counted and, several in a row, stop the run."""

import copy
from functools import partial

import pytest
import torch
from tensordict import TensorDict

from components.learner.anomaly import SkipNonFinite
from components.learner.gradient import Learner
from components.learner.per_objective import PerObjectiveLearner
from components.loss.entropy import AdaptiveEntropyLoss
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import NoTrustRegion
from components.loss.trust_region.covariance import ClipCov
from components.loss.trust_region.divergence import KLPenalty
from components.loss.value import ValueLoss
from components.pareto.scalarisation import RandomWeights
from rlcomp.component import Component
from rlcomp.errors import CheckpointError, NonFiniteSteps, NumericalError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN, INF = float("nan"), float("inf")


class Table(Component):
    """One log-prob, entropy and value per token id; counts what it draws and how often it moved."""

    reads = ("tokens", "response_mask")
    writes = ("log_probs", "entropy", "value")

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([-1.0, -2.0, -0.5, -1.5]))

    def forward(self, batch: TensorDict) -> TensorDict:
        torch.rand(3)  # as dropout would
        chosen = masked(self.weight[batch["tokens"]], batch["response_mask"])
        return batch.update({"log_probs": chosen, "entropy": -chosen, "value": chosen * 2})


def policy_loss(trust_region=None) -> PolicyLoss:
    parts = {"ratio": TokenRatio(), "trust_region": trust_region or NoTrustRegion()}
    return PolicyLoss(**parts, reduction=TokenMean())


def adaptive_entropy() -> AdaptiveEntropyLoss:
    return AdaptiveEntropyLoss(
        entropy_coef=0.1, target=5.0, step=0.01, maximum=1.0, reduction=TokenMean()
    )


def learner(losses=None, kind=Learner, **changed) -> Learner:
    torch.manual_seed(0)
    arguments = {
        "model": Table(),
        "losses": losses or {"policy": policy_loss()},
        "optimizer": partial(torch.optim.Adam, lr=0.1),
        "non_finite": SkipNonFinite(),
    }
    return kind(**(arguments | changed))


def batch(advantage=1.0, rows=4) -> TensorDict:
    """Rows of two response tokens; the advantage of the last one is given."""
    tokens = torch.tensor([[0, 1, 2], [0, 2, 3], [0, 3, 1], [0, 1, 1]])[:rows]
    response = torch.tensor([[False, True, True]]).expand(rows, 3)
    values = torch.tensor([[9.0, 1.0, -2.0]]).repeat(rows, 1)
    values[-1, 2] = advantage
    return make_batch(
        tokens=tokens,
        attention_mask=torch.ones(rows, 3, dtype=torch.bool),
        response_mask=response.clone(),
        old_log_probs=torch.full((rows, 3), -1.0),
        old_value=torch.zeros(rows, 3),
        returns=torch.ones(rows, 3),
        advantage=values,
    )


def state(made: Learner) -> dict[str, torch.Tensor]:
    """Everything a step may move: parameters, buffers, moments, streams."""
    own = {name: value.clone() for name, value in made.state_dict().items()}
    moments = made.optimizer.state_dict()["state"]
    own |= {f"{n}.{k}": v.clone() for n, one in moments.items() for k, v in one.items()}
    for name, module in made.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, torch.Generator):
                own[f"{name}.{key}"] = value.get_state()
            if type(value) is float or key in ("tokens", "last"):
                own[f"{name}.{key}"] = torch.as_tensor(value)
    return own | {"global": torch.get_rng_state()}


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[key].nan_to_num(7.25), other[key].nan_to_num(7.25)) for key in one
    )


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize(
    "losses",
    [
        lambda: {"policy": policy_loss()},
        lambda: {"policy": policy_loss(KLPenalty())},
        lambda: {
            "policy": policy_loss(ClipCov(share=0.5, covariance_low=-9.0, covariance_high=9.0)),
            "value": ValueLoss(clip=None, value_coef=1.0, reduction=TokenMean()),
        },
        lambda: {"policy": policy_loss(), "entropy": adaptive_entropy()},
    ],
    ids=["plain", "sums as numbers", "draws", "sums as buffers"],
)
def test_a_skipped_step_leaves_everything_as_it_was_and_is_counted(value, losses):
    made, broken = learner(losses()), batch()
    # Where the policy loss draws it sees finite advantages only.
    broken["returns" if "value" in made.losses else "advantage"][3, 2] = value
    made(batch())
    before = state(made)

    with recording() as ledger:
        made(broken)

    assert same(state(made), before)
    assert ledger.means() == {"learner/non_finite": 1.0}


def test_a_finite_step_says_so():
    made = learner()
    before = made.model.weight.detach().clone()

    with recording() as ledger:
        made(batch())

    assert ledger.means()["learner/non_finite"] == 0.0
    assert not torch.equal(made.model.weight, before)


def test_a_learner_made_by_hand_has_the_guards_of_a_config():
    made = learner(non_finite=None)

    assert made.non_finite.limit == 3
    assert made.gradient_spike.action == "count"
    assert (made.gradient_spike.factor, made.gradient_spike.window) == (10.0, 32)


def test_only_the_minibatch_that_is_not_finite_is_skipped():
    made = learner(num_minibatches=4)

    with recording() as ledger:
        made(batch(advantage=NAN))

    assert ledger.means()["learner/non_finite"] == 1.0
    assert ledger.means()["learner/tokens"] == 6.0  # two of each row that was learnt from
    assert ledger.counts["loss/policy"] == 3
    assert bool(made.model.weight.isfinite().all())
    assert next(iter(made.optimizer.state.values()))["step"] == 3


def test_an_infinite_loss_with_a_finite_gradient_is_no_step():
    # V' = clip(V, inf, inf) is infinite and has no gradient.
    made = learner({"value": ValueLoss(clip=0.2, value_coef=1.0, reduction=TokenMean())})
    rows = batch()
    rows["old_value"][0, 1] = INF
    before = state(made)

    with recording() as ledger:
        made(rows)

    assert same(state(made), before)
    assert ledger.means() == {"learner/non_finite": 1.0}
    again = learner({"value": made.losses["value"]}, non_finite=SkipNonFinite(limit=1))
    with pytest.raises(NonFiniteSteps, match="the loss value is inf, although its gradient"):
        again(rows)


def test_the_third_in_a_row_stops_the_run_and_names_the_first_bad_key():
    made = learner()
    made(batch(advantage=NAN))
    made(batch(advantage=NAN))
    before = state(made)

    # Row 3, token 2; 4 rows of two tokens.
    told = (
        r"3 optimiser steps in a row were not finite \(learner\.non_finite\.limit is 3\); "
        r"first bad key: 'advantage' is nan at \[3, 2\] \(1 of 8 values\) \(in its batch\)"
    )
    with pytest.raises(NonFiniteSteps, match=told) as stopped:
        made(batch(advantage=NAN))

    assert same(state(made), before)
    assert stopped.value.learner is made
    assert stopped.value.batch["advantage"][3, 2].isnan()


def test_a_finite_step_between_them_counts_anew():
    made = learner(non_finite=SkipNonFinite(limit=2))

    for advantage in (NAN, 1.0, NAN, 1.0, NAN):
        made(batch(advantage=advantage))

    with pytest.raises(NonFiniteSteps, match="2 optimiser steps in a row"):
        made(batch(advantage=NAN))


def test_how_many_in_a_row_goes_along_with_a_checkpoint():
    first, other = SkipNonFinite(limit=3), SkipNonFinite(limit=3)
    assert not first.count_skip()
    assert not first.count_skip()

    other.load_run_state(first.run_state())

    assert other.count_skip()


@pytest.mark.parametrize("count", [-5, "2", 1.5])
def test_a_checkpoint_with_an_impossible_count_is_refused(count):
    with pytest.raises(CheckpointError, match="in_a_row"):
        SkipNonFinite().load_run_state({"in_a_row": count})


def test_with_a_limit_of_one_the_first_stops_the_run():
    with pytest.raises(NonFiniteSteps, match="an optimiser step was not finite"):
        learner(non_finite=SkipNonFinite(limit=1))(batch(advantage=NAN))


def test_a_policy_that_took_no_step_has_no_new_version(monkeypatch):
    from rlcomp.testing import tiny_policy

    policy = tiny_policy()
    made = learner(model=policy)

    made(batch(advantage=NAN))
    skipped = int(policy.updates)
    made(batch())

    assert (skipped, int(policy.updates)) == (0, 1)


def test_the_aggregator_of_several_objectives_draws_as_if_the_step_had_not_been():
    pytest.importorskip("torchjd")
    made = learner(kind=PerObjectiveLearner, aggregator=RandomWeights())
    rows = batch()
    rows["reward_valid"] = torch.ones(4, dtype=torch.bool)
    rows["rewards"] = make_batch(a=torch.ones(4), b=torch.zeros(4))
    rows["advantages"] = torch.stack([rows["advantage"], -rows["advantage"]], -1)
    made(rows)
    before, broken = state(made), copy.deepcopy(rows)
    broken["advantages"][0, 1, 0] = NAN

    made(broken)

    assert same(state(made), before)
    made(rows)
    assert not same(state(made), before)


def test_a_trace_names_the_first_bad_key_of_each_stage_and_changes_nothing():
    made = learner()
    rows = batch(advantage=NAN)
    before = state(made)

    found = made.trace(rows)

    assert found == {
        "batch": "'advantage' is nan at [3, 2] (1 of 8 values)",
        "parameters": None,
        "outputs": None,
        "losses": "'policy' is nan",
        "gradients": "the gradient of model.weight is not finite",
    }
    assert same(state(made), before)
    assert made.model.weight.grad is None


class Endless(TokenLoss):
    """Infinite whatever it reads, with a finite gradient."""

    reads = ("response_mask", "log_probs")

    def forward(self, batch):
        return scalars(loss=self.weighted(batch)["log_probs"].sum() + INF)


def of_model(key, value):
    """Puts a value into an output of the model, at its first response token."""

    def hook(model, given, output):
        entry = output[key].clone()
        entry[0, 1] = value
        return output.set(key, entry)

    return lambda made: made.model.register_forward_hook(hook)


@pytest.mark.parametrize(
    ("inject", "told"),
    [
        (of_model("log_probs", NAN), r"'log_probs' is nan at \[0, 1\] .* \(in its outputs\)"),
        (of_model("log_probs", -INF), r"'log_probs' is -inf at \[0, 1\] .* \(in its outputs\)"),
        (of_model("value", INF), r"'value' is inf at \[0, 1\] .* \(in its outputs\)"),
        (
            lambda made: made.losses.update({"own": Endless(reduction=TokenMean())}),
            r"'own' is inf \(in its losses\)",
        ),
        (
            lambda made: made.model.weight.register_hook(lambda gradient: gradient * NAN),
            r"the gradient of model\.weight is not finite \(in its gradients\)",
        ),
    ],
    ids=["log-probs", "log-probs of nothing", "values", "loss", "gradient"],
)
def test_a_fault_after_a_finite_batch_is_named_by_its_stage(inject, told):
    value = ValueLoss(clip=None, value_coef=1.0, reduction=TokenMean())
    made = learner({"policy": policy_loss(), "value": value}, non_finite=SkipNonFinite(limit=1))
    inject(made)
    made.row_losses.update(made.losses.items())
    before = state(made)

    with pytest.raises(NonFiniteSteps, match=rf"first bad key: {told}"):
        made(batch())

    assert same(state(made), before)


def test_a_trace_of_a_finite_step_finds_nothing():
    assert set(learner().trace(batch()).values()) == {None}


def test_a_trace_does_not_look_at_outputs_outside_the_response():
    made = learner()

    def hook(model, given, output):
        return output.set("entropy", output["entropy"].index_fill(1, torch.tensor([0]), NAN))

    made.model.register_forward_hook(hook)

    assert made.trace(batch())["outputs"] is None


def test_a_trace_finds_parameters_and_outputs_and_ends_at_the_stage_that_refuses():
    made = learner()
    with torch.no_grad():
        made.model.weight[1] = INF

    found = made.trace(batch())

    # Id 1 stands at token 1 of row 0; log_ratio refuses it.
    assert found["batch"] is None
    assert found["parameters"] == "'model.weight' is not finite"
    assert found["outputs"].startswith("'log_probs' is inf at [0, 1]")
    assert found["losses"] == "'log_probs' is inf at [0, 1]"
    assert "gradients" not in found


def test_a_model_that_refuses_its_own_numbers_ends_the_trace_there():
    class Refuses(Table):
        def forward(self, batch):
            raise NumericalError("the head is not finite")

    found = learner(model=Refuses()).trace(batch())

    assert found["outputs"] == "the head is not finite"
    assert list(found) == ["batch", "parameters", "outputs"]
