import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.advantage.gae import GAE
from components.advantage.group import GDPO, GroupMean, GroupMeanStd
from components.advantage.monte_carlo import REINFORCE, GreedyBaseline
from components.advantage.per_objective import PerObjectiveAdvantage
from components.advantage.reweighted import Noon
from components.pareto.gradients import MGDA, PAMA
from components.pareto.scalarisation import ExpectedUtility, LinearScalarisation, PreferenceWeights
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch

NAN = float("nan")


class Spy(LinearScalarisation):
    """Keeps what it was shown."""

    def weigh(self, objectives):
        self.shown = objectives
        return super().weigh(objectives)


def per_objective(advantage=None, aggregator=None, scale="none"):
    return PerObjectiveAdvantage(
        advantage=advantage or GroupMean(),
        aggregator=aggregator or LinearScalarisation(weights=None),
        scale=scale,
    )


def rows(**rewards):
    """Rows of one group with two response tokens each, behind one of the prompt."""
    values = {name: torch.tensor(column) for name, column in rewards.items()}
    count = len(next(iter(values.values())))
    return make_batch(
        rewards=TensorDict(values, batch_size=[count]),
        reward_valid=torch.ones(count, dtype=torch.bool),
        reward=torch.full((count,), 77.0),
        group_id=torch.zeros(count, dtype=torch.int64),
        response_mask=torch.tensor([[False, True, True]]).repeat(count, 1),
    )


@pytest.mark.parametrize(
    ("advantage", "aggregator", "scale"),
    [
        (GroupMean(), LinearScalarisation(weights=None), "running"),
        (Noon(advantage=GroupMean()), PAMA(mode="vector"), "running"),
        (GroupMeanStd(), PAMA(mode="scalar"), "none"),
        (GroupMean(), MGDA(row_norm="ema"), "none"),
        (GroupMean(), PreferenceWeights(), "none"),
    ],
)
def test_it_keeps_the_contract(advantage, aggregator, scale):
    part = per_objective(advantage, aggregator, scale)
    if isinstance(aggregator, PreferenceWeights):
        wish = torch.tensor([[0.25, 0.75]]).repeat(4, 1)
        check_component(part, rows(a=[1.0, 0, 0, 1], b=[0.5, 1, 0, 0]).set("preference", wish))
    else:
        check_component(part)


def test_each_objective_has_its_own_baseline_and_the_sum_its_weights():
    # Means 1/2 and 2: a has +-1/2, b -2, 2; 1 * 1/2 + 0.25 * -2 = 0.
    part = per_objective(aggregator=LinearScalarisation(weights={"a": 1.0, "b": 0.25}))

    result = part(rows(a=[1.0, 0.0], b=[0.0, 4.0]))

    assert result["advantages"][:, 1].tolist() == [[0.5, -2.0], [-0.5, 2.0]]
    assert result["advantages"][:, 0].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert result["advantage"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert result["reward"].tolist() == [77.0, 77.0]


def test_a_row_learns_from_the_objectives_it_has():
    # b is known of the last two rows: mean 3.
    result = per_objective(aggregator=LinearScalarisation(weights={"a": 1.0, "b": 1.0}))(
        rows(a=[1.0, 0.0, NAN, NAN], b=[NAN, NAN, NAN, NAN])
    )
    assert result["advantages"][:, 1].tolist() == [[0.5, 0], [-0.5, 0], [0, 0], [0, 0]]
    assert result["reward_valid"].tolist() == [True, True, False, False]

    batch = rows(a=[1.0, 0.0, 0.5, NAN], b=[NAN, NAN, 2.0, 4.0])
    # Their sum is not valid.
    batch["reward_valid"] = torch.tensor([False, False, True, False])
    result = per_objective(aggregator=LinearScalarisation(weights={"a": 1.0, "b": 1.0}))(batch)
    assert result["advantages"][:, 1].tolist() == [[0.5, 0], [-0.5, 0], [0, -1], [0, 1]]
    assert result["advantage"][:, 2].tolist() == [0.5, -0.5, -1.0, 1.0]
    assert result["reward_valid"].all()


def test_an_invalid_row_has_no_objective_for_any_values():
    batch = rows(a=[1.0, 0.0, 9.0], b=[0.0, 4.0, 9.0])
    batch["reward_valid"] = torch.tensor([True, True, False])

    result = per_objective()(batch)

    assert result["advantages"][:, 1].tolist() == [[0.5, -2.0], [-0.5, 2.0], [0.0, 0.0]]
    assert result["reward_valid"].tolist() == [True, True, False]


def test_an_objective_no_row_has_leaves_the_others_alone():
    part = per_objective(aggregator=PAMA(mode="vector"), scale="running")

    result = part(rows(a=[1.0, 0.0], b=[NAN, NAN]))

    # The std of (1, 0) is 1 / sqrt(2).
    assert result["advantage"][:, 1].tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)])


def test_the_scale_is_a_running_one_and_equal_rewards_say_nothing_about_it():
    part = per_objective(scale="running")
    equal, apart = rows(a=[0.7, 0.7, 0.7]), rows(a=[0.0, 2.0, 4.0])

    assert part(equal)["advantage"].tolist() == [[0.0] * 3] * 3
    # Variance 4.
    assert part(apart)["advantage"][:, 1].tolist() == pytest.approx([-1.0, 0.0, 1.0])
    assert part(equal)["advantage"].tolist() == [[0.0] * 3] * 3
    # 0.99 * 4 + 0.01 * 400 = 7.96.
    found = part(rows(a=[0.0, 20.0, 40.0]))["advantage"][2, 1].item()
    assert found == pytest.approx(20 / 7.96**0.5)


def test_the_running_scale_is_part_of_a_checkpoint():
    part, other = per_objective(scale="running"), per_objective(scale="running")
    part(rows(a=[0.0, 2.0, 4.0]))

    other.variance.load_run_state(part.variance.run_state())

    batch = rows(a=[0.0, 1.0, 0.0])
    assert torch.equal(other(batch.copy())["advantage"], part(batch)["advantage"])


def test_a_larger_unit_changes_nothing_when_rewards_are_scaled():
    small, large = rows(a=[1.0, 0, 0], b=[0.0, 1, 3]), rows(a=[1.0, 0, 0], b=[0.0, 100, 300])
    scaled, raw = (
        [per_objective(None, PAMA(mode="vector"), s) for _ in range(2)] for s in ("running", "none")
    )

    torch.testing.assert_close(scaled[0](small)["advantage"], scaled[1](large)["advantage"])
    first, second = raw[0](small)["advantage"], raw[1](large)["advantage"]
    assert not torch.allclose(first, second, atol=1e-3)


@pytest.mark.parametrize("mode", ["vector", "scalar"])
@given(seed=st.integers(0, 10000))
def test_pama_of_one_objective_is_noon_up_to_the_scale(mode, seed, drawn):
    batch = drawn(seed)
    alone = Noon(advantage=GroupMean())(batch.copy())["advantage"]
    batch["rewards"] = TensorDict({"a": batch["reward"]}, batch_size=batch.batch_size)
    reward = batch["reward"][batch["reward_valid"]]
    spread = reward.std() if reward.unique().numel() > 1 else torch.ones(())

    for scale, unit in (("none", 1.0), ("running", spread)):
        part = per_objective(Noon(advantage=GroupMean()), PAMA(mode=mode), scale)

        torch.testing.assert_close(part(batch.copy())["advantage"] * unit, alone)


@given(seed=st.integers(0, 10000))
def test_an_objective_given_twice_makes_the_same_advantage_as_once(seed, drawn):
    # In another unit, so that the means of a and b do not tie.
    batch, other = drawn(seed), 0.7312 * drawn(seed + 1)["reward"]
    once, twice = batch.copy(), batch.copy()
    columns = {"a": batch["reward"], "b": other}
    once["rewards"] = TensorDict(columns, batch_size=batch.batch_size)
    twice["rewards"] = TensorDict({**columns, "c": other}, batch_size=batch.batch_size)

    for mode in ("vector", "scalar"):
        part = per_objective(Noon(advantage=GroupMean()), PAMA(mode=mode))
        torch.testing.assert_close(part(twice.copy())["advantage"], part(once.copy())["advantage"])


@given(seed=st.integers(0, 10000))
def test_weights_before_or_after_a_mean_baseline_are_the_same_and_a_standard_deviation_is_not(
    seed, drawn
):
    batch, other = drawn(seed), drawn(seed + 7)["reward"]
    batch["rewards"] = make_batch(a=batch["reward"], b=5 * other)
    summed = batch.copy()
    summed["reward"] = 0.25 * batch["reward"] + 0.75 * 5 * other
    after = LinearScalarisation(weights={"a": 0.25, "b": 0.75})

    torch.testing.assert_close(
        per_objective(GroupMean(), after)(batch.copy())["advantage"],
        GroupMean()(summed.copy())["advantage"],
    )


def test_a_standard_deviation_does_not_commute_with_the_weights():
    # Before: rewards (1, 10) and (0, 0): one group of two, +-1/sqrt(2) whatever the weights.
    # After: each is +-1/sqrt(2): the sum too; with opposite signs the larger one wins before, and
    # after they cancel.
    batch = rows(a=[1.0, 0.0], b=[0.0, 10.0])
    summed = batch.copy().set("reward", torch.tensor([0.5, 5.0]))

    before = GroupMeanStd()(summed)["advantage"][:, 1]
    after = per_objective(GroupMeanStd())(batch)["advantage"][:, 1]

    assert before.tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5], rel=1e-4)
    assert after.tolist() == pytest.approx([0.0, 0.0], abs=1e-5)


def test_rows_may_want_different_things():
    batch = rows(a=[1.0, 0.0], b=[0.0, 4.0])
    batch["preference"] = torch.tensor([[1.0, 0.0], [0.0, 1.0]])

    result = per_objective(aggregator=PreferenceWeights())(batch)

    assert result["advantage"][:, 1].tolist() == [0.5, 2.0]


def test_tokens_outside_the_response_are_no_part_of_the_vectors():
    # Row 1 has twice the tokens: Gram of a = (1/2, -1/2, -1/2), b = (-2, 2, 2): opposite.
    batch = rows(a=[1.0, 0.0], b=[0.0, 4.0])
    batch["response_mask"] = torch.tensor([[False, True, False], [True, True, False]])
    spy = Spy(weights=None)

    per_objective(aggregator=spy)(batch)

    wanted = torch.tensor([[0.75, -3.0], [-3.0, 12.0]]).double() / 3
    torch.testing.assert_close(spy.shown.gram, wanted)
    torch.testing.assert_close(spy.shown.means, torch.tensor([-0.5, 2.0]).double() / 3)
    assert spy.shown.returns.tolist() == [0.5, 2.0]


def test_dense_rewards_belong_to_no_objective():
    batch = rows(a=[1.0, 0.0])
    plain = per_objective()(batch.copy())["advantage"]

    dense = per_objective()(batch.set("token_reward", torch.ones(2, 3)))["advantage"]

    assert torch.equal(dense, plain)


def test_an_estimator_with_a_critic_is_refused():
    with pytest.raises(ConfigError, match=r"GAE, which reads a critic's value.*group_mean"):
        per_objective(Noon(advantage=GAE(gamma=1.0, gae_lambda=0.95)))


@pytest.mark.parametrize(
    ("estimator", "fault"),
    [
        (GDPO(weights={"a": 1.0}), "GDPO, which reads all rewards"),
        (REINFORCE(baseline="moving"), "REINFORCE, .*between batches"),
    ],
)
def test_an_estimator_that_is_not_of_one_objective_alone_is_refused(estimator, fault):
    with pytest.raises(ConfigError, match=f"{fault}.*group_mean"):
        per_objective(Noon(advantage=estimator))


def test_an_estimator_that_keeps_nothing_is_taken():
    result = per_objective(REINFORCE(baseline="batch_mean"))(rows(a=[1.0, 0.0]))

    assert result["advantage"][:, 1].tolist() == [0.5, -0.5]


def greedy_rows():
    batch = rows(a=[1.0, 0.0, 1.0], b=[0.0, 4.0, 1.0])
    return batch.set("greedy", torch.tensor([False, False, True]))


def test_rows_that_the_estimator_takes_out_are_no_part_of_the_vectors():
    spy = Spy(weights={"a": 1.0, "b": 1.0})

    result = per_objective(GreedyBaseline(), spy)(greedy_rows())

    # Above the greedy answer: a 0, -1; b -1, 3; two tokens each.
    assert result["response_mask"].any(1).tolist() == [True, True, False]
    assert result["advantages"][:, 1].tolist() == [[0, -1], [-1, 3], [0, 0]]
    assert spy.shown.gram.tolist() == [[0.5, -1.5], [-1.5, 5.0]]
    check_component(per_objective(GreedyBaseline()), greedy_rows())


def test_a_row_that_could_not_be_judged_has_no_return():
    batch, spy = rows(a=[1.0, 0.0, 9.0], b=[0.0, 4.0, 9.0]), Spy(weights=None)
    batch["reward_valid"] = torch.tensor([True, True, False])

    per_objective(aggregator=spy)(batch)

    assert spy.shown.returns.tolist() == [0.5, 2.0]


@pytest.mark.parametrize("scale", ["running", "none"])
def test_a_function_of_the_expected_returns_weighs_advantages_in_reward_units(scale):
    # g = J_a J_b at (1.5, 150): 150 A_a + 1.5 A_b, and A is -+0.5 and -+50.
    part = per_objective(None, ExpectedUtility(function=torch.prod, decay=0.0), scale)
    batch = rows(a=[1.0, 2.0], b=[200.0, 100.0])
    own = torch.tensor([[-0.5, 50.0], [0.5, -50.0]])

    result = part(batch)

    scales = torch.tensor([0.5**0.5, 5000**0.5]) if scale == "running" else torch.ones(2)
    torch.testing.assert_close(result["advantage_scale"], scales.expand(2, 2))
    torch.testing.assert_close(result["advantages"][:, 1], own / scales)
    torch.testing.assert_close(result["advantage"][:, 1], own @ torch.tensor([150.0, 1.5]))


def test_an_infinite_reward_names_its_row():
    with pytest.raises(NumericalError, match="row 1"):
        per_objective()(rows(a=[1.0, float("inf")]))


def test_the_metrics_are_of_the_sum_and_of_every_objective():
    with recording() as ledger:
        per_objective(
            aggregator=LinearScalarisation(weights={"a": 1.0, "b": 0.5}), scale="running"
        )(rows(a=[1.0, 0.0], b=[0.0, 4.0]))

    means = ledger.means()
    assert means["advantage/scale/a"] == pytest.approx(0.5**0.5)
    assert means["advantage/abs"] == pytest.approx(0.5 * 0.5**0.5)
    assert means["pareto/advantage/weight/b"] == 0.5
    # a alone would lose: b is its opposite, and half as heavy.
    assert (means["pareto/advantage/conflict/a"], means["pareto/advantage/conflict/b"]) == (0, 1)
    assert means["pareto/advantage/gap"] == pytest.approx(0, abs=1e-7)


def test_small_rewards_apart_by_rounding_tell_no_scale():
    part = per_objective(scale="running")

    with recording() as ledger:
        part(rows(a=[0.0, 5e-9, 0.0], b=[0.0, 1e-3, 0.0]))

    means = ledger.means()
    assert means["advantage/scale/a"] == 1.0
    assert means["advantage/scale/b"] == pytest.approx(1e-3 / 3**0.5)


def test_large_penalties_apart_by_rounding_tell_no_scale():
    # 5e-6 of 1000 is below 1e-8 of it, though not below 1e-8.
    batch = rows(a=[0.0, 0.0, 0.0])
    penalties = torch.tensor([-1000.0, -1000.0 + 5e-6, -1000.0], dtype=torch.float64)
    batch["rewards", "a"] = penalties

    with recording() as ledger:
        per_objective(scale="running")(batch)

    assert ledger.means()["advantage/scale/a"] == 1.0
