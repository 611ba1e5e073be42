"""Collectors of groups of responses to the same prompt."""

from __future__ import annotations

from dataclasses import replace

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveInt
from rlcomp.batch import cat, decode_columns, decode_texts, keep_prompt
from rlcomp.columns import CONVERSATION
from rlcomp.engine.decoding import Decoding
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.stages import Collector
from rlcomp.metrics import record, record_total
from rlcomp.seed import new_generator
from rlcomp.text.answers import add_texts, answer_prompts
from rlcomp.text.prompt import resolve_prompt_format


class GroupCollector(Collector):
    """Collector of ``group_size`` sampled responses per prompt.

    The policy decodes with its own settings. Reads ``policy_prompt`` ``[P, W]`` if present,
    else ``prompt`` ``[P, W]``; and optionally ``columns`` (conversations). Writes a new batch of
    ``B = P * group_size`` rows: the tokens, masks and log-probs of the rollout, its texts,
    ``group_id`` and ``truncated``; the prompt's entries, repeated for each response; and
    ``sampling_mask`` ``[B, T, V/8]`` if the policy's sampling replays masks. Records
    ``rollout/length``, ``rollout/truncated`` and ``rollout/tokens``.

    Args:
        group_size: responses per prompt.
        max_new_tokens: largest number of tokens of a response.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: the stop tokens of the policy do not include the end of a response in the
            prompt's format.
    """

    optional = (*Collector.optional, "columns")
    splits = True
    refills = True

    def __init__(
        self,
        *,
        policy: Policy,
        group_size: PositiveInt,
        max_new_tokens: PositiveInt,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        self.prompt.check_policy(policy)
        self.policy = policy
        self.group_size = group_size
        self.max_new_tokens = max_new_tokens
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return ``group_size`` sampled responses per prompt, and record their metrics."""
        rows = self._answers(batch, self.group_size, self.policy.decoding)
        record_rollout(rows)
        return rows

    def encode(self, batch: TensorDict) -> list[list[int]]:
        """Return the token ids of each prompt."""
        texts = decode_texts(batch[_prompt_key(batch)])
        ids = self.prompt.encode(texts, decode_columns(batch, [CONVERSATION]))
        return [list(prompt) for prompt in ids]

    def finish_rollout(self, batch: TensorDict, rollout: TensorDict) -> TensorDict:
        """Return the rows of a rollout of the prompts, and record their metrics.

        Args:
            batch: the prompts, as encoded by :meth:`encode`.
            rollout: rows from :meth:`rlcomp.interfaces.policy.Policy.generate`.
        """
        texts = decode_texts(batch[_prompt_key(batch)])
        rows = add_texts(self.policy, texts, rollout, self.group_size)
        rows = self._add_prompt_entries(rows, batch, self.group_size)
        record_rollout(rows)
        return rows

    def _answers(self, batch: TensorDict, group_size: int, decoding: Decoding) -> TensorDict:
        rollout = answer_prompts(
            self.policy,
            decode_texts(batch[_prompt_key(batch)]),
            prompt_ids=self.encode(batch),
            group_size=group_size,
            max_new_tokens=self.max_new_tokens,
            decoding=decoding,
            generator=self.generator,
        )
        return self._add_prompt_entries(rollout, batch, group_size)

    @staticmethod
    def _add_prompt_entries(rollout: TensorDict, batch: TensorDict, group_size: int) -> TensorDict:
        """Return the rollout with the entries of the prompts, repeated for each response."""
        rows = torch.arange(len(batch), device=rollout["tokens"].device)
        return keep_prompt(rollout, batch, rows.repeat_interleave(group_size))


def _prompt_key(batch: TensorDict) -> str:
    """Return the key of the prompts that the policy reads."""
    return "policy_prompt" if "policy_prompt" in batch.keys() else "prompt"


def record_rollout(rows: TensorDict) -> None:
    """Record ``rollout/length``, ``rollout/truncated`` and ``rollout/tokens`` of the rows.

    ``rollout/length`` counts the response tokens of each row, ``rollout/tokens`` those of all rows.
    """
    lengths = rows["response_mask"].sum(1)
    record("rollout/length", lengths)
    record("rollout/truncated", rows["truncated"])
    record_total("rollout/tokens", float(lengths.sum()))


class GreedyBaselineCollector(GroupCollector):
    """Collector of ReMax: ``group_size`` sampled responses and one greedy one per prompt.

    The greedy response follows the sampled ones of its group and is the baseline of
    ``advantage=greedy_baseline``. Its ``rollout_log_probs`` are scored under the policy's own
    decoding settings, so that KL measurements refer to the same policy.

    Reads ``policy_prompt`` ``[P, W]`` if present, else ``prompt`` ``[P, W]``; and optionally
    ``columns`` (conversations). Writes a new batch of ``B = P * (group_size + 1)`` rows: the
    tokens, masks and log-probs of the rollout, its texts, ``group_id``, ``truncated`` and
    ``greedy`` ``[B]``; the prompt's entries, repeated for each response; and ``sampling_mask``
    ``[B, T, V/8]`` if the policy's sampling replays masks. The metrics are of the sampled rows.

    Args:
        group_size: sampled responses per prompt.
        max_new_tokens: largest number of tokens of a response.
        prompt: prompt format; None: plain text.

    Source:
        Li et al. 2023, arXiv:2310.10505 (ReMax), algorithm 1.
    """

    keys = {
        "greedy": (
            "B",
            "bool",
            "greedy answer: a baseline, not trained on",
            {"example": "first_of_group"},
        )
    }
    writes = (*GroupCollector.writes, "greedy")
    must_reach = ("greedy",)
    refills = False  # A sampler that refills its decode slots makes no greedy responses.

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of new sampled and greedy responses."""
        sampled = super().forward(batch)
        greedy = self._answers(batch, 1, replace(self.policy.decoding, temperature=0.0))
        sampled["greedy"] = torch.zeros_like(sampled["truncated"])
        greedy["greedy"] = torch.ones_like(greedy["truncated"])
        with torch.no_grad():
            greedy["rollout_log_probs"] = self.policy.log_probs(greedy)
        rows = cat([sampled, greedy])
        rows["group_id"] = torch.cat([sampled["group_id"], greedy["group_id"]])
        # The sampled responses of a group precede its greedy one.
        return rows[rows["group_id"].argsort(stable=True)]
