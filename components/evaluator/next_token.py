"""Next-token accuracy and NLL on held-out text, without a thought."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples, prompt_batch
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import wilson_interval
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.text.answers import answer_prompts
from rlcomp.text.reasoning import first_targets
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.token_bytes import row_bytes, token_bytes
from rlcomp.text.tokenizer import encode_prompts


class NextTokenEvaluator(Component):
    """Evaluator of next-token accuracy and NLL at held-out positions, without a thought.

    The context is the prompt without the text that starts a thought. Records ``<name>/direct``, the
    share of positions at which the most likely token is the first one of the true continuation,
    with Wilson's 95 % interval (``_low``, ``_high``); and ``<name>/nats``, the mean of
    ``-log p(first token | context)`` at temperature 1. If the token ends within a character,
    the tokens of the rest of that character are included.

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
        ConfigError: a text of ``suppressed_tokens`` is not one token.
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
        self.num_prompts = num_prompts
        self.think_start = think_start
        self.name = name
        # The same positions at every evaluation, so that only the policy differs.
        examples = held_out_examples(task, num_prompts, torch.initial_seed())
        self.contexts = [example.prompt.removesuffix(think_start) for example in examples]
        self.truth = prompt_batch(examples)
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
        guessed = answer_prompts(
            self.policy,
            self.contexts,
            group_size=1,
            max_new_tokens=1,
            decoding=Decoding(temperature=0.0),
            suppressed_tokens=self.suppressed_tokens,
            generator=torch.Generator(),
        )
        tokens = guessed["tokens"][guessed["response_mask"]].tolist()
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
