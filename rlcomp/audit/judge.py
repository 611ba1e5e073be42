"""Timed verdict of a reward on one response."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.data.examples import prompt_batch
from rlcomp.errors import in_one_line
from rlcomp.interfaces.task import Example
from rlcomp.text.rows import encode_rows


@dataclass(frozen=True)
class RewardVerdict:
    """Verdict of a reward on a response.

    Attributes:
        said: ``accepted``, ``refused``, ``invalid`` (the reward could not judge the response) or
            ``raised`` (the reward raised an exception).
        seconds: duration of the call.
        why: reason for an invalid row, or the exception, in one line.
    """

    said: Literal["accepted", "refused", "invalid", "raised"]
    seconds: float
    why: str = ""


class RewardJudge:
    """Reward that is called on one row at a time, so that a failing call identifies its answer.

    Args:
        reward: reads texts and columns; also tokens, if there is a tokenizer.
        tokenizer: None if the reward reads no tokens.
    """

    def __init__(self, reward: Component, tokenizer: PreTrainedTokenizerBase | None) -> None:
        self.reward = reward
        self.tokenizer = tokenizer

    def __call__(self, example: Example, response: str) -> RewardVerdict:
        """Return the verdict on a response to the prompt of an example."""
        batch = self._batch(example, response)
        start = time.perf_counter()
        try:
            output = self.reward(batch)
        # Any exception of a verifier on a hostile answer would stop a run: record it.
        except Exception as error:
            return RewardVerdict("raised", time.perf_counter() - start, in_one_line(error))
        seconds = time.perf_counter() - start
        if not bool(output["reward_valid"].all()):
            explained = "invalid_reason" in output.keys()
            return RewardVerdict(
                "invalid", seconds, decode_texts(output["invalid_reason"])[0] if explained else ""
            )
        return RewardVerdict("accepted" if bool(output["correct"].all()) else "refused", seconds)

    def check(self, example: Example) -> None:
        """Judge a gold answer and let any exception through, since a column may be missing.

        It is not timed: the first call may include imports.
        """
        self.reward(self._batch(example, example.answer))

    def _batch(self, example: Example, response: str) -> TensorDict:
        batch = prompt_batch([example])
        if self.tokenizer is not None:
            batch.update(encode_rows(self.tokenizer, [example.prompt], [response]))
        batch["response"] = encode_texts([response])
        batch["group_id"] = batch["prompt"].new_zeros(1).long()
        return batch
