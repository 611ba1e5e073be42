"""Reward from a process reward model of an earlier phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.functional.process_reward import Aggregation, aggregate_steps
from rlcomp.interfaces.reward import write_reward
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record
from rlcomp.model.token_scorer import TokenScorer
from rlcomp.text.steps import StepTokens, split_steps


class ProcessScored(Component):
    """Process reward: ``R = min_k p_k`` (or product, last, mean), ``p_k = s(q_k)`` of each step.

    A step ends with a separator, the last step with the text. Its score is read after the token
    that completes it. The scorer is frozen here, as in ``reward=scored``.

    The scores of the steps are written beside the reward. They are no rewards themselves:
    ``shaping=step_rewards`` makes rewards of them, and ``shaping=potential`` shapes with them. An
    answer is ``correct`` if its reward is above 1/2; use a verifier in the evaluation.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``. Writes ``reward``, float32
    ``[B]``, ``rewards`` (``{process_scored: [B]}``), ``correct`` and ``reward_valid`` (bool
    ``[B]``; False for an empty answer or a score that is not finite), ``step_score`` (``p_k`` at
    the step's last token) and ``step_end`` ``[B, T]``. Records the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`, and ``reward/steps``, the steps per answer.

    Args:
        scorer: the process reward model.
        aggregation: ``min``, ``prod``, ``last`` or ``mean``.
        separator: text that ends a step; empty: every character is a step.

    Source:
        Lightman et al. 2023, arXiv:2305.20050; Wang et al. 2023, arXiv:2312.08935.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "step_score": (
            "B T",
            "float",
            "p_k: probability that the step which ends with the token is right",
            {"example": "probability"},
        ),
    }
    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid", "step_score", "step_end")
    is_free = True
    earlier = ("scorer",)

    scorer: TokenScorer

    def __init__(
        self, *, scorer: TokenScorer, aggregation: Aggregation = "min", separator: str = "\n"
    ) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.aggregation: Aggregation = aggregation
        self.separator = separator
        self._tokens = StepTokens(scorer.policy.tokenizer)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row."""
        with torch.no_grad():
            log_prob = F.logsigmoid(self.scorer.token_scores(batch))
        ends = self._ends(batch["tokens"], batch["response_mask"])
        finite = (log_prob.isfinite() | ~ends).all(1)
        reward = aggregate_steps(log_prob, ends & finite[:, None], self.aggregation).float()
        valid = finite & ends.any(1)
        batch["step_score"] = masked(log_prob.exp(), ends & valid[:, None])
        batch["step_end"] = ends & valid[:, None]
        record("reward/steps", ends.sum(1), where=valid)
        return write_reward(
            batch, reward, {"process_scored": reward}, reward > 0.5, valid, decides=False
        )

    def _ends(self, tokens: Tensor, response_mask: Tensor) -> Tensor:
        """Return the tokens that complete a step, shape ``[B, T]``."""
        mask = response_mask.cpu()
        ends = torch.zeros_like(mask)
        for row, written in enumerate(mask):
            places = written.nonzero()[:, 0]
            ids = tokens[row].cpu()[places].tolist()
            text = self._tokens.text(ids)
            if text:
                counts = self._tokens.counts(ids, text, split_steps(text, self.separator))
                ends[row, places[torch.tensor(counts) - 1]] = True
        return ends.to(tokens.device)
