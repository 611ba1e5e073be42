"""Coverage curves: pass@k, G-Pass@k, maj@k and CoT-Pass@k over k."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt, Probability
from rlcomp.batch import decode_texts
from rlcomp.columns import CONVERSATION
from rlcomp.component import Component
from rlcomp.data.examples import Split
from rlcomp.data.held_out_answers import HeldOutAnswers
from rlcomp.data.levels import level_masks, levels_if_several
from rlcomp.functional.pass_at_k import g_pass_at_k, maj_at_k, pass_at_k
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.interfaces.verdicts import class_sizes, repeated_verdicts, same_answers
from rlcomp.metrics import record, record_sample


class Coverage(HeldOutAnswers):
    """Evaluator of coverage curves, k = 1, 2, 4, ... n: pass@k, G-Pass@k, maj@k, CoT-Pass@k.

    A prompt has ``n`` judged samples, ``c`` right ones and ``d`` right ones with right reasoning.
    The curves are expectations over draws of k samples without replacement, exact for each prompt
    and averaged over prompts:

    - ``pass@k = 1 - C(n - c, k) / C(n, k)``: at least one of the k is right;
    - ``g_pass@k``: at least ``threshold * k`` of the k are right;
    - ``maj@k``: the most frequent answer of the k is right, with ties broken at random; all right
      samples count as one answer, a wrong sample has the answer that ``vote`` returns, or none;
    - ``cot_pass@k = 1 - C(n - d, k) / C(n, k) <= pass@k``: at least one is right with right
      reasoning, by the majority of the ``judgements`` (more yes than no). With several also
      ``cot_pass_any@k`` (one says yes) and ``cot_pass_all@k`` (none says no);
    - ``reasoning_given_right = d / c``, P(CC|CA), over prompts with ``c > 0``.

    Records each as ``<name>/pass@k``, with a 95 % interval over prompts (``_low``, ``_high``:
    bootstrap; Wilson's if all values are 0 or 1), for each level of difficulty as
    ``<name>/<level>/pass@k``, and ``<name>/invalid_fraction``. Prompts with fewer than k judged
    samples are left out at k. Saves ``n``, ``c`` and ``d`` of each prompt as samples;
    :mod:`rlcomp.report.coverage` compares runs by them.

    Args:
        policy: the model that answers, with its own sampling settings.
        task: the task with the held-out prompts.
        reward: the reward; writes ``correct`` and ``reward_valid``.
        reasoning: judge of the thoughts of right samples, with the same two keys. A sample without
            a verdict is not among the ``n``. None: no CoT-Pass@k.
        judgements: judgements per sample, for a judge that samples its verdicts; abstentions are
            ignored.
        vote: function from a response to its answer or None, such as a partial of
            :func:`components.reward.majority_vote.last_match`. None: no maj@k.
        equal_by: ``text`` compares wrong votes as texts; ``verifier`` also merges two votes if the
            ``reward`` accepts one with the other as the gold answer: a call for each vote and each
            earlier class, ``n * n / 2`` per prompt if no two are equal.
        threshold: the share of G-Pass@k.
        by: levels of difficulty (:func:`rlcomp.data.levels.levels`): a column, or
            ``prompt_length``. None: no levels.
        split: ``"training"`` takes prompts of the training split instead.
        num_prompts: maximum number of prompts.
        samples_per_prompt: ``n`` in the formulas.
        max_new_tokens: longest answer, in tokens.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        ConfigError: as in :class:`rlcomp.data.held_out_answers.HeldOutAnswers`.
        DataError: a held-out prompt and its response may exceed the policy's context.

    Source:
        pass@k: Chen et al. 2021, arXiv:2107.03374, eq. 1; G-Pass@k: Liu et al. 2024,
        arXiv:2412.13147, eq. 3; maj@k: Wang et al. 2022, arXiv:2203.11171; CoT-Pass@k and P(CC|CA):
        Wen et al. 2025, arXiv:2506.14245, section 3 (three rules for several judgements).
    """

    counts_right = True

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reward: Component,
        reasoning: Component | None = None,
        judgements: PositiveInt = 1,
        vote: Callable[[str], str | None] | None = None,
        equal_by: Literal["text", "verifier"] = "text",
        threshold: Probability = 0.5,
        by: NonEmptyText | None = None,
        split: Split = "held_out",
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 64,
        max_new_tokens: PositiveInt,
        name: NonEmptyText = "coverage",
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
        self.reasoning = reasoning
        self.judgements = judgements
        self.vote = vote
        self.equal_by: Literal["text", "verifier"] = equal_by
        self.threshold = threshold
        self.samples_per_prompt = samples_per_prompt
        self.levels = levels_if_several(self.examples, by)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        answered = self.answers(self.policy_prompts, self.samples_per_prompt, None)
        right, valid = answered["correct"] & answered["reward_valid"], answered["reward_valid"]
        reasoned: dict[str, Tensor] = {}
        if self.reasoning is not None:
            yes, no = repeated_verdicts(self.reasoning, answered, right, self.judgements)
            valid = valid & ((yes + no > 0) | ~right)
            right = right & valid
            reasoned = {"cot_pass": yes > no}
            if self.judgements > 1:
                reasoned |= {"cot_pass_any": yes > 0, "cot_pass_all": (yes > 0) & (no == 0)}
        record(f"{self.name}/invalid_fraction", (~valid).float())
        n, c = self.count_rows(valid), self.count_rows(right)
        d = {name: self.count_rows(mask) for name, mask in reasoned.items()}
        majority = self._majority(answered, right, valid) if self.vote is not None else None
        for prefix, rows in level_masks(self.levels):
            self._record_curves(prefix, rows, (n, c, d), majority)
        self._save_counts(n, c, d.get("cot_pass"))
        return batch

    def _record_curves(
        self,
        prefix: str,
        rows: Tensor,
        counts: tuple[Tensor, Tensor, dict[str, Tensor]],
        majority: dict[int, Tensor] | None,
    ) -> None:
        """Record the curves of the prompts in ``rows``, a mask ``[P]``, by names with a prefix."""
        n, c, reasoned = counts
        for k in self._sample_sizes():
            enough = rows & (n >= k)
            self.record_mean(f"{prefix}pass@{k}", pass_at_k(n[enough], c[enough], k))
            share = g_pass_at_k(n[enough], c[enough], k, self.threshold)
            self.record_mean(f"{prefix}g_pass@{k}", share)
            if majority is not None:
                self.record_mean(f"{prefix}maj@{k}", majority[k][enough])
            for name, d in reasoned.items():
                self.record_mean(f"{prefix}{name}@{k}", pass_at_k(n[enough], d[enough], k))
        if "cot_pass" in reasoned:
            solved = rows & (c > 0)
            share = reasoned["cot_pass"][solved].double() / c[solved]
            self.record_mean(f"{prefix}reasoning_given_right", share)

    def _sample_sizes(self) -> list[int]:
        """Return 1, 2, 4, ... and n."""
        powers = [2**power for power in range(self.samples_per_prompt.bit_length())]
        return [*dict.fromkeys([*powers, self.samples_per_prompt])]

    def _majority(self, answered: TensorDict, right: Tensor, valid: Tensor) -> dict[int, Tensor]:
        """Return maj@k of each prompt, by k; 0 with fewer than k judged samples."""
        classes = [*self._classes(answered, right.tolist(), valid.tolist())]
        return {
            k: torch.tensor(
                [
                    maj_at_k(correct, wrong, no_vote, k)
                    if correct + sum(wrong) + no_vote >= k
                    else 0.0
                    for correct, wrong, no_vote in classes
                ],
                dtype=torch.float64,
            )
            for k in self._sample_sizes()
        }

    def _classes(
        self, answered: TensorDict, right: Sequence[bool], valid: Sequence[bool]
    ) -> Iterator[tuple[int, list[int], int]]:
        """Yield per prompt the counts of right samples, of each wrong vote, and without a vote."""
        assert self.vote is not None
        votes = [self.vote(response) for response in decode_texts(answered["response"])]
        size = self.samples_per_prompt
        prompts = [range(start, start + size) for start in range(0, len(votes), size)]
        wrong = [[votes[row] for row in rows if valid[row] and not right[row]] for rows in prompts]
        wrong_votes = [[vote for vote in row if vote is not None] for row in wrong]
        equal = partial(same_answers, self.reward, answered[::size])
        sizes = class_sizes(wrong_votes, equal if self.equal_by == "verifier" else None)
        for rows, row_votes, classes in zip(prompts, wrong, sizes, strict=True):
            yield sum(right[row] for row in rows), classes, row_votes.count(None)

    def _save_counts(self, n: Tensor, c: Tensor, d: Tensor | None) -> None:
        """Save the counts of each prompt as samples."""
        reasoned = [None] * len(n) if d is None else d.tolist()
        rows = zip(self.examples, self.levels, n.tolist(), c.tolist(), reasoned, strict=True)
        for example, level, num_judged, num_right, num_reasoned in rows:
            record_sample(
                evaluator=self.name,
                problem=_problem_id(example),
                n=num_judged,
                c=num_right,
                d=num_reasoned,
                level=level or None,
                text=example.prompt[:80],
            )


def _problem_id(example: Example) -> str:
    """Return an id of the problem that is the same in all runs."""
    whole = f"{example.prompt}\0{example.columns.get(CONVERSATION)}"
    return sha256(whole.encode()).hexdigest()[:16]
