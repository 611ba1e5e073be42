"""Named parts of a score."""

import json
import math

import pytest
import torch
from tensordict import TensorDict

from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.reward import TextReward
from rlcomp.metrics import recording


class Said(TextReward):
    """The score that the response says, as JSON."""

    name = "said"

    def __init__(self, weights=None, correct_by=None):
        super().__init__()
        self.weights = weights or {}
        self.correct_by = correct_by

    def score_row(self, row):
        return json.loads(row["response"])


def batch(*scores):
    texts = encode_texts([json.dumps(score) for score in scores])
    entries = dict.fromkeys(("prompt", "response", "answer"), texts)
    return TensorDict(entries, batch_size=[len(scores)])


def test_the_reward_is_the_weighted_sum_and_weights_are_1_by_default():
    result = Said({"a": 0.5}, "a")(batch({"a": 1, "b": 2}, {"a": 4, "b": -3}))

    assert result["reward"].tolist() == [2.5, -1.0]
    assert result["rewards", "a"].tolist() == [1.0, 4.0]
    assert result["rewards", "b"].tolist() == [2.0, -3.0]


def test_one_of_the_parts_decides_what_is_correct():
    rows = batch({"a": 0.9, "b": 2}, {"a": 1, "b": -3}, {"a": None, "b": 5})

    assert Said(correct_by="a")(rows)["correct"].tolist() == [False, True, False]
    assert Said({"a": 0.0}, correct_by="a")(rows)["correct"].tolist() == [False, True, False]
    assert Said({"a": 0.0})(rows)["correct"].tolist() == [True, False, True]  # b alone weighs


def test_the_sum_of_several_parts_does_not_decide():
    pattern = r"Said returned parts \(right, form\), but correct_by is null, .*: set correct_by"

    with pytest.raises(ConfigError, match=pattern):
        Said()(batch({"right": 0, "form": 1}))
    Said()(batch(None))  # nothing is known of its parts


def test_a_row_may_lack_a_part_that_weighs_nothing():
    result = Said({"a": 2.0, "b": 0.0, "c": 0.0})(batch({"a": 1, "b": None}, {"a": 3, "b": 4}))

    assert result["reward"].tolist() == [2.0, 6.0]  # and no row has a c
    assert result["reward_valid"].tolist() == [True, True]
    assert result["rewards", "b"][0].isnan()


def test_a_row_that_lacks_a_part_is_invalid():
    with recording() as ledger:
        result = Said(correct_by="a")(
            batch({"a": 1, "b": 2}, {"a": 3}, {"a": 5, "b": math.nan}, None)
        )

    assert result["reward_valid"].tolist() == [True, False, False, False]
    assert result["reward"].tolist() == [3.0, 0.0, 0.0, 0.0]
    assert result["rewards", "a"][:3].tolist() == [1.0, 3.0, 5.0]
    assert torch.isnan(result["rewards", "b"]).tolist() == [False, True, True, True]
    # Of a, three rows; of b, one.
    assert ledger.means()["reward/a"] == 3.0
    assert ledger.means()["reward/b"] == 2.0
    assert ledger.means()["reward/mean"] == 3.0


def test_a_part_that_a_batch_lacks_stays_a_part():
    reward = Said(correct_by="a")
    reward(batch(None))
    reward(batch({"a": 1, "b": 2}))

    result = reward(batch({"a": 1}))

    assert sorted(result["rewards"].keys()) == ["a", "b"]
    assert not result["reward_valid"].item()


def test_a_number_and_parts_do_not_mix():
    with pytest.raises(ConfigError, match=r"others with parts \(a, b\): return the same parts"):
        Said()(batch({"a": 1, "b": 2}, 1.0))
    before = Said()
    before(batch(1.0))
    with pytest.raises(ConfigError, match=r"others with parts \(a\)"):
        before(batch({"a": 1}))


def test_a_part_may_be_called_as_the_reward():
    reward = Said(correct_by="said")
    for _ in range(2):
        assert reward(batch({"said": 1, "a": 2}))["reward"].tolist() == [3.0]


def test_a_weight_of_a_number_is_that_of_its_name():
    assert Said({"said": 2.0})(batch(1.5))["reward"].tolist() == [3.0]


@pytest.mark.parametrize("wrong", [{"weights": {"lenght": 1.0}}, {"correct_by": "lenght"}])
def test_a_name_that_is_no_part_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"names 'lenght', .*did you mean 'length'"):
        Said(**wrong)(batch({"length": 1}))
    Said(**wrong)(batch(None))  # nothing is known of its parts


@pytest.mark.parametrize("name", ["mean", "correct", "invalid_fraction", "retried"])
def test_a_part_must_not_be_called_as_a_metric(name):
    with pytest.raises(ConfigError, match=f"a part '{name}', but reward/{name} is a metric"):
        Said()(batch({name: 1}))


def test_a_part_that_is_no_number_is_refused():
    with pytest.raises(ConfigError, match=r"part 'a', with \[1\], a list: must be"):
        Said()(batch({"a": [1]}))
    with pytest.raises(DataError, match="infinite in float32"):
        Said()(batch({"a": 1e39}))


def test_a_sum_that_float32_cannot_hold_is_refused():
    with pytest.raises(DataError, match="infinite in float32"):
        Said(correct_by="a")(batch({"a": 3e38, "b": 3e38}))
