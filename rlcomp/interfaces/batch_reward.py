"""Reward functions of a whole batch, as TRL calls them: their arguments and return values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensordict import TensorDict

from rlcomp.columns import CONVERSATION
from rlcomp.errors import ConfigError, nearest
from rlcomp.metrics import step
from rlcomp.workers.executor import CallOutcome, FailedCall, ReturnedCall
from rlcomp.workers.signature import Signature

Row = Mapping[str, object]

# Names of arguments that a function may have in addition to the columns of the task.
EXTRA_ARGUMENTS = ("prompts", "completions", "completion_ids", "trainer_state", "log_metric")


def batch_arguments(
    signature: Signature, batch: TensorDict, rows: Sequence[Row], seed: int
) -> dict[str, object]:
    """Return the arguments of a function of the whole batch: a list with an entry for each row.

    A row without a column has None in the list of that column. If the prompt of a row is a
    conversation, the row's prompt and completion are lists of messages.

    Args:
        signature: signature of the function.
        batch: ``[B]`` rows, with ``tokens`` and ``response_mask`` ``[B, T]`` for
            ``completion_ids``.
        rows: texts and columns of the rows.
        seed: value of the function's parameter ``seed``, unless the task has a column ``seed``.
            Without a parameter of this name the function does not get it, not even in ``**``.

    Raises:
        ConfigError: the function needs a column that no row has, or token ids that the batch
            lacks.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {
        name: [row.get(name) for row in rows]
        for name in names
        if name not in ("prompt", "response")
    }
    arguments: dict[str, object] = {
        "seed": seed,
        **{name: values for name, values in columns.items() if signature.takes(name)},
        "prompts": [_messages(row) or row["prompt"] for row in rows],
        "completions": [_completion(row) for row in rows],
    }
    if "trainer_state" in signature.named:
        arguments["trainer_state"] = {"global_step": step()}
    if "log_metric" in signature.named:
        arguments["log_metric"] = None  # the process that makes the call sets it
    if "completion_ids" in signature.named:
        arguments["completion_ids"] = _token_ids(batch)
    for name in signature.needed:
        if name not in arguments:
            raise ConfigError(missing_argument_message(name, {**columns, **arguments}))
    if "seed" not in {*columns, *signature.named}:
        del arguments["seed"]
    return {name: value for name, value in arguments.items() if signature.takes(name)}


def missing_argument_message(name: str, known: Mapping[str, object]) -> str:
    """Return the message about a parameter of a reward function without a column of its name."""
    return (
        f"the function needs {name!r}, which this example does not have{nearest(name, known)}; a "
        "reward is called with prompt, response, answer and the columns of its task: rename the "
        "parameter, or give it a default"
    )


def _messages(row: Row) -> object:
    conversation = row.get(CONVERSATION)
    return conversation.get("messages") if isinstance(conversation, Mapping) else None


def _completion(row: Row) -> object:
    if _messages(row) is None:
        return row["response"]
    return [{"role": "assistant", "content": row["response"]}]


def _token_ids(batch: TensorDict) -> list[list[int]]:
    if not {"tokens", "response_mask"} <= {*batch.keys()}:
        raise ConfigError(
            "the function names completion_ids, but this batch holds no tokens of responses: give "
            "the parameter a default, or work on completions"
        )
    tokens, mask = batch["tokens"].cpu(), batch["response_mask"].cpu()
    return [row[in_response].tolist() for row, in_response in zip(tokens, mask, strict=True)]


def row_outcomes(outcome: CallOutcome, count: int) -> list[CallOutcome]:
    """Split the outcome of a call for the whole batch into an outcome for each row.

    A failure is the outcome of every row. Each row has the seconds and tries of the whole call; the
    metrics that the call logged go to the first row.

    Args:
        outcome: outcome of the call; a value must be a list.
        count: number of rows.

    Raises:
        ConfigError: the value is not a list, or has another length.
    """
    if isinstance(outcome, FailedCall):
        return [outcome] * count
    values = outcome.value
    if not isinstance(values, list):
        raise ConfigError(
            f"a function of the whole batch returned {str(values)[:60]!r}, a "
            f"{type(values).__name__}: must be a list with the score of each of {count} rows"
        )
    if len(values) != count:
        raise ConfigError(
            f"a function of the whole batch returned {len(values)} scores for {count} rows: must "
            "be one per row, None where it cannot be judged"
        )
    logged = [outcome.metrics] + [()] * count
    return [
        ReturnedCall(value, outcome.seconds, outcome.tries, metrics)
        for value, metrics in zip(values, logged, strict=False)
    ]
