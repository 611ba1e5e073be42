"""One response judged by a reward, on the clock."""

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
class Verdict:
    """What a reward makes of a response.

    Attributes:
        said: ``accepted``, ``refused``, ``invalid`` (it could not judge) or ``raised``.
        seconds: that it took.
        why: of an invalid row or an exception, in one line.
    """

    said: Literal["accepted", "refused", "invalid", "raised"]
    seconds: float
    why: str = ""


class Judge:
    """A reward, asked for one row at a time: what raises or hangs is then known by its answer.

    Args:
        reward: reads texts and columns; tokens as well, if there is a tokenizer.
        tokenizer: None: the reward reads no tokens.
    """

    def __init__(self, reward: Component, tokenizer: PreTrainedTokenizerBase | None) -> None:
        self.reward = reward
        self.tokenizer = tokenizer

    def __call__(self, example: Example, response: str) -> Verdict:
        """The verdict on a response to the prompt of an example."""
        batch = self._batch(example, response)
        start = time.perf_counter()
        try:
            judged = self.reward(batch)
        # Whatever a verifier raises on a hostile answer would stop a run: that is what is told.
        except Exception as error:
            return Verdict("raised", time.perf_counter() - start, in_one_line(error))
        seconds = time.perf_counter() - start
        if not bool(judged["reward_valid"].all()):
            told = "invalid_reason" in judged.keys()
            return Verdict(
                "invalid", seconds, decode_texts(judged["invalid_reason"])[0] if told else ""
            )
        return Verdict("accepted" if bool(judged["correct"].all()) else "refused", seconds)

    def check(self, example: Example) -> None:
        """Judge a gold answer and let whatever it raises through: a column may be missing.

        It is not on the clock: a first call imports what the others find imported.
        """
        self.reward(self._batch(example, example.answer))

    def _batch(self, example: Example, response: str) -> TensorDict:
        batch = prompt_batch([example])
        if self.tokenizer is not None:
            batch.update(encode_rows(self.tokenizer, [example.prompt], [response]))
        batch["response"] = encode_texts([response])
        batch["group_id"] = batch["prompt"].new_zeros(1).long()
        return batch
