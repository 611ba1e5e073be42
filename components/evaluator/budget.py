"""Accuracy against thinking tokens (budget forcing), and lengths of responses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, NonNegativeInt, PositiveInt
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.data.held_out_answers import HeldOutAnswers
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.interfaces.verdicts import verdicts
from rlcomp.metrics import record
from rlcomp.text.reasoning import ThoughtEnd, response_ids
from rlcomp.text.tokenizer import decode_rows


class BudgetForcing(HeldOutAnswers):
    """Evaluator of accuracy against thinking tokens, by budget forcing.

    A response whose thought is longer than the budget ``b`` is cut after ``b`` tokens, the text
    that ends a thought is appended, and the policy answers from there. Other responses do not
    change.

    Records for each budget ``<name>/accuracy@b`` (with a 95 % interval over prompts, ``_low``,
    ``_high``), ``<name>/thinking_tokens@b`` (mean, without the appended end; 0 for a response that
    is not cut and has no end of a thought), ``<name>/forced@b`` (share of cut responses) and
    ``<name>/tokens_per_right@b`` (tokens of all judged responses, appended ones included, divided
    by the number of right ones; nothing if none is right). Records for the responses without a
    budget ``<name>/length_right`` and ``<name>/length_wrong``, mean tokens. Records
    ``<name>/invalid_fraction`` over the responses without a budget and the cut responses of every
    budget.

    Args:
        policy: the model that answers, with its own sampling settings.
        task: the task with the held-out prompts.
        reward: the reward; writes ``correct`` and ``reward_valid`` from the texts.
        budgets: the budgets ``b``, tokens of thought; with 0 the policy answers at once.
        think_end: the text that ends a thought.
        num_prompts: number of held-out prompts; fewer if the task has fewer.
        samples_per_prompt: sampled answers per prompt.
        max_new_tokens: longest answer after the thought, in tokens.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        ConfigError: there are no budgets, or the tokenizer does not give the bytes of its tokens;
            or as in :class:`rlcomp.data.held_out_answers.HeldOutAnswers`.
        DataError: the tokenizer cannot write ``think_end``, or a held-out prompt and its response
            may exceed the policy's context.

    Source:
        Muennighoff et al. 2025 (s1), arXiv:2501.19393, section 3.1.
    """

    counts_right = True

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reward: Component,
        budgets: Sequence[NonNegativeInt],
        think_end: NonEmptyText = "</think>",
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 1,
        max_new_tokens: PositiveInt,
        name: NonEmptyText = "budget",
        prompt: PromptFormat | None = None,
    ) -> None:
        if not budgets:
            raise ConfigError(f"{name}.budgets is empty: give tokens of thought, such as [8, 32]")
        self.end = ThoughtEnd(policy.tokenizer, think_end)
        super().__init__(
            policy=policy,
            task=task,
            reward=reward,
            num_prompts=num_prompts,
            max_new_tokens=max(budgets) + len(self.end.ids) + max_new_tokens,
            name=name,
            prompt=prompt,
        )
        self.budgets = sorted({*budgets})
        self.samples_per_prompt = samples_per_prompt
        self.answer_tokens = max_new_tokens

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        answered = self.answers(self.policy_prompts, self.samples_per_prompt, None)
        written, _ = response_ids(answered)
        right, judged = answered["correct"], answered["reward_valid"]
        lengths = torch.tensor([len(row) for row in written], device=right.device)
        record(f"{self.name}/length_right", lengths, where=right & judged)
        record(f"{self.name}/length_wrong", lengths, where=~right & judged)
        record(f"{self.name}/invalid_fraction", (~judged).float())
        for budget in self.budgets:
            self._evaluate(budget, answered, written)
        return batch

    def _evaluate(self, budget: int, answered: TensorDict, written: Sequence[list[int]]) -> None:
        """Record the metrics of a budget."""
        thoughts = [self.end.length(row) for row in written]
        forced = [
            len(row) > budget and (thought is None or thought > budget)
            for row, thought in zip(written, thoughts, strict=True)
        ]
        cut = torch.tensor(forced, device=answered["correct"].device)
        responses, right, judged = self._force(budget, answered, written, cut)
        counts = torch.tensor([len(row) for row in responses]).double()
        lengths = zip(thoughts, forced, strict=True)
        thinking = torch.tensor([budget if is_cut else thought or 0 for thought, is_cut in lengths])
        record(f"{self.name}/forced@{budget}", cut.float())
        record(f"{self.name}/thinking_tokens@{budget}", thinking)
        record(f"{self.name}/invalid_fraction", (~judged).float(), where=cut)
        if bool(right.any()):
            tokens = counts[judged.cpu()].sum() / right.sum().cpu()
            record(f"{self.name}/tokens_per_right@{budget}", tokens)
        num_right, num_judged = self.count_rows(right), self.count_rows(judged)
        shares = num_right[num_judged > 0].double() / num_judged[num_judged > 0]
        self.record_mean(f"accuracy@{budget}", shares)

    def _force(
        self, budget: int, answered: TensorDict, written: Sequence[list[int]], cut: Tensor
    ) -> tuple[list[list[int]], Tensor, Tensor]:
        """Return all responses under a budget, and masks of the right and the judged responses."""
        rows = cut.nonzero().flatten().tolist()
        responses = list(written)
        right, judged = answered["correct"] & answered["reward_valid"], answered["reward_valid"]
        if not rows:
            return responses, right, judged
        for row, answer in zip(rows, self._answers(budget, written, rows), strict=True):
            responses[row] = self.end.close(written[row][:budget]) + answer
        texts = decode_texts(answered["response"])
        new = decode_rows(self.policy.tokenizer, [responses[row] for row in rows])
        for row, text in zip(rows, new, strict=True):
            texts[row] = text
        forced = answered.copy()
        forced["response"] = encode_texts(texts).to(cut.device)
        now_right, now_judged = verdicts(self.reward, forced, cut)
        return responses, torch.where(cut, now_right, right), torch.where(cut, now_judged, judged)

    def _answers(
        self, budget: int, written: Sequence[list[int]], rows: Sequence[int]
    ) -> list[list[int]]:
        """Return the policy's answers after the cut thoughts."""
        prompts = self.prompt.encode(self.policy_prompts, self.columns)
        heads = [
            prompts[row // self.samples_per_prompt] + self.end.close(written[row][:budget])
            for row in rows
        ]
        rollout = self.policy.generate(
            heads,
            group_size=1,
            max_new_tokens=self.answer_tokens,
            generator=torch.Generator().manual_seed(self.seed),
        )
        return response_ids(rollout)[0]
