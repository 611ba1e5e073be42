import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.reward.exact_match import ExactMatch
from components.reward.function import Function
from components.reward.weighted_sum import WeightedSum
from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording


def length(response: str) -> float | None:
    return None if response == "?" else float(len(response))


def batch() -> TensorDict:
    texts = {
        "prompt": encode_texts(["p"] * 3),
        "response": encode_texts(["a", "bbb", "?"]),
        "answer": encode_texts(["a", "a", "?"]),
    }
    return TensorDict(texts, batch_size=[3])


def both(**changes) -> WeightedSum:
    parts = {"right": ExactMatch(), "length": Function(function=length)}
    weights = {"right": 2.0, "length": -0.5}
    defaults = {"parts": parts, "weights": weights, "correct_by": "right"}
    return WeightedSum(**{**defaults, **changes})


def test_the_reward_is_the_weighted_sum_where_every_part_is_valid():
    result = both()(batch())

    # 2 * 1 - 0.5 * 1 = 1.5;  2 * 0 - 0.5 * 3 = -1.5;  the length of the third cannot be judged.
    assert result["reward"].tolist() == [1.5, -1.5, 0.0]
    assert result["reward_valid"].tolist() == [True, True, False]


def test_each_part_is_kept_unweighted_under_its_name():
    result = both()(batch())

    assert set(result["rewards"].keys()) == {"right", "length"}
    assert result["rewards", "right"].tolist() == [1.0, 0.0, 1.0]
    assert result["rewards", "length"].tolist() == [1.0, 3.0, 0.0]


@pytest.mark.parametrize(
    ("judge", "correct"), [("right", [True, False, False]), ("length", [True, True, False])]
)
def test_the_named_part_decides_what_is_correct(judge, correct):
    # Exact match: rows 0 and 2; length says correct for every score of 1 or more: rows 0 and 1.
    # The third row is not valid.
    assert both(correct_by=judge)(batch())["correct"].tolist() == correct


def test_a_part_alone_decides_what_is_correct():
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
        ({"correct_by": None}, r"correct_by is null: .*one of the parts: right, length"),
        ({"correct_by": "rigth"}, "correct_by is 'rigth'; did you mean 'right'"),
        ({"weights": {"right": 1.0, "length": "1"}}, "must be a number"),
    ],
)
def test_names_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        both(**changes)
