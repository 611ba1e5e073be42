"""Perplexity of the policy's own samples under a reference."""

from __future__ import annotations

import math

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.held_out_answers import HeldOutAnswers
from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import bootstrap_interval
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.model.auxiliary_forward import muted_eval


class Perplexity(HeldOutAnswers):
    """Evaluator of the perplexity of the policy's samples under a reference.

    ``exp(mean over prompts of the mean over their samples of -1/T sum_t log p(y_t | x, y_<t))``;
    samples have T tokens, EOS included.

    Records ``<name>/reference`` with p the reference, ``<name>/reference_right`` over right samples
    only, and ``<name>/own`` with p the policy that sampled; each with a 95 % bootstrap interval
    over prompts (``_low``, ``_high``). A low value says that the reference had such answers.

    Args:
        policy: the model that answers, with its own sampling settings.
        task: the task with the held-out prompts.
        reward: the reward; writes ``correct`` and ``reward_valid``.
        reference: the reference; writes ``ref_log_probs``.
        num_prompts: number of held-out prompts; fewer if the task has fewer.
        samples_per_prompt: sampled answers per prompt.
        max_new_tokens: longest answer, in tokens.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: how prompts become tokens, as in training; plain text if not given.

    Raises:
        ConfigError: there is no reference.

    Source:
        Yue et al. 2025, arXiv:2504.13837, section 4.1 (PPL of trained samples under the base).
    """

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reward: Component,
        reference: Component,
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 4,
        max_new_tokens: PositiveInt,
        name: NonEmptyText = "perplexity",
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__(
            policy=policy,
            task=task,
            reward=reward,
            num_prompts=num_prompts,
            max_new_tokens=max_new_tokens,
            name=name,
            prompt=prompt,
        )
        if "ref_log_probs" not in reference.writes:
            raise ConfigError(
                f"{name}.reference is a {type(reference).__name__}, which scores nothing: set "
                "reference=frozen, or adapter_off where the policy has adapters"
            )
        self.reference = reference
        self.samples_per_prompt = samples_per_prompt

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        answered = self.answers(self.policy_prompts, self.samples_per_prompt, None)
        own = self._nats(answered, "rollout_log_probs")
        with muted_eval(self.reference):
            reference = self._nats(self.reference(answered), "ref_log_probs")
        right = (answered["correct"] & answered["reward_valid"]).cpu().view_as(own)
        every = torch.ones_like(right)
        self._record_perplexity("own", own, every)
        self._record_perplexity("reference", reference, every)
        self._record_perplexity("reference_right", reference, right)
        return batch

    def _nats(self, answered: TensorDict, key: str) -> Tensor:
        """Return the nats per token of each sample, ``[P, G]``."""
        mask = answered["response_mask"]
        nats = -torch.where(mask, answered[key].detach().double(), 0.0).sum(1)
        per_token: Tensor = nats / mask.sum(1)
        return per_token.cpu().view(len(self.examples), -1)

    def _record_perplexity(self, name: str, nats: Tensor, where: Tensor) -> None:
        """Record the exponential of a mean over prompts and of its interval."""
        count = where.sum(1)
        means = torch.where(where, nats, 0.0).sum(1)[count > 0] / count[count > 0]
        if not len(means):
            return
        draws = torch.Generator().manual_seed(self.seed)
        low, high = bootstrap_interval(means, level=0.95, generator=draws)
        record(f"{self.name}/{name}", math.exp(float(means.mean())))
        record(f"{self.name}/{name}_low", math.exp(low))
        record(f"{self.name}/{name}_high", math.exp(high))
