import math

import pytest
import torch
from tensordict import TensorDict

from rlcomp.batch import decode_texts, encode_texts
from rlcomp.errors import ConfigError, RlcompWarning
from rlcomp.interfaces.pooled_reward import PooledReward, record_calls
from rlcomp.metrics import record, record_total, recording
from rlcomp.testing import check_component
from rlcomp.workers.executor import FailedCall, ReturnedCall
from rlcomp.workers.in_process import InProcess
from rlcomp.workers.pool import WorkerPool, closing


def batch(*responses):
    texts = encode_texts(responses)
    entries = dict.fromkeys(("prompt", "response", "answer"), texts)
    return TensorDict(entries, batch_size=[len(responses)])


class Number(PooledReward):
    """A part of ours: the number that a response is, by a pure function."""

    name = "number"
    function = "json.loads"

    def arguments(self, row):
        return {"s": row["response"]}


@pytest.mark.parametrize("where", ["workers", "in_process"])
def test_a_subclass_names_its_function_and_its_arguments(where):
    calls = WorkerPool(num_workers=1) if where == "workers" else InProcess()

    with closing([calls]):
        result = Number(timeout=5.0, calls=calls)(batch("2.5", "null", "0"))

    assert result["reward"].tolist() == [2.5, 0.0, 0.0]
    assert result["reward_valid"].tolist() == [True, False, True]
    assert result["rewards", "number"].tolist() == [2.5, 0.0, 0.0]
    assert result["correct"].tolist() == [True, False, False]


@pytest.mark.parametrize("name", ["mean", "correct", "failed/time"])
def test_a_function_cannot_log_a_metric_of_every_reward(name):
    class Logging:
        def map(self, function, arguments, *, timeout):
            return [ReturnedCall(1.0, 0.0, metrics=((name, 99.0),))]

    with pytest.raises(ConfigError, match=f"'number' logged a metric '{name}', but reward/{name}"):
        Number(calls=Logging())(batch("1"))


def test_its_limit_is_handed_over():
    class Seen:
        def map(self, function, arguments, *, timeout):
            assert (function, arguments, timeout) == ("json.loads", [{"s": "1"}], 2.5)
            return InProcess().map(function, arguments, timeout=timeout)

    assert Number(timeout=2.5, calls=Seen())(batch("1"))["reward"].tolist() == [1.0]


def test_it_keeps_the_contract():
    class Constant(Number):
        def arguments(self, row):
            return {"s": "1"}

    check_component(Constant())


def test_the_outcomes_of_the_calls_are_recorded():
    class CallExecutor:
        def map(self, function, arguments, *, timeout):
            overran = FailedCall("time", "ran for more than 3 s", 2)
            crashed = FailedCall("died", "its process died", 1)
            return [
                ReturnedCall(1.0, 0.25, 1),
                ReturnedCall(0.0, 0.75, 3),
                overran,
                overran,
                crashed,
            ]

    with pytest.warns(RlcompWarning) as told, recording() as ledger:
        result = Number(calls=CallExecutor())(batch(*"12345"))

    means = ledger.means()
    assert means["reward/failed/time"] == 2
    assert means["reward/failed/died"] == 1
    assert means["reward/retried"] == 3
    assert (means["time/reward_call"], means["time/reward_call_max"]) == (0.5, 0.75)
    assert decode_texts(result["invalid_reason"]) == [
        "",
        "",
        *["ran for more than 3 s"] * 2,
        "its process died",
    ]
    shares = [str(warning.message).split(" and ")[0] for warning in told]
    assert shares == [
        "reward 'number': 1 of 5 calls failed (died)",
        "reward 'number': 2 of 5 calls failed (time)",
    ]


def test_where_no_call_returned_there_are_no_seconds():
    class CallExecutor:
        def map(self, function, arguments, *, timeout):
            return [FailedCall("error", "why", 1)]

    with pytest.warns(RlcompWarning), recording() as ledger:
        Number(calls=CallExecutor())(batch("1"))

    assert not [name for name in ledger.means() if name.startswith(("time/", "reward/retried"))]


@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, 1e39, 10**400, {"a": 1.0, "b": -1e39}], ids=str
)
def test_a_score_beyond_float32_is_a_failure(value):
    class CallExecutor:
        def map(self, function, arguments, *, timeout):
            return [ReturnedCall(value, 0.25, 2), ReturnedCall({"a": 1, "b": 3e38}, 0.25)][
                : len(arguments)
            ]

    with pytest.warns(RlcompWarning, match="which is infinite in float32"):
        result = Number(calls=CallExecutor())(batch("1"))

    assert not result["reward_valid"].item()
    assert decode_texts(result["invalid_reason"])[0].startswith(f"returned {str(value)[:20]}")


def test_only_the_metrics_of_calls_are_recorded_of_a_part():
    with recording() as inside:
        record("reward/mean", 1.0)
        record_total("reward/failed/time", 2)
        record_total("reward/retried", 3)
        record("time/reward_call", torch.tensor([1.0, 2.0]))

    with recording() as ledger:
        record_calls(inside)

    assert ledger.means() == {"reward/failed/time": 2, "reward/retried": 3, "time/reward_call": 1.5}
    assert ledger.counts["time/reward_call"] == 2
