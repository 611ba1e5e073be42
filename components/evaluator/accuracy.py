"""Accuracy and pass@k on held-out prompts."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, NonNegativeInt, PositiveInt
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.data.examples import Split
from rlcomp.data.held_out_answers import HeldOutAnswers
from rlcomp.data.levels import level_masks, levels_if_several
from rlcomp.engine.decoding import Decoding
from rlcomp.functional.pass_at_k import bootstrap_interval, pass_at_k
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.reward import name_without_verdict
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record, record_sample


class Accuracy(HeldOutAnswers):
    """Evaluator of sampled and greedy accuracy and pass@k on held-out prompts.

    Records ``evaluation/sampled`` (avg@k: the mean over prompts of the share of right samples),
    ``evaluation/greedy``, ``evaluation/pass@k`` for k = 1, 2, 4, ... up to ``samples_per_prompt``,
    each with a 95 % interval (``_low``, ``_high``) over prompts: Wilson's if every prompt has 0 or
    1, as for the greedy answers, otherwise the bootstrap's. Answers whose reward is not valid are
    left out, and so are prompts without a valid answer (with fewer than k, for pass@k). The share
    of invalid answers is ``evaluation/invalid_fraction``. Each level (``by``) has the same metrics,
    such as ``evaluation/<level>/greedy``. The first ``num_shown`` greedy answers are saved as
    samples.

    For a reward without a verdict (:func:`rlcomp.interfaces.reward.name_without_verdict`)
    ``greedy`` and ``sampled`` are means of the reward, recorded also under its name
    (``evaluation/reward/<name>/greedy``). There is no pass@k then, and answers have no verdict.

    Args:
        policy: the model that answers, with its own sampling settings and greedily.
        task: the task with the held-out prompts; examples with an answer that is labelled as bad
            are left out.
        reward: the reward; writes ``correct`` and ``reward_valid``.
        split: ``"training"`` takes prompts of the training split instead.
        num_prompts: number of prompts; fewer if the task has fewer.
        samples_per_prompt: sampled answers per prompt.
        max_new_tokens: longest answer, in tokens.
        num_shown: number of answers saved as samples.
        name: prefix of its metrics, ``evaluation`` here; each evaluator needs its own.
        by: levels of difficulty, or domains (:func:`rlcomp.data.levels.levels`): a column, or
            ``prompt_length``. None: no levels.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        ConfigError: the policy does not stop where the format of the prompts ends a response, or
            the reward compares an answer with others.
        DataError: a held-out prompt and its response may exceed the policy's context.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reward: Component,
        split: Split = "held_out",
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 4,
        max_new_tokens: PositiveInt,
        num_shown: NonNegativeInt = 8,
        name: NonEmptyText = "evaluation",
        by: NonEmptyText | None = None,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__(
            policy=policy,
            task=task,
            reward=reward,
            split=split,
            num_prompts=num_prompts,
            max_new_tokens=max_new_tokens,
            name=name,
            prompt=prompt,
        )
        self.reward_name = name_without_verdict(reward)
        self.samples_per_prompt = samples_per_prompt
        self.num_shown = num_shown
        self.levels = levels_if_several(self.examples, by)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        greedy = self.answers(self.policy_prompts, 1, Decoding(temperature=0.0))
        sampled = self.answers(self.policy_prompts, self.samples_per_prompt, None)
        self.measure(greedy, sampled)
        return batch

    def measure(self, greedy: TensorDict, sampled: TensorDict) -> None:
        """Record the metrics of the responses; the rows of a prompt are contiguous."""
        for answered in (greedy, sampled):
            record(f"{self.name}/invalid_fraction", (~answered["reward_valid"]).float())
        if self.reward_name is None:
            counts = [self.count_valid_and_right(answered) for answered in (greedy, sampled)]
            for level, rows in level_masks(self.levels):
                self._record_rates(level, *((valid[rows], right[rows]) for valid, right in counts))
        else:
            self._record_rewards(self.reward_name, greedy, sampled)
        self._save_samples(greedy)

    def _record_rewards(self, name: str, greedy: TensorDict, sampled: TensorDict) -> None:
        """Record the means of a reward without a verdict."""
        for kind, answered in (("sampled", sampled), ("greedy", greedy)):
            valid = answered["reward_valid"].cpu().view(len(self.examples), -1)
            reward = answered["reward"].cpu().double().view_as(valid)
            judged = valid.any(1)
            means = torch.where(valid, reward, 0.0).sum(1) / valid.sum(1)
            for level, rows in level_masks(self.levels):
                self.record_mean(f"{level}{kind}", means[rows & judged], bootstrap_interval)
            record(f"{self.name}/reward/{name}/{kind}", means, where=judged)

    def _record_rates(
        self, level: str, greedy: tuple[Tensor, Tensor], sampled: tuple[Tensor, Tensor]
    ) -> None:
        """Record the accuracies of a level from the valid and right answers of its prompts."""
        valid, right = greedy
        self.record_mean(f"{level}greedy", right[valid > 0].double())
        valid, right = sampled
        self.record_mean(f"{level}sampled", right[valid > 0].double() / valid[valid > 0])
        k = 1
        while k <= self.samples_per_prompt:
            enough = valid >= k
            self.record_mean(f"{level}pass@{k}", pass_at_k(valid[enough], right[enough], k))
            k *= 2

    def _save_samples(self, greedy: TensorDict) -> None:
        """Save the first ``num_shown`` answers as samples."""
        shown = greedy[: self.num_shown]
        examples = self.examples[: len(shown)]
        prompts = self.prompt.render([each.prompt for each in examples], self.columns[: len(shown)])
        responses, correct = decode_texts(shown["response"]), shown["correct"].tolist()
        rows = zip(prompts, responses, examples, correct, strict=True)
        for prompt, response, example, right in rows:
            record_sample(
                prompt=prompt,
                response=response,
                answer=example.answer,
                correct=right if self.reward_name is None else None,
            )
