"""Group rollouts."""

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
from rlcomp.text.answers import answer_prompts, with_texts
from rlcomp.text.prompt import or_text


class GroupCollector(Collector):
    """Collector of ``group_size`` sampled responses per prompt.

    The policy decodes with its own settings. Reads ``prompt`` ``[P, W]`` and ``columns``
    (conversations); answers ``policy_prompt`` ``[P, W]`` if it is there. Writes a new batch of
    ``B = P * group_size`` rows: the tokens, masks and log-probs of the rollout, its texts,
    ``group_id`` and ``truncated``; the prompt's entries, repeated for each answer; and
    ``sampling_mask`` ``[B, T, V/8]`` if the policy's sampling replays masks.

    Args:
        policy: the model that answers.
        group_size: answers per prompt.
        max_new_tokens: longest answer, in tokens.
        prompt: how prompts become tokens; plain text if not given.

    Raises:
        ConfigError: the policy does not stop where the format of the prompts ends a response.
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
        self.prompt = or_text(prompt, policy.tokenizer)
        self.prompt.check_policy(policy)
        self.policy = policy
        self.group_size = group_size
        self.max_new_tokens = max_new_tokens
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Roll out the responses."""
        return self._sampled(batch)

    def encode(self, batch: TensorDict) -> list[list[int]]:
        """Return the tokens of each prompt as the policy reads it."""
        texts = decode_texts(batch[_asked(batch)])
        ids = self.prompt.encode(texts, decode_columns(batch, [CONVERSATION]))
        return [list(prompt) for prompt in ids]

    def answered(self, batch: TensorDict, rollout: TensorDict) -> TensorDict:
        """Return the rows of prompts with the responses sampled after :meth:`encode`.

        Records their metrics.

        Args:
            batch: the prompts.
            rollout: the rows that :meth:`rlcomp.interfaces.policy.Policy.generate` returned.
        """
        texts = decode_texts(batch[_asked(batch)])
        rows = with_texts(self.policy, texts, rollout, self.group_size)
        return _recorded(self._kept(rows, batch, self.group_size))

    def _sampled(self, batch: TensorDict) -> TensorDict:
        """Sample ``group_size`` responses per prompt; record their metrics."""
        return _recorded(self._answers(batch, self.group_size, self.policy.decoding))

    def _answers(self, batch: TensorDict, group_size: int, decoding: Decoding) -> TensorDict:
        rollout = answer_prompts(
            self.policy,
            decode_texts(batch[_asked(batch)]),
            prompt_ids=self.encode(batch),
            group_size=group_size,
            max_new_tokens=self.max_new_tokens,
            decoding=decoding,
            generator=self.generator,
        )
        return self._kept(rollout, batch, group_size)

    @staticmethod
    def _kept(rollout: TensorDict, batch: TensorDict, group_size: int) -> TensorDict:
        rows = torch.arange(len(batch), device=rollout["tokens"].device)
        return keep_prompt(rollout, batch, rows.repeat_interleave(group_size))


def _asked(batch: TensorDict) -> str:
    return "policy_prompt" if "policy_prompt" in batch.keys() else "prompt"


def _recorded(rollout: TensorDict) -> TensorDict:
    lengths = rollout["response_mask"].sum(1)
    record("rollout/length", lengths)
    record("rollout/truncated", rollout["truncated"])
    record_total("rollout/tokens", float(lengths.sum()))
    return rollout


class GreedyBaselineCollector(GroupCollector):
    """Collector of ReMax: ``group_size`` sampled responses and one greedy one per prompt.

    The greedy response follows the sampled ones of its group and is the baseline of
    ``advantage=greedy_baseline``. Its ``rollout_log_probs`` are scored under the policy's own
    decoding settings, so that KL measurements refer to the same policy.

    Reads ``prompt`` ``[P, W]``; answers ``policy_prompt`` ``[P, W]`` if it is there. Writes a
    new batch of ``B = P * (group_size + 1)`` rows: the tokens, masks and log-probs of the rollout,
    its texts, ``group_id``, ``truncated`` and ``greedy`` ``[B]``; the prompt's entries, repeated
    for each answer; and ``sampling_mask`` ``[B, T, V/8]`` if the policy's sampling replays masks.
    Its metrics are those of the sampled rows.

    Args:
        policy: the model that answers.
        group_size: sampled answers per prompt.
        max_new_tokens: longest answer, in tokens.
        prompt: how prompts become tokens; plain text if not given.

    Source:
        Li et al. 2023, arXiv:2310.10505 (ReMax), algorithm 1.
    """

    keys = {
        "greedy": (
            "B",
            "bool",
            "decoded greedily, as a baseline; not trained on",
            {"example": "first_of_group"},
        )
    }
    writes = (*GroupCollector.writes, "greedy")
    must_reach = ("greedy",)
    refills = False  # a sampler that refills its slots does not make the greedy responses

    def forward(self, batch: TensorDict) -> TensorDict:
        """Roll out sampled and greedy responses."""
        sampled = self._sampled(batch)
        greedy = self._answers(batch, 1, replace(self.policy.decoding, temperature=0.0))
        sampled["greedy"] = torch.zeros_like(sampled["truncated"])
        greedy["greedy"] = torch.ones_like(greedy["truncated"])
        with torch.no_grad():
            greedy["rollout_log_probs"] = self.policy.log_probs(greedy)
        return _beside(sampled, greedy)


def _beside(sampled: TensorDict, greedy: TensorDict) -> TensorDict:
    """Join both batches; the responses to a prompt share a group and are contiguous."""
    joined = cat([sampled, greedy])
    joined["group_id"] = torch.cat([sampled["group_id"], greedy["group_id"]])
    return joined[joined["group_id"].argsort(stable=True)]
