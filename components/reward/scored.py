"""Reward of reward models that an earlier phase has trained."""

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
    """Score of an answer by reward models of the run: ``R = C_m((r_m - b_m) / s_m)``.

    ``C`` combines the members. Without ``normalised`` ``b`` = 0 and ``s`` = 1; with it they are
    mean and standard deviation of all scores of the member so far, those of this batch among them.

    The scorers are frozen here: they are read without gradient and in eval mode, and nothing but a
    learner that names them changes them. A phase that uses one nobody has trained is refused.

    An answer is ``correct`` if its reward is above 0, which means something of centred or
    normalised scores only: ask a verifier in the evaluation. (An evaluation that asks this part
    takes its answers into the statistics.)

    Reads ``tokens``, ``attention_mask`` ``[B, T]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{scored: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``; False of a score that is
    not finite). Records what :func:`rlcomp.interfaces.reward.write_reward` does, and
    ``reward/disagreement``, the standard deviation over the members, and, with ``normalised``,
    ``reward/raw_score``, the mean over the members before it: a scale that does not move.

    Args:
        scorers: the members, at least one.
        combination: ``mean``, ``median``, ``min``, ``mean_minus_std``, ``mean_minus_variance``.
        penalty: lambda of the last two, per standard deviation or variance.
        normalised: whether each member is brought to mean 0 and standard deviation 1.

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
        # Past nn.Module: their tensors belong to the nodes that are trained.
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
        """Take the scores into the statistics (Chan's formula), and apply these."""
        seen = self.count, self.mean, self.squares
        found = merged_moments(*seen, scores[:, valid].double())
        # In place: who holds the buffers sees that they have changed.
        for held, new in zip(seen, found, strict=True):
            held.copy_(new)
        std = running_std(*found)
        return ((scores - self.mean[:, None]) / std[:, None]).to(scores.dtype)
