import pytest
import torch
from tensordict import TensorDict

from rlcomp.errors import ConfigError
from rlcomp.interfaces.batch_reward import batch_arguments, row_outcomes
from rlcomp.metrics import recording
from rlcomp.workers.executor import FailedCall, ReturnedCall
from rlcomp.workers.signature import Signature

MESSAGES = [{"role": "user", "content": "?"}]
ROWS = [
    {"prompt": "p", "response": "r", "answer": "a", "level": 3},
    {"prompt": "q", "response": "s", "answer": "b", "conversation": {"messages": MESSAGES}},
]


def arguments(*names, rows=ROWS, takes_all=False, **entries):
    batch = TensorDict(entries, batch_size=[len(rows)])
    return batch_arguments(Signature(names, names, takes_all=takes_all), batch, rows, 7)


def test_a_function_gets_the_columns_that_it_names():
    assert arguments("completions") == {
        "completions": ["r", [{"role": "assistant", "content": "s"}]]
    }
    assert arguments("prompts", "level") == {"prompts": ["p", MESSAGES], "level": [3, None]}


def test_all_columns_are_no_more_than_columns_and_texts():
    found = arguments("completions", takes_all=True)

    assert sorted(found) == ["answer", "completions", "conversation", "level", "prompts"]
    assert found["answer"] == ["a", "b"]


def test_trls_further_arguments_are_passed_if_named():
    tokens = torch.tensor([[5, 6, 7], [5, 8, 0]])
    written = torch.tensor([[False, True, True], [False, True, False]])
    with recording(step=4):
        found = arguments(
            "completions",
            "completion_ids",
            "trainer_state",
            "log_metric",
            "seed",
            tokens=tokens,
            response_mask=written,
        )

    del found["completions"]
    assert found == {
        "completion_ids": [[6, 7], [8]],
        "trainer_state": {"global_step": 4},
        "log_metric": None,
        "seed": 7,
    }


def test_a_column_called_seed_is_the_column():
    rows = [{**row, "seed": 1} for row in ROWS]

    assert arguments("prompts", "seed", rows=rows)["seed"] == [1, 1]
    assert arguments("prompts", rows=rows, takes_all=True)["seed"] == [1, 1]


def test_a_missing_argument_is_refused():
    with pytest.raises(ConfigError, match=r"needs 'levels', .* did you mean 'level'\?"):
        arguments("completions", "levels")
    with pytest.raises(ConfigError, match="names completion_ids, but this batch holds no tokens"):
        arguments("completions", "completion_ids", tokens=torch.zeros(2, 1))


def test_the_rows_of_a_call_share_its_seconds_and_the_first_has_its_metrics():
    logged = (("a", 1.0),)

    assert row_outcomes(ReturnedCall([1.0, None], 0.5, 2, logged), 2) == [
        ReturnedCall(1.0, 0.5, 2, logged),
        ReturnedCall(None, 0.5, 2, ()),
    ]


def test_where_the_call_failed_every_row_has():
    failed = FailedCall("died", "why", 2)

    assert row_outcomes(failed, 3) == [failed] * 3


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": 1.0}, "a dict: must be a list with the score of each of 2 rows"),
        ([1.0], "returned 1 scores for 2 rows"),
        ([1.0] * 3, "returned 3 scores for 2 rows"),
    ],
)
def test_a_value_without_one_score_per_row_is_refused(value, told):
    with pytest.raises(ConfigError, match=told):
        row_outcomes(ReturnedCall(value, 0.5), 2)
