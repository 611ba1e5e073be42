import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.objectives import MultiObjectiveReward
from components.pareto.gradients import LagrangianAggregator
from components.pareto.scalarisation import Chebyshev, LinearScalarisation, SmoothChebyshev
from components.reward.composite import WeightedSum
from components.reward.function import FunctionReward
from components.reward.surface import Brevity
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.metrics import recording
from rlcomp.pareto.aggregator import Aggregator, Objectives
from rlcomp.testing import make_batch
from rlcomp.workers.executor import FailedCall


class Told(Aggregator):
    """Weighs as it is told, and keeps what it saw."""

    def __init__(self, *weights: float) -> None:
        super().__init__()
        self.weights = torch.tensor(weights, dtype=torch.float64)
        self.seen: Objectives | None = None

    def weigh(self, objectives: Objectives) -> torch.Tensor:
        self.seen = objectives
        return self.weights


class Wanted(Aggregator):
    """Weighs each row by what it wants."""

    def weigh(self, objectives: Objectives) -> torch.Tensor:
        return objectives.preference


def digits(response: str) -> float | None:
    """How many digits; '?' cannot be judged."""
    return None if "?" in response else float(sum(c.isdigit() for c in response))


def batch(responses=("12", "abcd", "", "1?"), reward=(1.0, 0.0, 0.0, 1.0), valid=None):
    rows = len(responses)
    return make_batch(
        prompt=["p"] * rows,
        response=list(responses),
        answer=["12"] * rows,
        reward=reward,
        reward_valid=valid or [True] * rows,
        correct=torch.tensor(reward) > 0,
        group_id=torch.zeros(rows, dtype=torch.int64),
    )


def several(aggregator, **parts) -> MultiObjectiveReward:
    parts = parts or {"brevity": Brevity(longest=8), "digits": FunctionReward(function=digits)}
    return MultiObjectiveReward(parts=parts, aggregator=aggregator)


def test_the_reward_is_the_weighted_sum_of_the_objectives():
    result = several(Told(1.0, 2.0, 0.5))(batch())

    # 1 + 2 * (1 - 2/8) + 0.5 * 2 = 3.5;  0 + 2 * (1 - 4/8) + 0 = 1;  0 + 2 * 1 + 0 = 2; the digits
    # of the last cannot be counted.
    assert result["reward"].tolist() == [3.5, 1.0, 2.0, 0.0]
    assert result["reward_valid"].tolist() == [True, True, True, False]


def test_every_objective_stands_unweighted_under_its_name_the_batch_s_own_first():
    rewards = several(Told(1.0, 2.0, 0.5))(batch())["rewards"]

    assert list(rewards.keys()) == ["correctness", "brevity", "digits"]
    assert rewards["correctness"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert rewards["brevity"].tolist() == [0.75, 0.5, 1.0, 0.75]
    assert rewards["digits"][:3].tolist() == [2.0, 0.0, 0.0]
    assert rewards["digits"][3].isnan()


def test_a_reward_that_is_not_valid_is_missing_whatever_stands_there():
    some = batch(reward=(1.0, float("inf"), 0.0, 1.0), valid=[True, False, True, True])

    result = several(Told(1.0, 1.0), brevity=Brevity(longest=8))(some)

    assert result["rewards", "correctness"].isnan().tolist() == [False, True, False, False]
    assert result["rewards", "brevity"].tolist() == [0.75, 0.5, 1.0, 0.75]
    assert result["reward"].tolist() == [1.75, 0.0, 1.0, 1.75]


def test_an_objective_of_weight_0_may_be_missing():
    result = several(Told(1.0, 2.0, 0.0))(batch())

    # 1 + 2 * 3/4; 1; 2; 1 + 2 * 3/4, although its digits cannot be counted.
    assert result["reward"].tolist() == [2.5, 1.0, 2.0, 2.5]
    assert result["reward_valid"].tolist() == [True] * 4
    assert result["rewards", "digits"][3].isnan()


def test_a_row_without_any_objective_is_never_valid():
    some = batch(valid=[True, True, True, False])

    result = several(Told(0.0, 0.0), digits=FunctionReward(function=digits))(some)

    assert result["reward_valid"].tolist() == [True, True, True, False]


def test_what_is_correct_stays_as_it_was():
    some = batch()

    assert several(Told(0.0, 1.0, 1.0))(some.copy())["correct"].equal(some["correct"])


def test_the_aggregator_sees_means_of_known_rewards_and_products_of_centred_ones():
    told = Told(1.0, 1.0, 1.0)

    several(told)(batch())

    # Complete rows are the first three. Correctness 1, 0, 0 less 1/3: (2, -1, -1) / 3; brevity .75,
    # .5, 1 less .75: (0, -.25, .25); digits 2, 0, 0 less 2/3: twice correctness.
    # c.c = 6/9 / 3 = 2/9; c.b = 0; b.b = .125 / 3; digits: c.d = 4/9, d.d = 8/9.
    found = told.seen
    assert found.names == ("correctness", "brevity", "digits")
    torch.testing.assert_close(found.returns, torch.tensor([0.5, 0.75, 2 / 3]).double())
    wanted = [[2 / 9, 0.0, 4 / 9], [0.0, 0.125 / 3, 0.0], [4 / 9, 0.0, 8 / 9]]
    torch.testing.assert_close(found.gram, torch.tensor(wanted).double(), atol=1e-7, rtol=0)
    torch.testing.assert_close(found.means, torch.zeros(3).double(), atol=1e-7, rtol=0)
    assert found.preference is None


def test_each_group_has_a_mean_of_its_own():
    told, some = Told(1.0, 1.0), batch(responses=("", "", "1234", "1234"))
    some["group_id"] = torch.tensor([4, 4, 9, 9])

    several(told, brevity=Brevity(longest=8))(some)

    assert told.seen.gram[1, 1] == 0.0
    assert told.seen.returns[1] == 0.75


def test_rows_may_want_different_things():
    some = batch()
    some["preference"] = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 1.0]])

    result = several(Wanted(), brevity=Brevity(longest=8))(some)

    # 1 * 1; 1 * .5; .5 * 0 + .5 * 1; 1 * .75
    assert result["reward"].tolist() == [1.0, 0.5, 0.5, 0.75]


def test_metrics_are_those_of_the_rows_that_have_the_objective():
    with recording() as ledger:
        several(Told(1.0, 2.0, 0.5))(batch())

    means = ledger.means()
    assert means["reward/correctness"] == 0.5
    assert means["reward/brevity"] == 0.75
    assert means["reward/digits"] == pytest.approx(2 / 3)
    assert means["reward/weighted"] == pytest.approx(6.5 / 3)
    assert means["pareto/reward/weight/brevity"] == 2.0
    assert "reward/mean" not in means


def test_a_part_may_be_a_sum():
    inner = WeightedSum(
        parts={"short": Brevity(longest=8), "digits": FunctionReward(function=digits)},
        weights={"short": 1.0, "digits": 1.0},
        correct_by="short",
    )

    result = several(Told(0.0, 1.0), style=inner)(batch())

    assert result["reward"][:3].tolist() == [2.75, 0.5, 1.0]
    assert list(result["rewards"].keys()) == ["correctness", "style"]


@given(
    st.lists(st.floats(0.1, 5), min_size=2, max_size=2),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_invalid_rows_change_no_other_row(weights, valid):
    whole = several(Told(*weights), brevity=Brevity(longest=8))(batch())
    spoilt = batch(
        reward=[
            v if ok else float("nan") for v, ok in zip((1.0, 0.0, 0.0, 1.0), valid, strict=True)
        ]
    )
    spoilt["reward_valid"] = torch.tensor(valid)

    result = several(Told(*weights), brevity=Brevity(longest=8))(spoilt)

    known = torch.tensor(valid)
    assert result["reward_valid"].equal(known)
    assert result["reward"].equal(torch.where(known, whole["reward"], 0.0))


def test_an_objective_that_no_row_has_is_harmless():
    told = Told(1.0, 1.0)

    result = several(told, learned=FunctionReward(function=lambda response: None))(batch())

    assert not result["reward_valid"].any()
    assert result["reward"].tolist() == [0.0] * 4
    assert told.seen.returns[1].isnan()
    assert told.seen.gram.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_valid_reward_that_is_not_finite_stops_the_run():
    some = batch(reward=(1.0, float("inf"), 0.0, 1.0))

    with pytest.raises(NumericalError):
        several(Told(1.0, 1.0), brevity=Brevity(longest=8))(some)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, r"parts is empty: .*\+objective=brevity"),
        ({"correctness": Brevity(longest=8)}, "parts holds 'correctness'"),
    ],
)
def test_names_that_do_not_fit_are_refused(parts, words):
    with pytest.raises(ConfigError, match=words):
        MultiObjectiveReward(parts=parts, aggregator=Told(1.0))


WEIGHTS = {"correctness": 1.0, "brevty": 0.5}


@pytest.mark.parametrize(
    "aggregator",
    [
        LinearScalarisation(weights=WEIGHTS),
        Chebyshev(weights=WEIGHTS, rho=0.0, delta=0.0, decay=0.9),
        SmoothChebyshev(weights=WEIGHTS, mu=0.1, delta=0.0, decay=0.9),
        LagrangianAggregator(maximise="correctness", thresholds={"brevty": 0.5}, step=0.1),
    ],
)
def test_an_aggregator_that_names_others_is_refused_at_construction(aggregator):
    with pytest.raises(ConfigError, match="'brevty'; did you mean 'brevity'"):
        several(aggregator, brevity=Brevity(longest=8))


def test_an_aggregator_that_names_these_is_taken():
    made = several(
        LinearScalarisation(weights={"correctness": 1.0, "brevity": 0.5}),
        brevity=Brevity(longest=8),
    )

    assert made(batch())["reward"].tolist() == [1.375, 0.25, 0.5, 1.375]


def test_a_part_that_is_null_is_left_out():
    part = MultiObjectiveReward(
        parts={"gone": None, "digits": FunctionReward(function=digits)},
        aggregator=LinearScalarisation(weights=None),
    )

    assert part.names == ("correctness", "digits")
    assert list(part(batch())["rewards"].keys()) == ["correctness", "digits"]
    with pytest.raises(ConfigError, match="parts is empty"):
        MultiObjectiveReward(parts={"gone": None}, aggregator=LinearScalarisation(weights=None))


@pytest.mark.filterwarnings("ignore:reward 'function'")
def test_calls_of_a_part_that_failed_are_counted():
    class Failing(FunctionReward):
        def outcomes(self, batch, rows):
            return [FailedCall("time", "too slow")] * len(rows)

    with recording() as ledger:
        several(Told(1.0, 1.0), digits=Failing(function=digits))(batch())

    assert ledger.sums["reward/failed/time"] == 4
