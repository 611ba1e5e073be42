"""ReMax rollouts: sampled responses plus one greedy response per prompt."""

from __future__ import annotations

from dataclasses import replace

import torch
from tensordict import TensorDict

from components.collector.group import GroupCollector
from rlcomp.batch import cat


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
