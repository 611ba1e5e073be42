"""Weighted sums and shuffled rewards."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.reward.answer import ExactMatch
from components.reward.composite import ShuffledReward, WeightedSum
from components.reward.function import FunctionReward
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.errors import ConfigError, RlcompWarning
from rlcomp.metrics import recording
from rlcomp.testing import make_batch
from rlcomp.workers.executor import FailedCall, ReturnedCall


def length(response: str) -> float | None:
    return None if response == "?" else float(len(response))


def batch() -> TensorDict:
    return make_batch(
        prompt=["p"] * 3,
        response=["a", "bbb", "?"],
        answer=["a", "a", "?"],
    )


def both(**changes) -> WeightedSum:
    parts = {"right": ExactMatch(), "length": FunctionReward(function=length)}
    weights = {"right": 2.0, "length": -0.5}
    defaults = {"parts": parts, "weights": weights, "correct_by": "right"}
    return WeightedSum(**{**defaults, **changes})


def test_the_reward_is_the_weighted_sum_if_every_part_is_valid():
    result = both()(batch())

    # 2 * 1 - 0.5 * 1 = 1.5;  2 * 0 - 0.5 * 3 = -1.5;  the length of the third cannot be judged.
    assert result["reward"].tolist() == [1.5, -1.5, 0.0]
    assert result["reward_valid"].tolist() == [True, True, False]


def test_each_part_is_written_unweighted_under_its_name():
    result = both()(batch())

    assert set(result["rewards"].keys()) == {"right", "length"}
    assert result["rewards", "right"].tolist() == [1.0, 0.0, 1.0]
    assert result["rewards", "length"].tolist() == [1.0, 3.0, 0.0]


@pytest.mark.parametrize(
    ("judge", "correct"), [("right", [True, False, False]), ("length", [True, True, False])]
)
def test_the_named_part_decides_correctness(judge, correct):
    # Exact match: rows 0 and 2; length: scores of 1 or more, rows 0 and 1.
    # The third row is not valid.
    assert both(correct_by=judge)(batch())["correct"].tolist() == correct


def test_a_single_part_decides_correctness():
    alone = WeightedSum(parts={"right": ExactMatch()}, weights={"right": 2.0})

    assert alone(batch())["correct"].tolist() == [True, False, True]


def test_metrics_are_those_of_the_sum_and_each_part():
    with recording() as ledger:
        both()(batch())

    means = ledger.means()
    assert means["reward/mean"] == 0.0
    assert means["reward/invalid_fraction"] == pytest.approx(1 / 3)
    assert means["reward/right"] == pytest.approx(2 / 3)
    assert means["reward/length"] == 2.0


@given(st.floats(-10, 10), st.floats(-10, 10))
def test_the_sum_is_linear_in_the_weights(first, second):
    weights = {"right": first, "length": second}

    result = both(weights=weights)(batch())

    parts = result["rewards"]
    expected = first * parts["right"][:2] + second * parts["length"][:2]
    torch.testing.assert_close(result["reward"][:2], expected)


def test_a_sum_of_sums_is_a_sum():
    inner = both()
    outer = WeightedSum(parts={"inner": inner}, weights={"inner": 2.0})

    assert outer(batch())["reward"].tolist() == [3.0, -3.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parts": {}, "weights": {}}, "parts is empty"),
        ({"weights": {"right": 1.0, "lenght": 1.0}}, "'lenght'; did you mean 'length'"),
        ({"weights": {"right": 1.0}}, "the part 'length' has no weight"),
        ({"correct_by": None}, r"correct_by is null: .*one of right, length"),
        ({"correct_by": "rigth"}, "correct_by is 'rigth'; did you mean 'right'"),
        ({"weights": {"right": 1.0, "length": "1"}}, "must be a number"),
    ],
)
def test_names_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        both(**changes)


class CallExecutor:
    """Calls; the last one fails at the second try."""

    def map(self, function, arguments, *, timeout, concurrency, whole_batch):
        failed = FailedCall("died", "its process died", 2)
        return [*(ReturnedCall(1.0, 0.5) for _ in arguments[1:]), failed]


def test_failures_of_a_part_are_recorded_and_their_reasons_kept():
    called = FunctionReward(function="platform.node", calls=CallExecutor())
    summed = both(parts={"right": ExactMatch(), "length": called})
    with pytest.warns(RlcompWarning, match="its process died"), recording() as ledger:
        result = summed(batch())

    assert decode_texts(result["invalid_reason"]) == ["", "", "its process died"]
    means = ledger.means()
    assert (means["reward/failed/died"], means["reward/retried"]) == (1, 1)
    assert (means["time/reward_call"], means["time/reward_call_max"]) == (0.5, 0.5)
    assert ledger.counts["time/reward_call"] == 2
    assert means["reward/length"] == 1.0


def test_the_first_of_two_failed_parts_gives_the_reason():
    def failing(message):
        class Always:
            def map(self, function, arguments, **_):
                return [FailedCall("error", message) for _ in arguments]

        return FunctionReward(function="platform.node", calls=Always())

    summed = both(parts={"right": failing("one"), "length": failing("two")})
    with pytest.warns(RlcompWarning):
        result = summed(batch())

    assert decode_texts(result["invalid_reason"]) == ["one"] * 3


def test_without_a_pooled_part_there_are_no_reasons():
    plain = both(parts={"right": ExactMatch(), "length": ExactMatch()})

    assert "invalid_reason" not in plain(batch()).keys()


def test_equal_totals_of_different_parts_are_equal_rewards():
    # .2 * 0 + .6 * 200 = .2 * 300 + .6 * 100 = 120.
    first, second = {"a": 0.0, "bbb": 300.0, "?": 0.0}, {"a": 200.0, "bbb": 100.0, "?": 200.0}
    parts = {
        "x": FunctionReward(function=lambda response: first[response], name="x"),
        "y": FunctionReward(function=lambda response: second[response], name="y"),
    }

    result = WeightedSum(parts=parts, weights={"x": 0.2, "y": 0.6}, correct_by="x")(batch())

    assert result["reward"].tolist() == [120, 120, 120]


def number(response: str) -> float | None:
    return None if response == "?" else float(response)


def batch_of(*responses: str) -> TensorDict:
    texts = encode_texts(responses)
    return make_batch(prompt=texts, response=texts, answer=texts)


def shuffled(seed: int = 0) -> ShuffledReward:
    torch.manual_seed(seed)
    return ShuffledReward(reward=FunctionReward(function=number))


def test_values_are_permuted():
    responses = [str(n) for n in range(50)]

    dealt = shuffled()(batch_of(*responses))["reward"].tolist()

    assert sorted(dealt) == [float(n) for n in range(50)]
    assert dealt != [float(n) for n in range(50)]


def test_the_parts_and_the_verdict_move_with_the_reward():
    result = shuffled()(batch_of("0", "1", "2", "3", "?"))

    assert result["rewards", "function"].tolist() == result["reward"].tolist()
    assert result["correct"].tolist() == [value >= 1.0 for value in result["reward"].tolist()]
    assert result["reward_valid"].tolist() == [True, True, True, True, False]


def test_an_invalid_row_takes_part_in_nothing():
    for seed in range(20):
        dealt = shuffled(seed)(batch_of("1", "?", "2"))["reward"].tolist()

        assert dealt[1] == 0.0
        assert sorted(dealt) == [0.0, 1.0, 2.0]


def test_over_many_batches_each_row_gets_the_mean():
    # 400 draws of 0 or 1 for each row: mean 0.5, standard error 0.025.
    deal = shuffled()

    dealt = torch.stack([deal(batch_of("0", "1"))["reward"] for _ in range(400)])

    assert torch.all((dealt.mean(0) - 0.5).abs() < 5 * 0.025)


def test_the_permutation_follows_the_seed_of_the_construction():
    responses = [str(n) for n in range(20)]
    first, again, other = (shuffled(seed)(batch_of(*responses))["reward"] for seed in (0, 0, 1))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_permutation_does_not_use_the_global_generator():
    deal = shuffled()
    before = torch.get_rng_state()

    deal(batch_of("0", "1", "2"))

    assert torch.equal(torch.get_rng_state(), before)


def test_reasons_are_not_permuted():
    class CallExecutor:
        def map(self, function, arguments, **_):
            return [FailedCall("error", "why"), *(ReturnedCall(float(n), 0.0) for n in range(1, 9))]

    inner = FunctionReward(function="platform.node", calls=CallExecutor())
    with pytest.warns(RlcompWarning, match="why"):
        result = ShuffledReward(reward=inner)(batch_of(*"abcdefghi"))

    assert decode_texts(result["invalid_reason"]) == ["why", *[""] * 8]
    assert not result["reward_valid"][0]
