"""Evaluation by likelihoods: of samples, of preference pairs, of next tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples, prompt_batch
from rlcomp.data.held_out_answers import HeldOutAnswers
from rlcomp.data.pairs import pair_rows
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import bootstrap_interval, wilson_interval
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.model.auxiliary_forward import muted_eval
from rlcomp.text.answers import answer_prompts
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.reasoning import first_targets
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.token_bytes import row_bytes, token_bytes
from rlcomp.text.tokenizer import encode_prompts


class Perplexity(HeldOutAnswers):
    """Evaluator of the perplexity of the policy's samples under a reference.

    ``exp(mean over prompts of the mean over their samples of -1/T sum_t log p(y_t | x, y_<t))``;
    samples have T tokens, EOS included.

    Records ``<name>/reference`` with p the reference, ``<name>/reference_right`` over right samples
    only, and ``<name>/own`` with p the policy that sampled; each with a 95 % bootstrap interval
    over prompts (``_low``, ``_high``). A low value means that the reference is likely to
    write such answers.

    Args:
        policy: the model that answers, with its own sampling settings.
        task: the task with the held-out prompts.
        reward: the reward; writes ``correct`` and ``reward_valid``.
        reference: the reference; writes ``ref_log_probs``.
        num_prompts: number of held-out prompts; fewer if the task has fewer.
        samples_per_prompt: sampled answers per prompt.
        max_new_tokens: longest answer, in tokens.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        ConfigError: there is no reference; or as in
            :class:`rlcomp.data.held_out_answers.HeldOutAnswers`.
        DataError: a held-out prompt and its response may exceed the policy's context.

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
        all_samples = torch.ones_like(right)
        self._record_perplexity("own", own, all_samples)
        self._record_perplexity("reference", reference, all_samples)
        self._record_perplexity("reference_right", reference, right)
        return batch

    def _nats(self, answered: TensorDict, key: str) -> Tensor:
        """Return the nats per token of each sample, ``[P, G]``."""
        mask = answered["response_mask"]
        nats = -torch.where(mask, answered[key].detach().double(), 0.0).sum(1)
        per_token: Tensor = nats / mask.sum(1)
        return per_token.cpu().view(len(self.examples), -1)

    def _record_perplexity(self, name: str, nats: Tensor, where: Tensor) -> None:
        """Record the exponential of the mean over prompts, and of its interval.

        Args:
            name: name of the metric.
            nats: nats per token of each sample, shape ``[P, G]``.
            where: samples that count, bool, shape ``[P, G]``.
        """
        count = where.sum(1)
        means = torch.where(where, nats, 0.0).sum(1)[count > 0] / count[count > 0]
        if not len(means):
            return
        draws = torch.Generator().manual_seed(self.seed)
        low, high = bootstrap_interval(means, level=0.95, generator=draws)
        record(f"{self.name}/{name}", math.exp(float(means.mean())))
        record(f"{self.name}/{name}_low", math.exp(low))
        record(f"{self.name}/{name}_high", math.exp(high))


class HeldOutPairs(Component):
    """Evaluator of the policy's likelihood of both answers of held-out pairs.

    Records ``<name>/chosen_log_prob`` and ``rejected_log_prob``, nats per answer; with a reference
    ``chosen_change`` and ``rejected_change``, the same minus the reference's; ``margin``, the
    change (without a reference, the log-prob) of the chosen minus the same of the rejected answer;
    ``accuracy``, the share of pairs with a margin above 0 (0 counts half). Margins can grow while
    chosen answers become less likely: look at both.

    Args:
        policy: the model to evaluate.
        task: the task with the held-out examples, which have a column ``rejected``.
        reference: the reference; writes ``ref_log_probs``. ``reference=none`` for none.
        num_pairs: number of pairs; fewer if the task has fewer.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        DataError: an example has no rejected answer.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reference: Component,
        num_pairs: PositiveInt = 256,
        name: NonEmptyText = "held_out",
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.reference = reference
        self.name = name
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        # The same pairs at every evaluation, so that only the policy differs.
        examples = held_out_examples(task, num_pairs, torch.initial_seed())
        self.rows = pair_rows(policy.tokenizer, self.prompt, examples)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        rows = self.rows.to(self.policy.device)
        with torch.no_grad():
            sums = _sums(self.policy.log_probs(rows), rows)
        self._record("log_prob", sums)
        if "ref_log_probs" in self.reference.writes:
            with muted_eval(self.reference):
                scored = self.reference(rows.copy())
            sums = sums - _sums(scored["ref_log_probs"], rows)
            self._record("change", sums)
        margin = sums[0::2] - sums[1::2]
        record(f"{self.name}/margin", margin)
        record(f"{self.name}/accuracy", (margin > 0).double() + (margin == 0).double() / 2)
        return batch

    def _record(self, kind: str, sums: Tensor) -> None:
        record(f"{self.name}/chosen_{kind}", sums[0::2])
        record(f"{self.name}/rejected_{kind}", sums[1::2])


def _sums(log_probs: Tensor, rows: TensorDict) -> Tensor:
    return masked(log_probs, rows["response_mask"]).sum(1)


class NextTokenEvaluator(Component):
    """Evaluator of next-token accuracy and NLL at held-out positions, without a thought.

    The context is the prompt without the text that starts a thought. Records ``<name>/direct``, the
    share of positions at which the most likely token is the first one of the true continuation,
    with Wilson's 95 % interval (``_low``, ``_high``); and ``<name>/nats``, the mean of
    ``-log p(first token | context)`` at temperature 1. If the first token ends within a character,
    ``nats`` includes the tokens of the rest of that character; ``direct`` does not.

    Args:
        policy: the model that continues the text.
        task: the task with the held-out positions; the first of an answer's ends is the end of its
            first token.
        num_prompts: number of held-out positions; fewer if the task has fewer.
        think_start: the text at the end of prompts that ask for a thought.
        suppressed_tokens: texts of one token each that do not occur in the corpus, such as
            ``</think>`` and EOS, but that a policy trained to answer may prefer. ``direct`` is over
            all other tokens, ``nats`` over all.
        name: prefix of its metrics; each evaluator needs its own.

    Raises:
        ConfigError: a text of ``suppressed_tokens`` is not one token, or the tokenizer does not
            give the bytes of its tokens.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        num_prompts: PositiveInt = 512,
        think_start: str = "<think>",
        suppressed_tokens: Sequence[NonEmptyText] = (),
        name: NonEmptyText = "evaluation",
    ) -> None:
        super().__init__()
        self.policy = policy
        self.name = name
        # The same positions at every evaluation, so that only the policy differs.
        examples = held_out_examples(task, num_prompts, torch.initial_seed())
        self.contexts = [example.prompt.removesuffix(think_start) for example in examples]
        self.truth = prompt_batch(examples)
        # ``argmax`` finds the first marked byte: the last byte of the answer's first token.
        answers = zip(self.truth["answer"], self.truth["answer_ends"].int().argmax(1), strict=True)
        self.firsts = [bytes(row[: int(end) + 1].tolist()) for row, end in answers]
        self.suppressed_tokens = [_one_token(policy.tokenizer, text) for text in suppressed_tokens]
        self._table = token_bytes(policy.tokenizer)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        pairs = zip(self._likeliest(), self.firsts, strict=True)
        right = sum(likeliest == first for likeliest, first in pairs)
        low, high = wilson_interval(right, len(self.firsts), level=0.95)
        record(f"{self.name}/direct", right / len(self.firsts))
        record(f"{self.name}/direct_low", low)
        record(f"{self.name}/direct_high", high)
        record(f"{self.name}/nats", -self._log_probs())
        return batch

    def _likeliest(self) -> list[bytes]:
        """Return the bytes of the argmax token at each position."""
        answers = answer_prompts(
            self.policy,
            self.contexts,
            group_size=1,
            max_new_tokens=1,
            decoding=Decoding(temperature=0.0),
            suppressed_tokens=self.suppressed_tokens,
            generator=torch.Generator(),
        )
        tokens = answers["tokens"][answers["response_mask"]].tolist()
        return [row_bytes(self._table, [token]) for token in tokens]

    def _log_probs(self) -> Tensor:
        """Return ``log p(first token | context)`` at each position, in nats."""
        tokenizer = self.policy.tokenizer
        heads = encode_prompts(tokenizer, self.contexts)
        rows = rows_from_ids(tokenizer, heads, first_targets(tokenizer, self.truth, 1))
        with torch.no_grad():
            rows = rows.to(self.policy.device)
            return self.policy.log_probs(rows, decoding=Decoding()).sum(1)


def _one_token(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    """Return the id of the single token that spells a text."""
    token = tokenizer.get_vocab().get(text)
    if token is None:
        raise ConfigError(
            f"NextTokenEvaluator: suppressed_tokens names {text!r}, which is not one token of the "
            "tokenizer: leave it out, or write it as the tokenizer does"
        )
    return int(token)
