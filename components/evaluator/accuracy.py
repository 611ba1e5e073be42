"""Accuracy and pass@k on held-out prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, NonNegativeInt, PositiveInt
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.data.examples import prompt_batch, split_examples
from rlcomp.data.levels import levels
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import bootstrap_interval, pass_at_k
from rlcomp.functional.statistics import share_interval
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.reward import check_decides, name_without_verdict
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record, record_sample, recording
from rlcomp.text.answers import answer_prompts
from rlcomp.text.prompt import or_text
from rlcomp.text.rows import check_room

_Interval = Callable[[Tensor, float, torch.Generator], tuple[float, float]]


class Accuracy(Component):
    """Evaluator of sampled and greedy accuracy and pass@k on held-out prompts.

    Records ``evaluation/sampled`` (avg@k: the mean over all samples), ``evaluation/greedy``,
    ``evaluation/pass@k`` for k = 1, 2, 4, ... up to ``samples_per_prompt``, each with a 95 %
    interval (``_low``, ``_high``) over prompts: Wilson's for the greedy answers (one yes or no per
    prompt), the bootstrap's for the others. Answers whose reward is not valid are left out, and so
    are prompts without a valid answer (with fewer than k, for pass@k). The share of invalid answers
    is ``evaluation/invalid_fraction``. Each level (``by``) has the same metrics, such as
    ``evaluation/<level>/greedy``. The first ``num_shown`` greedy answers are saved as samples.

    For a reward without a verdict (:func:`rlcomp.interfaces.reward.name_without_verdict`)
    ``greedy`` and ``sampled`` are means of the reward, recorded also under its name
    (``evaluation/reward/<name>/greedy``). There is no pass@k then, and answers have no verdict.

    Args:
        policy: the model that answers, with its own sampling settings and greedily.
        task: the task with the held-out prompts; answers that are labelled as bad are left out.
        reward: the reward; writes ``correct`` and ``reward_valid``.
        split: ``"training"`` takes prompts of the training split instead.
        num_prompts: number of prompts; fewer if the task has fewer.
        samples_per_prompt: sampled answers per prompt.
        max_new_tokens: longest answer, in tokens.
        num_shown: number of answers saved as samples.
        name: prefix of its metrics, ``evaluation`` here; each evaluator needs its own.
        by: levels of difficulty, or domains (:func:`rlcomp.data.levels.levels`): a column, or
            ``prompt_length``. None: no levels.
        prompt: how prompts become tokens, as in training; plain text if not given.

    Raises:
        ConfigError: the policy does not stop where the format of the prompts ends a response, or
            the reward compares an answer with others.
        DataError: a held-out prompt and its response may exceed the policy's context.
    """

    # whether it only counts right answers, so that the reward must have a verdict
    counts_right: ClassVar[bool] = False

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reward: Component,
        split: Literal["held_out", "training"] = "held_out",
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 4,
        max_new_tokens: PositiveInt,
        num_shown: NonNegativeInt = 8,
        name: NonEmptyText = "evaluation",
        by: NonEmptyText | None = None,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        if reward.min_group_size > 1:
            raise ConfigError(
                f"{name}.reward is a {type(reward).__name__}, which judges an answer by the others "
                f"of its group: set {name}.reward to a verifier, as recipe=ttrl does"
            )
        self.prompt = or_text(prompt, policy.tokenizer)
        self.prompt.check_policy(policy)
        self.policy = policy
        if self.counts_right:
            check_decides(reward, f"{name}.reward")
        self.reward = reward
        self.reward_name = name_without_verdict(reward)
        self.split: Literal["held_out", "training"] = split
        self.samples_per_prompt = samples_per_prompt
        self.max_new_tokens = max_new_tokens
        self.num_shown = num_shown
        self.name = name
        # The same prompts and the same draws at every evaluation, so that only the policy differs.
        self.seed = torch.initial_seed()
        self.examples = split_examples(task, split, num_prompts, self.seed, only_right=True)
        self.asked = [example.prompt for example in self.examples]
        self.columns = [example.columns for example in self.examples]
        self.by = by
        names = [] if by is None else levels(self.examples, by)
        self.levels = names if len({*names}) > 1 else ["" for _ in self.examples]
        encoded = self.prompt.encode(self.asked, self.columns)
        most = [max_new_tokens] * len(encoded)
        check_room([*map(len, encoded)], most, policy.context_length, self.asked.__getitem__)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        greedy = self.answers(self.asked, 1, Decoding(temperature=0.0))
        self.measure(greedy, self.answers(self.asked, self.samples_per_prompt, None))
        return batch

    def measure(self, greedy: TensorDict, sampled: TensorDict) -> None:
        """Record the metrics of the responses; the rows of a prompt are contiguous."""
        for answered in (greedy, sampled):
            record(f"{self.name}/invalid_fraction", (~answered["reward_valid"]).float())
        if self.reward_name is None:
            counts = self._counts(greedy), self._counts(sampled)
            for level, rows in self.parts():
                self._rates(level, *((n[rows], c[rows]) for n, c in counts))
        else:
            self._record_rewards(self.reward_name, greedy, sampled)
        self._show(greedy)

    def _record_rewards(self, name: str, greedy: TensorDict, sampled: TensorDict) -> None:
        """Record the means of a reward without a verdict."""
        for kind, answered in (("sampled", sampled), ("greedy", greedy)):
            valid = answered["reward_valid"].cpu().view(len(self.examples), -1)
            reward = answered["reward"].cpu().double().view_as(valid)
            judged = valid.any(1)
            means = torch.where(valid, reward, 0.0).sum(1) / valid.sum(1)
            for level, rows in self.parts():
                self.record_mean(f"{level}{kind}", means[rows & judged], bootstrap_interval)
            record(f"{self.name}/reward/{name}/{kind}", means, where=judged)

    def _rates(
        self, level: str, greedy: tuple[Tensor, Tensor], sampled: tuple[Tensor, Tensor]
    ) -> None:
        """Record the accuracies of some prompts from their counts of judged and right responses."""
        judged, right = greedy
        self.record_mean(f"{level}greedy", right[judged > 0].double())
        judged, right = sampled
        self.record_mean(f"{level}sampled", right[judged > 0].double() / judged[judged > 0])
        k = 1
        while k <= self.samples_per_prompt:
            enough = judged >= k
            self.record_mean(f"{level}pass@{k}", pass_at_k(judged[enough], right[enough], k))
            k *= 2

    def parts(self) -> Iterator[tuple[str, Tensor]]:
        """Yield all prompts, then each level, as the metrics' prefix and a mask, bool ``[P]``."""
        for level in dict.fromkeys(["", *self.levels]):
            rows = torch.tensor([level in ("", own) for own in self.levels])
            yield f"{level}/" if level else "", rows

    def answers(
        self, asked: Sequence[str], group_size: int, decoding: Decoding | None
    ) -> TensorDict:
        """Return responses to the held-out prompts with rewards, ``group_size`` rows per prompt.

        Args:
            asked: the text of each prompt for the policy.
            group_size: answers per prompt.
            decoding: decoding settings; the policy's own if None.
        """
        answered = answer_prompts(
            self.policy,
            asked,
            prompt_ids=self.prompt.encode(asked, self.columns),
            group_size=group_size,
            max_new_tokens=self.max_new_tokens,
            decoding=decoding,
            generator=torch.Generator().manual_seed(self.seed),
        )
        device = answered["tokens"].device
        for key, entry in prompt_batch(self.examples).items():
            answered[key] = entry.repeat_interleave(group_size, 0).to(device)
        with recording():  # drop the reward's metrics, which are of training
            return self.reward(answered)

    def _counts(self, answered: TensorDict) -> tuple[Tensor, Tensor]:
        """Count the valid and the correct responses per prompt, int64 ``[P]`` each."""
        valid = answered["reward_valid"].cpu().view(len(self.examples), -1)
        right = answered["correct"].cpu().view(len(self.examples), -1) & valid
        return valid.sum(1), right.sum(1)

    def record_mean(
        self, name: str, per_prompt: Tensor, interval: _Interval = share_interval
    ) -> None:
        """Record the mean of shares over prompts with its interval, if there are prompts."""
        if not len(per_prompt):
            return
        draws = torch.Generator().manual_seed(self.seed)
        low, high = interval(per_prompt, 0.95, draws)
        record(f"{self.name}/{name}", per_prompt)
        record(f"{self.name}/{name}_low", low)
        record(f"{self.name}/{name}_high", high)

    def _show(self, greedy: TensorDict) -> None:
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
