"""Process rewards: step rewards plus an outcome reward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText
from rlcomp.component import Component
from rlcomp.interfaces.pooled_reward import record_calls
from rlcomp.interfaces.reward import TextReward, name_without_verdict, text_rows, write_reward
from rlcomp.interfaces.scores import check_score
from rlcomp.metrics import record, recording
from rlcomp.text.reasoning import StepTokens, split_steps


class StepAndOutcomeReward(Component):
    r"""Process rewards: one reward per step of a response, another for the outcome.

    A step ends with a separator and the blank pieces after it; the last step ends with the
    response. The reward of a step is written to the token that completes its text; rewards of steps
    that one token completes add up. The text is decoded from the sampled tokens.

    The outcome is separate, so that an estimator that adds both does not count steps twice.
    ``rewards`` gets the mean over the steps as ``steps``. A step that cannot be judged is left out;
    a response without a judged step has no valid reward.

    Reads ``prompt``, ``answer`` ``[B, W]``, ``tokens``, ``response_mask`` ``[B, T]``, and
    ``columns`` (``{name: [B, W]}``) if present. Runs the outcome's reward, writes its four
    keys ``[B]``, ``token_reward`` and ``step_end`` (ends of judged steps) ``[B, T]``, and
    ``invalid_reason`` (``[B, W]``) if the outcome's reward writes it. Records ``reward/steps``, the
    mean over valid responses of ``steps``, the metrics of
    :func:`rlcomp.interfaces.reward.write_reward` for the outcome, and of the outcome's reward only
    the metrics of calls (:func:`rlcomp.interfaces.pooled_reward.record_calls`).

    Args:
        outcome: the reward of the whole response.
        step: the reward of a step, which gets the step as the response.
        tokenizer: the policy's tokenizer.
        separator: text that ends a step.
        so_far: whether a step is scored together with all steps before it.

    Raises:
        ConfigError: the score of a step is not a number.
        DataError: the score of a step is infinite.

    Source:
        Process rewards: Lightman et al. 2023, arXiv:2305.20050.
    """

    reads = ("prompt", "answer", "tokens", "response_mask")
    optional = ("columns", "episode_error")
    writes = ("reward", "rewards", "correct", "reward_valid", "token_reward", "step_end")
    may_write = ("invalid_reason",)
    must_reach = ("step_end",)
    runs = ("outcome",)
    contained = True
    name = "steps"

    def __init__(
        self,
        *,
        outcome: Component,
        step: TextReward,
        tokenizer: PreTrainedTokenizerBase,
        separator: NonEmptyText = "\n",
        so_far: bool = True,
    ) -> None:
        super().__init__()
        self.outcome = outcome
        self.step = step
        self.separator = separator
        self.so_far = so_far
        self._tokens = StepTokens(tokenizer)

    @property
    def has_verdict(self) -> bool:
        """Return True if the outcome's reward has a verdict."""
        return name_without_verdict(self.outcome) is None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run the outcome's reward and score every step."""
        mask = batch["response_mask"].cpu()
        reward, count = torch.zeros(mask.shape), torch.zeros(mask.shape)
        rows = text_rows(batch, ("prompt", "answer"))
        step_rows, numbers, ends = [], [], []
        for row in range(len(rows)):
            ids = batch["tokens"][row].cpu()[mask[row]].tolist()
            positions = mask[row].nonzero()[:, 0]
            for text, tokens in self._steps(ids):
                step_rows.append({**rows[row], "response": text})
                numbers.append(row)
                ends.append(positions[tokens - 1])
        scores = self.step.score_rows(step_rows, numbers)
        for row, end, step, value in zip(numbers, ends, step_rows, scores, strict=True):
            name = f"the step {str(step['response'])[-60:]!r}"
            score = check_score(type(self.step).__name__, name, value)
            if score is not None:
                reward[row, end] += score
                count[row, end] += 1
        device = batch["tokens"].device
        return self._write(batch, reward.to(device), count.to(device))

    def _write(self, batch: TensorDict, reward: Tensor, count: Tensor) -> TensorDict:
        with recording() as ledger:
            outcome = self.outcome(batch.copy())
        record_calls(ledger)
        batch["token_reward"], batch["step_end"] = reward, count > 0
        mean = reward.sum(1) / count.sum(1).clamp(min=1)
        rewards = {**dict(outcome["rewards"].items()), "steps": mean}
        valid = outcome["reward_valid"] & (count > 0).any(1)
        if "invalid_reason" in outcome.keys():
            batch["invalid_reason"] = outcome["invalid_reason"]
        record("reward/steps", mean, where=valid)
        total, right = outcome["reward"], outcome["correct"]
        return write_reward(batch, total, rewards, right, valid, decides=self.has_verdict)

    def _steps(self, ids: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Yield the scored text of each step and the number of tokens up to its end."""
        if not ids:
            return
        text = self._tokens.text(ids)
        steps = split_steps(text, self.separator)
        ends = [*self._tokens.counts(ids, text, steps[:-1]), len(ids)]
        for step, prefix, tokens in zip(steps, accumulate(steps), ends, strict=True):
            yield (prefix if self.so_far else step), tokens
