"""Reward from reward models of an earlier phase."""

from __future__ import annotations

from typing import Annotated

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import MinLen, NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.reward_ensemble import Combination, combine
from rlcomp.functional.running_moments import merged_moments, running_std
from rlcomp.interfaces.reward import write_reward
from rlcomp.metrics import record
from rlcomp.model.scorer import Scorer


class Scored(Component):
    """Reward from reward models of the run: ``R = C_m((r_m - b_m) / s_m)``.

    ``C`` combines the members. Without ``normalised`` ``b`` = 0 and ``s`` = 1; with it they are the
    mean and the standard deviation of all scores of the member so far, this batch included.

    The scorers are frozen here: they run without gradient and in eval mode. Only a learner that
    names them changes them. A phase with an untrained scorer is refused.

    An answer is ``correct`` if its reward is above 0. This makes sense only for centred or
    normalised scores, so use a verifier in the evaluation. (An evaluation with this reward adds its
    answers to the statistics.)

    Reads ``tokens``, ``attention_mask`` ``[B, T]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{scored: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``; False of a score that is
    not finite). Records what :func:`rlcomp.interfaces.reward.write_reward` does, and
    ``reward/disagreement``, the standard deviation over the members, and, with ``normalised``,
    ``reward/raw_score``, the mean over the members before normalisation, on a fixed scale.

    Args:
        scorers: the members, at least one.
        combination: ``mean``, ``median``, ``min``, ``mean_minus_std``, ``mean_minus_variance``.
        penalty: lambda of the last two, per standard deviation or variance.
        normalised: whether each member is scaled to mean 0 and standard deviation 1.

    Source:
        Ouyang et al. 2022, arXiv:2203.02155; ensembles: Coste et al. 2023, arXiv:2310.02743.
    """

    reads = ("tokens", "attention_mask")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    is_free = True
    earlier = ("scorers",)

    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(
        self,
        *,
        scorers: Annotated[list[Scorer], MinLen(1)],
        combination: Combination = "mean",
        penalty: NonNegativeFloat = 0.5,
        normalised: bool = False,
    ) -> None:
        super().__init__()
        # Not submodules: the nodes that are trained own the tensors.
        object.__setattr__(self, "scorers", scorers)
        self.combination = combination
        self.penalty = penalty
        self.normalised = normalised
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(len(scorers), dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(len(scorers), dtype=torch.float64))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row."""
        with torch.no_grad():
            scores = torch.stack([scorer.scores(batch) for scorer in self.scorers])
        valid = scores.isfinite().all(0) & batch["attention_mask"].any(1)
        if self.normalised:
            record("reward/raw_score", scores.mean(0), where=valid)
            scores = self._normalised(scores, valid)
        scores = torch.where(valid, scores, 0.0)
        reward = combine(scores, self.combination, self.penalty)
        record("reward/disagreement", scores.std(0, correction=0), where=valid)
        return write_reward(batch, reward, {"scored": reward}, reward > 0, valid, decides=False)

    def _normalised(self, scores: Tensor, valid: Tensor) -> Tensor:
        """Add the scores to the statistics (Chan's formula) and normalise with them."""
        buffers = self.count, self.mean, self.squares
        moments = merged_moments(*buffers, scores[:, valid].double())
        # In place, so that other holders of the buffers see the change.
        for buffer, new in zip(buffers, moments, strict=True):
            buffer.copy_(new)
        std = running_std(*moments)
        return ((scores - self.mean[:, None]) / std[:, None]).to(scores.dtype)
