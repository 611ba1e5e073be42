"""Brier score of a critic on held-out states, against new continuations."""

from __future__ import annotations

from typing import Protocol

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples, prompt_batch
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import SupportsTurns
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record, recording
from rlcomp.text.answers import answer_prompts, continue_rows
from rlcomp.text.prompt import resolve_prompt_format


class HasValues(Protocol):
    """Critic with the value of the state before each response token."""

    def values(self, batch: TensorDict) -> Tensor:
        """Return the values, shape ``[B, T]``, in reward units."""
        ...


class ValueQuality(Component):
    """Evaluator of a critic's predictions at held-out states, compared with a constant.

    A response to each prompt is sampled and cut at a random place; ``K`` continuations from there
    have rewards ``R_k``. ``brier`` is the mean of ``(V(s) - R_k)^2`` over states and continuations,
    ``brier_constant`` the same for the best constant, the mean reward; ``error`` is the mean of
    ``|V(s) - mean_k R_k|``. Continuations whose reward is not valid are left out.

    Records ``<name>/brier``, ``<name>/brier_constant``, ``<name>/error``, in reward units (squared
    for the first two), and ``<name>/invalid_fraction``.

    Args:
        policy: the model that samples.
        critic: the critic (``value=critic``, ``head`` or ``verbalised``).
        task: the task with the held-out prompts.
        reward: the reward of a whole response.
        max_new_tokens: longest response, in tokens.
        num_prompts: number of prompts; fewer if the task has fewer.
        continuations: continuations of each state (``K``).
        name: prefix of its metrics.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        ConfigError: the reward compares an answer with others.

    Source:
        Brier 1950, Monthly Weather Review 78(1), for rewards of 0 and 1.
    """

    def __init__(
        self,
        *,
        policy: SupportsTurns,
        critic: HasValues,
        task: Task,
        reward: Component,
        max_new_tokens: PositiveInt,
        num_prompts: PositiveInt = 128,
        continuations: PositiveInt = 64,
        name: NonEmptyText = "value_quality",
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        if reward.min_group_size > 1:
            raise ConfigError(
                f"{name}.reward is a {type(reward).__name__}, which judges an answer by the others "
                f"of its group: set {name}.reward to a verifier"
            )
        self.policy = policy
        self.critic = critic
        self.reward = reward
        self.max_new_tokens = max_new_tokens
        self.continuations = continuations
        self.name = name
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        # The same prompts and draws at every evaluation.
        self.seed = torch.initial_seed()
        self.examples = held_out_examples(task, num_prompts, self.seed)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        generator = torch.Generator().manual_seed(self.seed)
        rows = self._responses(generator)
        lengths = rows["response_mask"].sum(1).cpu()
        cuts = (torch.rand(len(lengths), generator=generator) * lengths).long()
        # ``argmax`` finds the first token of the response; ``cuts`` counts tokens from there.
        position = rows["response_mask"].int().argmax(1) + cuts.to(rows["tokens"].device)
        value = self.critic.values(rows).detach().gather(1, position[:, None])
        outcome, valid = self._outcomes(rows, cuts, generator)
        self._record(value, outcome, valid)
        return batch

    def _responses(self, generator: torch.Generator) -> TensorDict:
        prompts = [example.prompt for example in self.examples]
        columns = [example.columns for example in self.examples]
        rows = answer_prompts(
            self.policy,
            prompts,
            prompt_ids=self.prompt.encode(prompts, columns),
            group_size=1,
            max_new_tokens=self.max_new_tokens,
            generator=generator,
        )
        return rows.update(prompt_batch(self.examples).to(rows["tokens"].device))

    def _outcomes(
        self, rows: TensorDict, cuts: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return the continuations' rewards and whether they are valid, ``[B, K]`` each."""
        continued = continue_rows(
            self.policy,
            rows,
            cuts,
            continuations=self.continuations,
            max_new_tokens=self.max_new_tokens,
            generator=generator,
        )
        with recording():  # drop the reward's metrics: they are for training
            judged = self.reward(continued)
        shape = (len(cuts), self.continuations)
        return judged["reward"].view(shape), judged["reward_valid"].view(shape)

    def _record(self, value: Tensor, outcome: Tensor, valid: Tensor) -> None:
        """Record the errors of values ``[B, 1]`` against rewards ``[B, K]`` of continuations."""
        record(f"{self.name}/invalid_fraction", (~valid).float())
        mean = outcome[valid].mean()
        record(f"{self.name}/brier", (value - outcome).square(), where=valid)
        record(f"{self.name}/brier_constant", (mean - outcome).square(), where=valid)
        judged = valid.any(1)
        state_mean = torch.where(valid, outcome, 0.0).sum(1) / valid.sum(1).clamp(min=1)
        record(f"{self.name}/error", (value[:, 0] - state_mean).abs(), where=judged)
