"""Base class of text rewards (verifiers)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.errors import DataError
from rlcomp.metrics import record


class TextReward(Component):
    """A reward computed from prompt, response and gold answer, row by row.

    A subclass defines :meth:`score` and a ``name``. A response that cannot be judged (``None`` or
    NaN) gets reward 0 and ``reward_valid`` False, so that it is not trained on; an exception stops
    the run, because a broken verifier must never train a model.

    Reads ``prompt``, ``response``, ``answer`` (``[B, W]`` uint8 texts). Writes ``reward``, float32
    ``[B]``, ``rewards`` (``{name: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``). Records
    ``reward/mean``, ``reward/correct`` (both over valid rows) and ``reward/invalid_fraction``.

    Attributes:
        name: under which the part stands in ``rewards``.
    """

    reads = ("prompt", "response", "answer")
    writes = ("reward", "rewards", "correct", "reward_valid")

    name: str

    @abstractmethod
    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """The reward of one response, or None where it cannot be judged."""
        raise NotImplementedError

    def is_correct(self, score: float) -> bool:
        """Whether a score means that the response is right: 1 or more by default."""
        return score >= 1.0

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row; write the reward entries."""
        texts = zip(*(decode_texts(batch[key]) for key in TextReward.reads), strict=True)
        scores = [self._checked(*row) for row in texts]
        device = batch["response"].device
        values = [0.0 if s is None else s for s in scores]
        reward = torch.tensor(values, dtype=torch.float32, device=device)
        valid = torch.tensor([s is not None for s in scores], dtype=torch.bool, device=device)
        correct = [s is not None and self.is_correct(s) for s in scores]
        right = torch.tensor(correct, dtype=torch.bool, device=device)
        return put_reward(batch, reward, {self.name: reward}, right, valid)

    def _checked(self, prompt: str, response: str, answer: str) -> float | None:
        score = self.score(prompt, response, answer)
        if score is None or math.isnan(score):
            return None
        if math.isinf(score):
            raise DataError(f"{type(self).__name__} scored {response[:60]!r} with {score}")
        return float(score)


def put_reward(
    batch: TensorDict,
    reward: Tensor,
    rewards: Mapping[str, Tensor],
    correct: Tensor,
    valid: Tensor,
) -> TensorDict:
    """Write the four reward entries into a batch and record them.

    Args:
        batch: gets the entries.
        reward: shape ``[B]``; ignored where not valid.
        rewards: each named part, shape ``[B]``.
        correct: bool, shape ``[B]``.
        valid: bool, shape ``[B]``: which rows could be judged.

    Returns:
        The batch.
    """
    batch["reward"] = torch.where(valid, reward, torch.zeros_like(reward))
    batch["rewards"] = TensorDict(dict(rewards), batch_size=batch.batch_size)
    batch["correct"] = correct & valid
    batch["reward_valid"] = valid
    record("reward/mean", batch["reward"], where=valid)
    record("reward/correct", batch["correct"].float(), where=valid)
    record("reward/invalid_fraction", (~valid).float())
    return batch
