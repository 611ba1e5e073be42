"""Forgetting: change of loss and accuracy on a task that is not trained on."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.checkpoint.state_fields import check_fields, field
from rlcomp.component import Component
from rlcomp.data.examples import demonstrations
from rlcomp.data.held_out_answers import HeldOutAnswers
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import CheckpointError
from rlcomp.functional.statistics import difference_interval
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.text.rows import check_room, demonstration_rows


class _Measurement(NamedTuple):
    """Measurement of a policy.

    Attributes:
        accuracy: share of right samples of each prompt, float64, shape ``[P]``; NaN: no sample of
            the prompt has a valid reward.
        loss: nats per token of the demonstrations.
    """

    accuracy: Tensor
    loss: float


class Forgetting(HeldOutAnswers):
    """Evaluator of the change of accuracy and loss on a task that is not trained on.

    The baseline is measured when the phase begins and is part of checkpoints; without one, the
    first evaluation is the baseline. ``loss`` is the mean of ``-log pi(token | tokens before it)``
    over the tokens of the demonstrations, EOS included, in nats at temperature 1.

    Records ``<name>/accuracy``, ``<name>/accuracy_before`` and ``<name>/accuracy_change`` (the mean
    difference over prompts judged both times, paired, with a 95 % bootstrap interval, ``_low`` and
    ``_high``); ``<name>/loss``, ``<name>/loss_before``, ``<name>/loss_change``; and
    ``<name>/invalid_fraction``.

    Args:
        policy: the model that answers, with its own sampling settings.
        task: a task that is not trained on; its held-out prompts are used.
        reward: the reward; writes ``correct`` and ``reward_valid``.
        num_prompts: number of held-out prompts; fewer if the task has fewer.
        samples_per_prompt: sampled answers per prompt.
        max_new_tokens: longest answer, in tokens.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        ConfigError: as in :class:`rlcomp.data.held_out_answers.HeldOutAnswers`.
        DataError: a demonstration, or a held-out prompt and its response, may exceed the policy's
            context.

    Source:
        Kirkpatrick et al. 2017, arXiv:1612.00796, section 2 (performance on earlier tasks).
    """

    counts_right = True

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reward: Component,
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 4,
        max_new_tokens: PositiveInt,
        name: NonEmptyText = "forgetting",
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
        shown = demonstrations(self.prompt, self.examples)
        # A demonstration holds its response, so that ``none`` of its tokens are still to come.
        lengths, none = [len(row.ids) for row in shown], [0] * len(shown)
        check_room(lengths, none, policy.context_length, self.policy_prompts.__getitem__)
        self.demonstrations = demonstration_rows(policy.tokenizer, shown)
        self.samples_per_prompt = samples_per_prompt
        self.before: _Measurement | None = None

    def begin_phase(self) -> None:
        """Measure the baseline."""
        self.before = self._measure(self._samples())

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        answered = self._samples()
        record(f"{self.name}/invalid_fraction", (~answered["reward_valid"]).float())
        now = self._measure(answered)
        before = self.before = self.before or now
        for name, measured in (("", now), ("_before", before)):
            judged = measured.accuracy[measured.accuracy.isfinite()]
            record(f"{self.name}/accuracy{name}", judged)
            record(f"{self.name}/loss{name}", measured.loss)
        record(f"{self.name}/loss_change", now.loss - before.loss)
        change = now.accuracy - before.accuracy
        self.record_mean("accuracy_change", change[change.isfinite()], difference_interval)
        return batch

    def _samples(self) -> TensorDict:
        return self.answers(self.policy_prompts, self.samples_per_prompt, None)

    def _measure(self, answered: TensorDict) -> _Measurement:
        judged, right = self.count_valid_and_right(answered)
        rows = self.demonstrations.to(self.policy.device)
        with torch.no_grad():
            log_probs = self.policy.log_probs(rows, decoding=Decoding()).double()
        loss = -float(log_probs.sum() / rows["response_mask"].sum())
        return _Measurement(right.double() / judged, loss)

    def run_state(self) -> dict[str, Any]:
        """Return the baseline."""
        if self.before is None:
            return {"accuracy": None, "loss": None}
        rates = [None if math.isnan(rate) else rate for rate in self.before.accuracy.tolist()]
        return {"accuracy": rates, "loss": self.before.loss}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the baseline.

        Raises:
            CheckpointError: the baseline is malformed, or of another number of prompts.
        """
        check_fields(state, ("accuracy", "loss"))
        rates = field(state, "accuracy", list[float | None] | None)
        loss = field(state, "loss", float | None)
        prompts = len(self.policy_prompts)
        if (rates is None) != (loss is None) or (rates and len(rates) != prompts):
            raise CheckpointError(
                f"'accuracy' is {rates!r:.60}: must be one number for each of {prompts} "
                "prompts, and 'loss' a number"
            )
        self.before = None
        if rates is not None:
            numbers = [float("nan") if rate is None else rate for rate in rates]
            self.before = _Measurement(torch.tensor(numbers, dtype=torch.float64), loss)
