import copy
import math
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchjd import aggregation

from components.learner.anomaly import SkipNonFinite
from components.learner.gradient import Learner
from components.learner.per_objective import PerObjectiveLearner
from components.loss.imitation import SFTLoss
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import SequenceMean, TokenMean
from components.loss.trust_region.clip import Clip, NoTrustRegion
from components.loss.trust_region.covariance import KLCov
from rlcomp.component import Component
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.errors import ConfigError, MissingExtra, NonFiniteSteps, ShapeError
from rlcomp.functional.min_norm import min_norm
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import recording
from rlcomp.pareto.aggregator import Aggregator
from rlcomp.testing import make_batch, tiny_policy

GOLDEN = Path(__file__).parents[2] / "golden" / "preference"


class Fixed(Aggregator):
    """The weights it is given; keeps what it was shown."""

    def __init__(self, *weights):
        super().__init__()
        self.weights = torch.tensor(weights, dtype=torch.float64)

    def weigh(self, objectives):
        self.seen = objectives
        return self.weights


class OfGram(Aggregator):
    """A function of the inner products."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def weigh(self, objectives):
        self.seen, self.given = objectives, self.function(objectives.gram)
        return self.given


class Table(Component):
    """One log-prob per token id: gradients can be had by hand."""

    reads = ("tokens", "response_mask")
    writes = ("log_probs",)

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
        self.other = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
        self.calls = 0

    def forward(self, batch):
        self.calls += 1
        chosen = (self.weight + self.other)[batch["tokens"]]
        batch["log_probs"] = masked(chosen, batch["response_mask"])
        return batch


def policy_loss(trust_region=None, reduction=None):
    region, mean = trust_region or NoTrustRegion(), reduction or TokenMean()
    return PolicyLoss(ratio=TokenRatio(), trust_region=region, reduction=mean)


def learner(model, aggregator, losses=None, **changed):
    arguments = {
        "model": model,
        "losses": losses or {"policy": policy_loss()},
        "aggregator": aggregator,
        "optimizer": partial(torch.optim.SGD, lr=1.0),
        "max_grad_norm": None,
    }
    return PerObjectiveLearner(**(arguments | changed))


def batch():
    """Response tokens 1, 1, 2 | 3; one objective wants all of them, the other token 3."""
    tokens = torch.tensor([[1, 1, 2], [3, 0, 0]])
    filled = tokens > 0
    right = torch.tensor([1.0, 2.0], dtype=torch.float64)
    short = torch.tensor([torch.nan, 5.0])
    return make_batch(
        tokens=tokens,
        attention_mask=filled,
        response_mask=filled,
        old_log_probs=torch.zeros(2, 3, dtype=torch.float64),
        advantage=torch.full((2, 3), torch.nan),
        advantages=torch.stack([filled.double(), 2.0 * (tokens == 3)], -1),
        rewards={"right": right, "short": short},
        reward_valid=torch.ones(2, dtype=torch.bool),
    )


def make_policy(rank=0, engine=AUTO):
    policy = tiny_policy(num_hidden_layers=2, rank=rank, engine=engine)
    for name, parameter in policy.model.named_parameters():
        if "lora_B" in name:  # zero at first, which leaves lora_A without gradient
            parameter.data.normal_(std=0.1)
    return policy.double()


def many_rows(objectives=3, width=12):
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(2, 10, (9, width), generator=draw)
    tokens[1, :2] = tokens[0, :2]  # two answers to one prompt
    filled = torch.arange(width)[None, :] < torch.randint(4, width + 1, (9, 1), generator=draw)
    response = filled & (torch.arange(width)[None, :] >= 2)
    response[3] = False
    shape = (9, width, objectives)
    return make_batch(
        tokens=tokens,
        attention_mask=filled,
        response_mask=response,
        old_log_probs=-2 - torch.rand(9, width, generator=draw, dtype=torch.float64),
        advantage=torch.zeros(9, width, dtype=torch.float64),
        advantages=torch.randn(shape, generator=draw, dtype=torch.float64),
        rewards=TensorDict({str(k): torch.zeros(9) for k in range(objectives)}, batch_size=[9]),
        reward_valid=torch.ones(9, dtype=torch.bool),
    )


def manual_jacobian(policy, rows):
    """Of the clipped surrogates, mean over tokens; shape [K, D]."""
    mask = rows["response_mask"]
    log_probs = policy(rows.copy())["log_probs"]
    trained = [p for p in policy.parameters() if p.requires_grad]
    found = []
    for advantage in rows["advantages"].unbind(-1):
        ratio = (log_probs - rows["old_log_probs"])[mask].exp()
        gain = torch.minimum(ratio * advantage[mask], ratio.clamp(0.8, 1.2) * advantage[mask])
        row = torch.autograd.grad(-gain.mean(), trained, retain_graph=True, materialize_grads=True)
        found.append(torch.cat([part.flatten() for part in row]))
    return torch.stack(found)


def step_of(module, act):
    """What a step of size 1 took away from the trained parameters, in one row."""
    trained = [p for p in module.parameters() if p.requires_grad]
    before = torch.cat([p.detach().flatten().clone() for p in trained])
    act()
    return before - torch.cat([p.detach().flatten() for p in trained])


def clipped():
    return {"policy": policy_loss(Clip(clip_low=0.2, clip_high=0.2))}


def test_a_step_follows_the_weighted_sum_of_the_objectives_gradients():
    table, aggregator = Table(), Fixed(0.5, 0.25)

    learner(table, aggregator)(batch())

    # All ratios are 1: the rows are -(0, 2, 1, 1) / 4 and -(0, 0, 0, 2) / 4, learning rate 1.
    assert table.weight.tolist() == [0.0, 0.25, 0.125, 0.125 + 0.125]


def test_the_aggregator_gets_gradients_to_ascend_with_names_and_returns():
    table, aggregator = Table(), Fixed(1.0, 1.0)

    learner(table, aggregator)(batch())

    seen = aggregator.seen
    assert seen.names == ("right", "short")
    assert seen.returns.tolist() == [1.5, 5.0]  # NaN is a row without that objective
    # Both tables get the rows (0, 2, 1, 1) / 4 and (0, 0, 0, 2) / 4.
    assert seen.gram.tolist() == [[2 * 6 / 16, 2 * 2 / 16], [2 * 2 / 16, 2 * 4 / 16]]
    assert seen.means.tolist() == [1 / 4, 2 / 16]
    assert seen.preference is None


def test_a_row_that_could_not_be_judged_has_no_return():
    rows, aggregator = batch(), Fixed(1.0, 1.0)
    rows["reward_valid"] = torch.tensor([True, False])

    learner(Table(), aggregator)(rows)

    assert aggregator.seen.returns[0] == 1.0
    assert aggregator.seen.returns[1].isnan()


def test_the_metrics_are_of_the_gradients():
    with recording() as ledger:
        learner(Table(), Fixed(0.5, 0.25))(batch())

    assert ledger.means()["pareto/gradient/weight/short"] == 0.25
    assert not any(
        key.startswith(("pareto/reward/", "pareto/advantage/")) for key in ledger.means()
    )


def test_weights_for_a_unit_of_return_are_those_of_advantages_in_reward_units():
    class OfReturns(Fixed):
        reward_units = True

    rows, table, aggregator = batch(), Table(), OfReturns(0.5, 0.25)
    # Each objective's advantages are in units of these.
    rows["advantage_scale"] = torch.tensor([[4.0, 0.5]] * 2)

    learner(table, aggregator)(rows)

    # 0.5 * 4 of (0, 2, 1, 1) / 4 and 0.25 * 0.5 of (0, 0, 0, 2) / 4.
    assert table.weight.tolist() == [0.0, 1.0, 0.5, 0.5 + 0.0625]
    # As without a scale, times 16, 2, 2 and 1 / 4.
    assert aggregator.seen.gram.tolist() == [[12.0, 0.5], [0.5, 0.125]]
    assert aggregator.seen.means.tolist() == [1.0, 1 / 16]


def test_other_weights_are_those_of_the_advantages_as_they_are():
    rows, table = batch(), Table()
    rows["advantage_scale"] = torch.tensor([[4.0, 0.5]] * 2)

    learner(table, Fixed(0.5, 0.25))(rows)

    assert table.weight.tolist() == [0.0, 0.25, 0.125, 0.125 + 0.125]


def test_the_model_reads_every_micro_batch_once_for_any_number_of_objectives():
    table = Table()

    learner(table, Fixed(1.0, 1.0), micro_batch_tokens=1)(batch())

    assert table.calls == 2


@pytest.mark.parametrize("budget", [None, 40, 12, 1])
def test_the_jacobian_is_that_of_the_whole_step_for_every_split(budget):
    policy, rows = make_policy(), many_rows()
    jacobian = manual_jacobian(policy, rows)
    weights, aggregator = torch.tensor([0.7, -0.2, 1.5]).double(), Fixed(0.7, -0.2, 1.5)

    stage = learner(policy, aggregator, clipped(), micro_batch_tokens=budget)
    step = step_of(policy, lambda: stage(rows))

    torch.testing.assert_close(aggregator.seen.gram, jacobian @ jacobian.T, rtol=1e-7, atol=1e-12)
    torch.testing.assert_close(step, weights @ jacobian, rtol=1e-6, atol=1e-9)


def test_one_objective_is_the_plain_learner_bit_for_bit():
    rows = many_rows(objectives=1)
    policy = make_policy()
    other = copy.deepcopy(policy)
    plain = {"optimizer": partial(torch.optim.AdamW, lr=0.1), "micro_batch_tokens": 30}

    learner(policy, Fixed(1.0), clipped(), **plain, epochs=2)(rows)
    rows["advantage"] = rows["advantages"][..., 0]
    Learner(model=other, losses=clipped(), **plain, epochs=2, max_grad_norm=None)(rows)

    for ours, theirs in zip(policy.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_a_parameter_outside_the_graph_is_left_alone_and_one_at_0_decays(weight_decay):
    class Wider(Table):
        def __init__(self):
            super().__init__()
            self.idle = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
            self.weight.data.fill_(1.0)

    rows, table, other = batch(), Wider(), Wider()
    rows["rewards"] = rows["rewards"].select("right")
    # No answer is better than another: the gradient is 0.
    rows["advantages"] = torch.zeros(2, 3, 1, dtype=torch.float64)
    adam = {"optimizer": partial(torch.optim.AdamW, lr=0.1, weight_decay=weight_decay)}

    learner(table, Fixed(1.0), **adam)(rows)
    rows["advantage"] = rows["advantages"][..., 0]
    Learner(model=other, losses={"policy": policy_loss()}, **adam)(rows)

    assert table.idle.grad is None
    assert table.idle.tolist() == other.idle.tolist() == [1.0, 1.0]
    assert table.weight.tolist() == other.weight.tolist() == [1 - 0.1 * weight_decay] * 4


def test_a_duplicated_objective_changes_no_step_of_the_shortest_combination():
    policy, rows, doubled = make_policy(), many_rows(2), many_rows(3)
    other = copy.deepcopy(policy)
    doubled["advantages"] = rows["advantages"][..., [0, 1, 1]]

    once = step_of(policy, lambda: learner(policy, OfGram(min_norm), clipped())(rows))
    twice = step_of(other, lambda: learner(other, OfGram(min_norm), clipped())(doubled))

    torch.testing.assert_close(twice, once, rtol=1e-7, atol=1e-12)


def test_a_loss_without_advantage_is_no_objective_and_is_added_once():
    table, aggregator = Table(), Fixed(0.0, 0.0)
    losses = {"sft": SFTLoss(reduction=TokenMean()), "policy": policy_loss()}

    with recording() as ledger:
        learner(table, aggregator, losses, micro_batch_tokens=1)(batch())

    # Imitation alone: -(2 w1 + w2 + w3) / 4.
    assert table.weight.tolist() == [0.0, 0.5, 0.25, 0.25]
    assert aggregator.seen.gram.tolist() == [[0.75, 0.25], [0.25, 0.5]]
    assert ledger.means()["loss/policy"] == 0.0


def test_several_losses_without_advantage_add_up():
    table = Table()
    losses = {"one": SFTLoss(reduction=TokenMean()), "two": SFTLoss(reduction=SequenceMean())}

    learner(table, Fixed(0.0, 0.0), losses | {"policy": policy_loss()})(batch())

    # -(2 w1 + w2 + w3) / 4 and -((2 w1 + w2) / 3 + w3) / 2.
    wanted = [0.0, 0.5 + 1 / 3, 0.25 + 1 / 6, 0.25 + 0.5]
    assert table.weight.tolist() == pytest.approx(wanted)


def test_losses_that_read_the_advantage_add_up_in_every_objective():
    table, losses = Table(), {"one": policy_loss(), "two": policy_loss(reduction=SequenceMean())}

    with recording() as ledger:
        learner(table, Fixed(0.5, 0.25), losses)(batch())

    # The first as above. The second: 2 / 3 and 1 / 3 of half for the first row, half for the other:
    # (0, 1/3, 1/6, 1/2) and (0, 0, 0, 1).
    wanted = [0.0, 0.25 + 1 / 6, 0.125 + 1 / 12, 0.25 + 0.5]
    assert table.weight.tolist() == pytest.approx(wanted)
    assert ledger.means()["loss/one"] == pytest.approx(-0.5 - 0.125)
    assert ledger.means()["loss/two"] == pytest.approx(-0.5 - 0.25)


def test_the_graph_of_a_micro_batch_is_freed_with_its_last_objective():
    loss, values = policy_loss(), []
    loss.register_forward_hook(lambda *given: values.append(given[-1]["loss"]))

    learner(Table(), Fixed(0.5, 0.25), {"policy": loss}, micro_batch_tokens=1)(batch())

    assert len(values) == 2 * 2
    for value in values[1::2]:
        with pytest.raises(RuntimeError, match="a second time"):
            value.backward()


def test_the_loss_recorded_is_the_weighted_sum_of_the_objectives():
    with recording() as ledger:
        learner(Table(), Fixed(0.5, 0.25), micro_batch_tokens=1)(batch())

    # Ratio 1: -4 / 4 and -2 / 4.
    assert ledger.means()["loss/policy"] == pytest.approx(-0.5 - 0.125)
    assert ledger.counts["loss/policy"] == 1


def test_each_objective_prepares_for_itself():
    # Log-probs 1, 0, -1; advantages 0, 0, -3 and 3, 0, 0: their covariance is highest at the last
    # token for one objective, (-1)(-2) = 2, and at the first for the other, 1 * 2 = 2.
    rows = batch()[:1]
    rows["tokens"] = torch.tensor([[1, 3, 2]])
    rows["advantages"] = torch.tensor([[[0.0, 3.0], [0.0, 0.0], [-3.0, 0.0]]]).double()
    chosen = []

    class Watching(KLCov):
        def prepare(self, batch):
            prepared = super().prepare(batch)
            chosen.append(prepared["selected"].tolist())
            return prepared

    table = Table()
    table.weight.data = torch.tensor([0.0, 1.0, -1.0, 0.0]).double()
    learner(table, Fixed(1.0, 1.0), {"policy": policy_loss(Watching(share=0.3))})(rows)

    assert chosen == [[[False, False, True]], [[True, False, False]]]


@pytest.mark.parametrize("budget", [None, 12])
def test_parameters_that_are_not_compared_follow_the_same_weighted_sum(budget):
    policy, rows = make_policy(), many_rows()
    jacobian = manual_jacobian(policy, rows)
    sizes = {name: p.numel() for name, p in policy.named_parameters()}
    compared = torch.cat([torch.full((n,), "mlp" in name) for name, n in sizes.items()])
    aggregator = Fixed(0.7, -0.2, 1.5)

    stage = learner(policy, aggregator, clipped(), compared="mlp", micro_batch_tokens=budget)
    step = step_of(policy, lambda: stage(rows))

    of_mlp = jacobian[:, compared]
    torch.testing.assert_close(aggregator.seen.gram, of_mlp @ of_mlp.T, rtol=1e-7, atol=1e-12)
    expected = torch.tensor([0.7, -0.2, 1.5]).double() @ jacobian
    torch.testing.assert_close(step, expected, rtol=1e-6, atol=1e-9)
    assert 0 < int(compared.sum()) < len(compared)


def test_a_second_pass_adds_other_losses_once_and_records_nothing_twice():
    table, other = Table(), Table()
    losses = {"sft": SFTLoss(reduction=TokenMean()), "policy": policy_loss()}

    with recording() as ledger:
        learner(table, Fixed(0.5, 0.25), losses, compared="weight")(batch())
    with recording() as plain:
        learner(other, Fixed(0.5, 0.25), losses)(batch())

    assert table.weight.tolist() == table.other.tolist() == other.weight.tolist()
    assert ledger.counts == plain.counts


@pytest.mark.parametrize("engine", [Engine(forward="packed"), Engine(forward="transformers")])
def test_adapters_are_compared_on_packed_rows_and_the_base_gets_no_gradient(engine):
    policy, rows = make_policy(rank=2, engine=engine), many_rows()
    jacobian = manual_jacobian(policy, rows)
    aggregator = Fixed(0.7, -0.2, 1.5)

    stage = learner(policy, aggregator, clipped(), compared="lora_", micro_batch_tokens=30)
    with recording() as ledger:
        step = step_of(policy, lambda: stage(rows))

    torch.testing.assert_close(aggregator.seen.gram, jacobian @ jacobian.T, rtol=1e-7, atol=1e-12)
    torch.testing.assert_close(step, aggregator.weights @ jacobian, rtol=1e-6, atol=1e-9)
    frozen = [p for name, p in policy.named_parameters() if "lora_" not in name]
    assert all(p.grad is None for p in frozen)
    # Three rows of eight bytes a trained number.
    mib = 3 * jacobian.shape[1] * 8 / 2**20
    assert ledger.means()["pareto/jacobian_mib"] == pytest.approx(mib)


class Squares(Component):
    """Minus the squared error of each output of a network, in place of log-probs."""

    reads = ("tokens", "response_mask")
    writes = ("log_probs",)

    def __init__(self, golden):
        super().__init__()
        self.x, self.y = golden["x"], golden["y"]
        self.weights = torch.nn.ParameterList([golden[f"p{n}"] for n in range(4)])

    def forward(self, batch):
        first, first_bias, second, second_bias = self.weights
        rows = batch["tokens"][:, 0]
        hidden = torch.tanh(self.x[rows] @ first.T + first_bias)
        batch["log_probs"] = -((hidden @ second.T + second_bias - self.y[rows]) ** 2)
        return batch


class Plain(TokenLoss):
    """Minus the mean over tokens of advantage times log-prob."""

    reads = ("response_mask", "log_probs", "advantage")
    runs = ("reduction",)
    contained = True

    def forward(self, batch):
        batch = self.weighted(batch)
        return scalars(loss=-(batch["log_probs"] * batch["advantage"] * batch["loss_weight"]).sum())


@pytest.mark.parametrize(
    ("case", "weighting"),
    [
        ("mean", aggregation.MeanWeighting()),
        ("mgda", aggregation.MGDAWeighting()),
        ("upgrad", aggregation.UPGradWeighting()),
    ],
)
@pytest.mark.parametrize("budget", [None, 6])
def test_a_small_network_gets_torchjds_gradients(case, weighting, budget):
    name = f"torchjd_e2e_mlp_{case}"
    found = load_file(GOLDEN / f"{name}.safetensors")
    golden = {key.split(".")[1]: value for key, value in found.items()}
    model, aggregator = Squares(golden), OfGram(weighting)
    one = torch.ones(8, 3, dtype=torch.bool)
    # Objective k is output k; a mean over 8 rows is 3 times that over 24 tokens.
    advantages = 3 * torch.eye(3, dtype=torch.float64).expand(8, 3, 3)
    rewards = TensorDict({key: torch.zeros(8) for key in "abc"}, batch_size=[8])
    rows = {"tokens": torch.arange(8)[:, None].expand(8, 3), "attention_mask": one}
    rows |= {"response_mask": one, "advantage": torch.zeros(8, 3), "advantages": advantages}
    rows["reward_valid"] = torch.ones(8, dtype=torch.bool)

    stage = learner(
        model, aggregator, {"p": Plain(reduction=TokenMean())}, micro_batch_tokens=budget
    )
    stage(TensorDict(rows | {"rewards": rewards}, batch_size=[8]))

    jacobian, near = golden["jacobian"], {"rtol": 1e-7, "atol": 1e-9}
    torch.testing.assert_close(aggregator.seen.gram, jacobian @ jacobian.T, **near)
    torch.testing.assert_close(aggregator.given, golden["weights"], **near)
    for n, parameter in enumerate(model.weights):
        torch.testing.assert_close(parameter.grad, golden[f"grad{n}"], **near)


def test_the_optimisers_state_goes_on_where_it_was_saved():
    adam = partial(torch.optim.Adam, lr=0.1)
    table, other = Table(), Table()
    made = learner(table, Fixed(0.5, 0.25), optimizer=adam)
    made(batch())
    state, at = copy.deepcopy(made.run_state()), copy.deepcopy(table.state_dict())
    made(batch())

    resumed = learner(other, Fixed(0.5, 0.25), optimizer=adam)
    other.load_state_dict(at)
    resumed.load_run_state(state)
    resumed(batch())

    assert other.weight.tolist() == table.weight.tolist()


def test_the_state_of_the_aggregator_is_among_the_learners_tensors():
    aggregator = Fixed(0.5, 0.25)
    aggregator.register_buffer("moved", torch.zeros(2))

    assert "aggregator.moved" in learner(Table(), aggregator).state_dict()


def test_the_batch_is_handed_on_untouched():
    rows = batch()

    result = learner(Table(), Fixed(0.5, 0.5))(rows)

    assert set(result.keys()) == set(batch().keys())
    assert result["advantage"].isnan().all()


def test_an_objective_whose_gradient_is_not_finite_is_named():
    rows = batch()
    rows["advantages"][0, 0, 1] = math.inf

    with pytest.raises(NonFiniteSteps, match="objective 'short': its rewards or gradients"):
        learner(Table(), Fixed(0.5, 0.5), non_finite=SkipNonFinite(limit=1))(rows)


def test_weights_row_by_row_are_refused_with_a_remedy():
    aggregator = Fixed(0.5, 0.5)
    aggregator.weights = torch.ones(2, 2).double()

    with pytest.raises(ConfigError, match="Fixed, which returns weights for each row"):
        learner(Table(), aggregator)(batch())


def test_the_preference_of_a_conditioned_policy_reaches_the_aggregator():
    rows, aggregator = batch(), Fixed(0.5, 0.5)
    rows["preference"] = torch.tensor([[1.0, 0.0], [0.5, 0.5]])

    learner(Table(), aggregator)(rows)

    assert aggregator.seen.preference.tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_advantages_that_are_not_those_of_the_rewards_are_refused():
    rows = batch()
    rows["advantages"] = rows["advantages"][..., :1]

    with pytest.raises(ShapeError, match=r"\[2, 3, 1\], but 'rewards' holds 2 .*right, short"):
        learner(Table(), Fixed(0.5, 0.5))(rows)


@pytest.mark.parametrize(("pattern", "said"), [("loar_", "name of a trained"), ("(", "no regular")])
def test_a_pattern_that_finds_nothing_is_refused(pattern, said):
    with pytest.raises(ConfigError, match=f"learner.compared is .*{said}"):
        learner(Table(), Fixed(1.0), compared=pattern)


def test_parameters_of_the_aggregator_are_not_compared():
    aggregator = Fixed(1.0)
    aggregator.gain = torch.nn.Parameter(torch.ones(1))

    with pytest.raises(ConfigError, match=r"learner.compared is .*name of a trained"):
        learner(Table(), aggregator, compared="gain")


def test_losses_without_an_advantage_are_refused():
    with pytest.raises(ConfigError, match="none reads 'advantage'"):
        learner(Table(), Fixed(1.0), {"sft": SFTLoss(reduction=TokenMean())})


def test_a_foreign_loss_is_refused():
    foreign = TensorDictModule(torch.nn.Linear(1, 1), in_keys=["reward"], out_keys=["loss_x"])

    with pytest.raises(ConfigError, match=r"learner\.losses\.theirs"):
        learner(Table(), Fixed(1.0), {"theirs": foreign})


def test_without_torchjd_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchjd", None)

    with pytest.raises(MissingExtra, match=r"rlcomp\[pareto\]"):
        learner(Table(), Fixed(1.0))
