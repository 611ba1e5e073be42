"""Base of evaluators that score a policy's answers to held-out prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import Split, prompt_batch, split_examples
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.functional.statistics import share_interval
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.reward import check_decides
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record, recording
from rlcomp.text.answers import answer_prompts
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.rows import check_room

_Interval = Callable[[Tensor, float, torch.Generator], tuple[float, float]]


class HeldOutAnswers(Component):
    """Base of evaluators: scored answers to ``P`` prompts.

    Prompts and seed are the same at every evaluation, so that only the policy differs.

    Class attributes:
        counts_right: True if the evaluator counts right answers and so needs a reward with a
            verdict.

    Args:
        policy: the model that answers.
        task: the task with the held-out prompts; examples with a bad answer are left out.
        reward: the reward; writes ``correct`` and ``reward_valid``.
        split: ``"training"`` takes prompts of the training split instead.
        num_prompts: number of prompts; fewer if the task has fewer.
        max_new_tokens: longest answer, in tokens.
        name: prefix of the metrics.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        ConfigError: the policy does not stop where the prompt format ends a response, the reward
            compares an answer with others or has no verdict although one is needed, or the split
            has no example with a good answer.
        DataError: a held-out prompt and its response may exceed the policy's context.
    """

    counts_right: ClassVar[bool] = False

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reward: Component,
        split: Split = "held_out",
        num_prompts: PositiveInt,
        max_new_tokens: PositiveInt,
        name: NonEmptyText,
        prompt: PromptFormat | None,
    ) -> None:
        super().__init__()
        if reward.min_group_size > 1:
            raise ConfigError(
                f"{name}.reward is a {type(reward).__name__} and judges an answer by the others of "
                f"its group: set {name}.reward to a verifier, as recipe=ttrl does"
            )
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        self.prompt.check_policy(policy)
        self.policy = policy
        if self.counts_right:
            check_decides(reward, f"{name}.reward")
        self.reward = reward
        self.split: Split = split
        self.max_new_tokens = max_new_tokens
        self.name = name
        self.seed = torch.initial_seed()
        self.examples = split_examples(task, split, num_prompts, self.seed, only_right=True)
        self.policy_prompts = [example.prompt for example in self.examples]
        self.columns = [example.columns for example in self.examples]
        encoded = self.prompt.encode(self.policy_prompts, self.columns)
        check_room(
            [*map(len, encoded)],
            [self.max_new_tokens] * len(encoded),
            self.policy.context_length,
            self.policy_prompts.__getitem__,
        )

    def answers(
        self, prompts: Sequence[str], group_size: int, decoding: Decoding | None
    ) -> TensorDict:
        """Return responses to the held-out prompts with rewards, ``group_size`` rows per prompt.

        ``prompts`` are the texts for the policy; without ``decoding`` its own settings apply.
        """
        rows = answer_prompts(
            self.policy,
            prompts,
            prompt_ids=self.prompt.encode(prompts, self.columns),
            group_size=group_size,
            max_new_tokens=self.max_new_tokens,
            decoding=decoding,
            generator=torch.Generator().manual_seed(self.seed),
        )
        device = rows["tokens"].device
        for key, entry in prompt_batch(self.examples).items():
            rows[key] = entry.repeat_interleave(group_size, 0).to(device)
        with recording():  # drop the metrics of the reward: they describe training
            return self.reward(rows)

    def count_rows(self, mask: Tensor) -> Tensor:
        """Return the number of true rows of a mask for each prompt, int64 ``[P]``."""
        return mask.cpu().view(len(self.examples), -1).sum(1)

    def count_valid_and_right(self, answered: TensorDict) -> tuple[Tensor, Tensor]:
        """Return the number of valid and of right answers of each prompt, int64 ``[P]`` each."""
        valid = answered["reward_valid"]
        return self.count_rows(valid), self.count_rows(answered["correct"] & valid)

    def record_mean(
        self, name: str, per_prompt: Tensor, interval: _Interval = share_interval
    ) -> None:
        """Record the mean over prompts with its 95 % interval, if there are prompts.

        ``interval`` returns both bounds from values, level and generator.
        """
        if not len(per_prompt):
            return
        draws = torch.Generator().manual_seed(self.seed)
        low, high = interval(per_prompt, 0.95, draws)
        record(f"{self.name}/{name}", per_prompt)
        record(f"{self.name}/{name}_low", low)
        record(f"{self.name}/{name}_high", high)
