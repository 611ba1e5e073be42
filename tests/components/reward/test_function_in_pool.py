"""Functions by dotted path: in workers, and in the process with the same outcome."""

import functools
import json
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from components.reward.function import FunctionReward
from rlcomp.arguments import Unbuilt
from rlcomp.batch import decode_texts, encode_columns, encode_texts
from rlcomp.errors import ConfigError, RlcompWarning
from rlcomp.metrics import recording
from rlcomp.seed import named_seed
from rlcomp.testing import check_component
from rlcomp.workers.executor import FailedCall, ReturnedCall
from rlcomp.workers.in_process import InProcess
from rlcomp.workers.pool import WorkerPool


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture(scope="module")
def pool():
    result = WorkerPool(num_workers=2)
    yield result
    result.close()


@pytest.fixture(params=["workers", "in_process"])
def calls(request, pool):
    return pool if request.param == "workers" else InProcess()


def batch(responses, prompts=None, answers=None, columns=None):
    entries = {
        "prompt": encode_texts(prompts or ["p"] * len(responses)),
        "response": encode_texts(responses),
        "answer": encode_texts(answers or ["a"] * len(responses)),
    }
    if columns is not None:
        entries["columns"] = encode_columns(columns)
    return TensorDict(entries, batch_size=[len(responses)])


def own(name, calls=None, **arguments):
    return FunctionReward(function=f"own_rewards.{name}", calls=calls, **arguments)


def test_a_function_by_its_path_scores_rows(calls):
    result = own("equal", calls)(batch(["a", "b", "a"], answers=["a", "a", "b"]))

    assert result["reward"].tolist() == [1.0, 0.0, 0.0]
    assert result["rewards", "function"].tolist() == [1.0, 0.0, 0.0]
    assert result["correct"].tolist() == [True, False, False]
    assert decode_texts(result["invalid_reason"]) == ["", "", ""]


def test_an_object_is_built_from_its_class_and_arguments(calls):
    judge = FunctionReward(function=Unbuilt("own_rewards.Judge", {"threshold": 2}), calls=calls)

    result = judge(batch(["abd", "axx"], answers=["abc", "abc"]))

    assert result["reward"].tolist() == [1.0, 0.0]


def test_an_async_function_is_awaited(calls):
    assert own("awaited", calls)(batch(["ab", ""]))["reward"].tolist() == [2.0, 0.0]


def test_named_parts_are_weighted_and_one_decides_correctness(calls):
    reward = own("judged", calls, weights={"right": 2.0, "level": 0.5}, correct_by="right")
    columns = [{"level": 3, "tag": "x"}, {"level": 4, "tag": "y"}]

    with recording() as ledger:
        result = reward(batch(["a", "b"], columns=columns))

    # 2 * 1 + 0.5 * 3 + 1 * 2 and 0 + 0.5 * 4 + 1 * 2: the others are prompt, which **columns does
    # not get, and tag; "level" is named.
    assert result["rewards", "others"].tolist() == [1.0, 1.0]
    assert result["reward"].tolist() == [4.5, 3.0]
    assert result["correct"].tolist() == [True, False]
    means = {name: mean for name, mean in ledger.means().items() if name[:5] != "time/"}
    assert means == {
        "reward/right": 0.5,
        "reward/level": 3.5,
        "reward/others": 1.0,
        "reward/mean": 3.75,
        "reward/correct": 0.5,
        "reward/invalid_fraction": 0.0,
    }


def test_none_is_invalid_and_a_mistake_is_counted_and_reported(calls):
    reward = own("judged", calls, correct_by="right")
    rows = batch(["a", "?", "!", "!!"], columns=[{"level": 1}] * 4)

    with recording() as ledger, pytest.warns(RlcompWarning) as told:
        result = reward(rows)

    assert result["reward_valid"].tolist() == [True, False, False, False]
    assert result["reward"].tolist() == [2.0, 0.0, 0.0, 0.0]
    assert torch.isnan(result["rewards", "level"]).tolist() == [False, True, True, True]
    reasons = decode_texts(result["invalid_reason"])
    assert reasons[0] == ""
    assert "returned None or NaN" in reasons[1]
    assert reasons[2].startswith("ValueError: a mistake (own_rewards.py, line ")
    assert ledger.means()["reward/failed/error"] == 2
    assert ledger.means()["reward/level"] == 1.0
    assert "reward/retried" not in ledger.means()
    (warning,) = told
    assert "'function': 2 of 4 calls failed (error)" in str(warning.message)
    assert "ValueError: a mistake" in str(warning.message)
    reward(rows)  # warned once: a second warning would be an error


def test_a_score_that_is_not_finite_is_invalid(calls):
    rows = batch(["nan", "none", "inf", "big", "x"])

    with pytest.warns(RlcompWarning, match="returned inf, which is infinite in float32"):
        result = own("given", calls)(rows)

    assert result["reward_valid"].tolist() == [False, False, False, False, True]
    nan, none = decode_texts(result["invalid_reason"])[:2]
    assert nan == none
    assert nan.startswith("own_rewards.given (")
    assert "returned 1e+39" in decode_texts(result["invalid_reason"])[3]


def test_a_part_that_float32_cannot_hold_is_invalid(calls):
    with pytest.warns(RlcompWarning, match="infinite in float32"):
        assert not own("huge", calls)(batch(["x"]))["reward_valid"].item()


def test_a_text_is_no_score(calls):
    with pytest.raises(ConfigError, match=r"FunctionReward: .* scored 'text' with '1', a str"):
        own("given", calls)(batch(["text"]))


def test_a_parameter_called_seed_gets_a_number_of_its_own_for_each_step_and_row(calls):
    torch.manual_seed(5)
    reward = own("drawn", calls, correct_by="right")

    with recording(step=3):
        result = reward(batch(["x", "x"]))

    seeds = [named_seed(5, f"3/{row}") for row in range(2)]
    assert result["rewards", "draw"].tolist() == pytest.approx([s % 1009 / 1009 for s in seeds])
    assert len(set(seeds)) == 2


def test_a_column_called_seed_is_the_columns(calls):
    result = own("drawn", calls, correct_by="right")(batch(["x"], columns=[{"seed": 6}]))

    assert result["rewards", "draw"].item() == pytest.approx(6 / 1009)


def test_a_function_of_the_whole_batch_gets_lists(calls):
    columns = [
        {"level": 2, "tag": "x"},
        {"conversation": {"messages": [{"role": "user", "content": "four"}]}, "tag": "y"},
    ]
    rows = batch(["a", "bc"], prompts=["ppp", "not this"], answers=["", "z"], columns=columns)

    result = own("everything", calls)(rows)

    # prompt + 10 response + 100 answer + 1000 level; the second row's prompt is its last message.
    assert result["reward"].tolist() == [3 + 10 + 0 + 2000, 4 + 20 + 100 + 0]


def test_it_can_log_and_see_the_step(calls):
    torch.manual_seed(5)
    with recording(step=7) as ledger:
        result = own("told", calls)(batch(["a", "abc"]))

    assert result["reward"].tolist() == [7.0, named_seed(5, "7") % 2]
    assert ledger.means()["reward/length"] == 2.0
    assert ledger.counts["reward/length"] == 1


def test_one_handed_over_itself_can_do_so_too():
    import own_rewards

    torch.manual_seed(5)
    with recording(step=7) as ledger:
        result = FunctionReward(function=own_rewards.told)(batch(["a", "abc"]))

    assert result["reward"].tolist() == [7.0, named_seed(5, "7") % 2]
    assert ledger.means()["reward/length"] == 2.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("too_few", "returned 1 scores for 2 rows"),
        ("no_list", "returned '1.0', a float: must be a list"),
    ],
)
def test_it_must_return_a_score_a_row(calls, name, message):
    with pytest.raises(ConfigError, match=message):
        own(name, calls)(batch(["a", "b"]))


def test_a_failed_batch_call_makes_all_rows_invalid(calls):
    with recording() as ledger, pytest.warns(RlcompWarning, match="2 of 2 calls failed"):
        result = own("fails", calls)(batch(["a", "b"]))

    assert not result["reward_valid"].any()
    assert ledger.means()["reward/failed/error"] == 2


def test_token_ids_are_those_of_the_response(calls):
    rows = batch(["a", "b"], columns=[{"longest": 3, "cache": 2}] * 2)
    rows["tokens"] = torch.tensor([[7, 1, 2, 3, 0], [7, 7, 5, 0, 0]])
    rows["response_mask"] = torch.tensor([[0, 1, 1, 1, 0], [0, 0, 1, 0, 0]]).bool()

    # Three tokens are 2 over 3 - 2, of 2: -1; one is none.
    assert own("soft_overlong", calls)(rows)["reward"].tolist() == [-1.0, 0.0]


def test_missing_token_ids_are_named():
    with pytest.raises(ConfigError, match="names completion_ids, but this batch holds no tokens"):
        own("soft_overlong")(batch(["a"], columns=[{"longest": 3, "cache": 2}]))


def test_a_column_that_no_row_has_is_named():
    rows = batch(["a"], columns=[{"most": 1.0}])
    rows["tokens"] = torch.tensor([[7, 1]])
    rows["response_mask"] = torch.tensor([[False, True]])

    with pytest.raises(ConfigError, match="needs 'size', which this example does not have"):
        own("repetition")(rows)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("equal", set()),
        ("judged", {"level"}),
        ("drawn", set()),
        ("everything", set()),
        ("told", set()),
        ("repetition", {"size", "most"}),
    ],
)
def test_the_columns_it_cannot_do_without(name, columns):
    assert own(name).needed_columns == columns


def test_trls_reward_functions_give_their_recorded_values(shared_data, calls):
    lines = (shared_data / "peers" / "trl_rewards.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines]
    found, expected = [], []
    for name, path in (
        ("soft_overlong", "soft_overlong"),
        ("repetition_penalty", "repetition"),
        ("think_format", "think_format"),
    ):
        chosen = [case for case in cases if case["fn"] == name]
        found += own(path, calls)(_rows(chosen))["reward"].tolist()
        expected += [case["expected"] for case in chosen]

    assert found == pytest.approx(expected)
    assert len(found) == len(cases) == 18


def _rows(cases):
    """A batch of TRL's cases: token ids, parameters as columns, completions in messages."""
    ids = [case.get("completion_ids", [1] * case.get("length", 0)) for case in cases]
    columns = [
        {
            "longest": case.get("params", {}).get("max_completion_len", 0),
            "cache": case.get("params", {}).get("soft_punish_cache", 0),
            "size": case.get("params", {}).get("ngram_size", 0),
            "most": case.get("params", {}).get("max_penalty", 0.0),
            "conversation": {"messages": [{"role": "user", "content": "?"}]},
        }
        for case in cases
    ]
    rows = batch([case.get("completion", "") for case in cases], columns=columns)
    width = max(map(len, ids)) + 1
    rows["tokens"] = torch.tensor([[*row, *[0] * (width - len(row))] for row in ids])
    lengths = torch.tensor([len(row) for row in ids])
    rows["response_mask"] = torch.arange(width)[None] < lengths[:, None]
    return rows


class Slow:
    """Calls; the second one runs out of time."""

    def map(self, function, arguments, *, timeout, concurrency, whole_batch):
        assert (function, timeout, concurrency, whole_batch) == ("own_rewards.equal", 0.3, 1, False)
        assert arguments == [{"response": "a", "answer": "a"}, {"response": "b", "answer": "a"}]
        return [ReturnedCall(1.0, 0.25, 2), FailedCall("time", "ran for more than 0.3 s", 1)]


def test_an_overrun_is_invalid_and_counted():
    reward = own("equal", Slow(), timeout=0.3)

    with recording() as ledger, pytest.warns(RlcompWarning, match=r"ran for more than 0.3 s"):
        result = reward(batch(["a", "b"]))

    assert result["reward_valid"].tolist() == [True, False]
    means = ledger.means()
    assert (means["reward/retried"], means["reward/failed/time"]) == (1, 1)
    assert (means["time/reward_call"], means["time/reward_call_max"]) == (0.25, 0.25)


def test_calls_of_an_async_function_run_together():
    class Seen:
        def map(self, function, arguments, *, timeout, concurrency, whole_batch):
            assert (timeout, concurrency) == (10.0, 5)
            return [ReturnedCall(1.0, 0.0) for _ in arguments]

    own("awaited", Seen(), concurrency=5)(batch(["a"]))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("no_such_module.score", "'no_such_module.score': ModuleNotFoundError"),
        ("own_rewards.no_such", "AttributeError"),
        ("score", "must be package.module.name"),
        ("__main__.score", "must be package.module.name"),
        ("own_rewards.Judge", r"set function=\{_target_: own_rewards"),
        (Unbuilt("own_rewards.equal", {}), "must be a class with __call__"),
        (Unbuilt("own_rewards.Judge", {"treshold": 1}), "missing a required argument: 'threshold'"),
        (Unbuilt("own_rewards.Judge", {"threshold": {1}}), "not JSON serializable"),
    ],
)
def test_objects_that_cannot_be_called_are_refused_at_construction(function, message):
    with pytest.raises(ConfigError, match=message):
        FunctionReward(function=function)


def test_a_partial_runs_in_the_process(monkeypatch):
    import own_rewards

    class Never:
        def map(self, *args, **kwargs):
            raise AssertionError

    reward = FunctionReward(
        function=functools.partial(own_rewards.equal, answer="b"), calls=Never()
    )

    assert reward(batch(["b"]))["reward"].tolist() == [1.0]


def test_it_keeps_the_contract(pool):
    check_component(own("equal", pool))


def test_one_row_by_itself_is_a_call_in_the_pool(calls):
    row = {"prompt": "p", "response": "abd", "answer": "abc"}

    assert own("equal", calls).score_row(row) == 0.0
    judge = FunctionReward(function=Unbuilt("own_rewards.Judge", {"threshold": 2}), calls=calls)
    assert judge.score_rows([row, {**row, "response": "xbx"}], [4, 7]) == [1.0, 0.0]


def test_a_failure_of_one_row_by_itself_is_counted():
    class Fails:
        def map(self, function, arguments, **_):
            return [FailedCall("died", "why")]

    with recording() as ledger, pytest.warns(RlcompWarning, match="why"):
        assert own("equal", Fails()).score_row({"response": "a", "answer": "b"}) is None

    assert ledger.means()["reward/failed/died"] == 1
