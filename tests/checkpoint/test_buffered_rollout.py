import math

import pytest
import torch

from rlcomp.checkpoint.buffered_rollout import (
    BufferedRollout,
    ledger_state,
    load_buffered_rollout,
    load_ledger,
    load_rows,
    record_age,
)
from rlcomp.checkpoint.state_fields import join_tree, split_tree
from rlcomp.errors import CheckpointError, FlowError
from rlcomp.metrics import Ledger, recording
from rlcomp.testing import make_batch

CPU = torch.device("cpu")


def ledger():
    made = Ledger()
    made.add("rollout/length", 7.0, 2.0)
    made.add("rollout/odd", math.nan, 1.0)
    made.add_total("rollout/tokens", 7.0)
    made.samples.append({"prompt": "1+1", "reward": math.inf})
    return made


def rows():
    return make_batch(tokens=[[1, 2]], rewards={"right": torch.tensor([0.5])})


def through_a_checkpoint(state):
    code, tensors = split_tree(state, "state")
    return join_tree(code, tensors)


def test_a_rollout_that_waits_comes_back_whole():
    found = load_buffered_rollout(through_a_checkpoint(BufferedRollout(rows(), ledger()).state()))

    assert found.rows.batch_size == torch.Size([1])
    assert found.rows["tokens"].tolist() == [[1, 2]]
    assert found.rows["rewards", "right"].tolist() == [0.5]
    assert found.ledger.totals == {"rollout/tokens"}
    assert found.ledger.means()["rollout/length"] == 3.5
    assert found.ledger.means()["rollout/tokens"] == 7.0
    assert math.isnan(found.ledger.sums["rollout/odd"])
    assert found.ledger.samples == [{"prompt": "1+1", "reward": math.inf}]


def test_a_ledger_without_records_comes_back_empty():
    found = load_ledger(through_a_checkpoint(ledger_state(Ledger())))

    assert (found.sums, found.counts, found.totals, found.samples) == ({}, {}, set(), [])


def test_later_writers_do_not_reach_a_rollout_that_waits():
    made = BufferedRollout(rows(), Ledger())

    made.rows_on(CPU)["reward"] = torch.ones(1)

    assert "reward" not in made.rows.keys()


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("names", ["a"], r"'numbers' is \[0, 2\] torch.float64: must be \[1, 2\]"),
        ("numbers", torch.zeros(0, 2), r"'numbers' is \[0, 2\] torch.float32"),
        ("totals", ["b"], "'totals' names what 'names' does not"),
        ("samples", "[", "'samples' is not JSON"),
        ("samples", "[1]", "'samples' is"),
        ("other", 1, "'other' is no field of this state"),
    ],
)
def test_a_ledger_that_is_none_is_told(field, value, told):
    with pytest.raises(CheckpointError, match=told):
        load_ledger({**ledger_state(Ledger()), field: value})


@pytest.mark.parametrize("entries", [{"tokens": 3}, {"tokens": torch.tensor(3)}, {}])
def test_what_is_no_batch_is_told(entries):
    with pytest.raises(CheckpointError, match="a buffered rollout is no batch of tensors"):
        load_rows(entries)


def aged(*versions):
    mask = torch.tensor([[False, True, True]])
    return make_batch(policy_version=[versions], response_mask=mask)


def test_the_age_is_that_of_response_tokens():
    with recording() as found:
        record_age(aged(9, 4, 1), 5)

    # 5 - 4 and 5 - 1; what is no response does not count.
    assert found.means() == {"rollout/staleness": 2.5}


def test_a_token_of_newer_weights_is_told():
    with pytest.raises(FlowError, match="the policy lost its version"):
        record_age(aged(0, 5, 6), 5)


def test_a_rollout_with_a_field_that_nothing_reads_is_told():
    with pytest.raises(CheckpointError, match="'age' is no field of this state"):
        load_buffered_rollout({**BufferedRollout(rows(), Ledger()).state(), "age": 1})


def test_a_token_of_the_newest_weights_is_of_age_0_and_outside_the_mask_any_goes():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    versions = torch.tensor([[5, 3, 9], [4, 9, 9]])

    with recording() as ledger:
        record_age(make_batch(policy_version=versions, response_mask=mask), 5)
    assert ledger.means() == {"rollout/staleness": 1.0}  # 0, 2 and 1

    with pytest.raises(FlowError, match="newer weights"):
        record_age(make_batch(policy_version=versions, response_mask=mask), 4)
