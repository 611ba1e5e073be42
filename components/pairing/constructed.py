"""Pairs of gold, sampled and unrelated answers, labelled by construction."""

from __future__ import annotations

from typing import Literal

import torch
from tensordict import TensorDict

from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import Prompt
from rlcomp.metrics import record
from rlcomp.text.prompt import or_text
from rlcomp.text.rewritten import with_responses


class Constructed(Component):
    """Preference pairs labelled by construction, without a judge (Curriculum-RLAIF).

    ``kind: easy`` pairs the gold answer with an unrelated one, the gold answer of the next prompt
    in the batch. ``bridge`` alternates between pairs of gold and sampled answer and pairs of
    sampled and unrelated answer. The sampled answer is the first of a group. Two equal texts give
    two rows without a valid reward, which every loss ignores.

    Reads ``prompt``, ``response``, ``answer`` (``[B, W]`` texts), ``group_id`` ``[B]``. Writes a
    new batch of two rows per group: ``tokens``, ``attention_mask``, ``response_mask`` ``[2G, T]``,
    ``prompt``, ``response``, ``group_id``, ``chosen`` and ``reward_valid`` ``[2G]``: row 2k is
    chosen, row 2k + 1 rejected.

    Records ``pairing/pairs``, the share of groups that give a pair.

    Args:
        policy: the policy, whose tokenizer encodes the rows.
        kind: ``easy`` or ``bridge``.
        prompt: how prompts become tokens; plain text if not given.

    Source:
        Curriculum-RLAIF (2025), arXiv:2505.20075, section 3.
    """

    reads = ("prompt", "response", "answer", "group_id")
    optional = ("columns",)
    writes = (
        "tokens",
        "attention_mask",
        "response_mask",
        "prompt",
        "response",
        "group_id",
        "chosen",
        "reward_valid",
    )
    fresh = True
    keeps_prompt = True

    def __init__(
        self,
        *,
        policy: Policy,
        kind: Literal["easy", "bridge"] = "easy",
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__()
        self.prompt = or_text(prompt, policy.tokenizer)
        self.tokenizer = policy.tokenizer
        self.kind = kind

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of the pairs."""
        groups = batch["group_id"].cpu()
        firsts = [int((groups == group).nonzero()[0]) for group in groups.unique()]
        pairs = self._pairs(batch[torch.tensor(firsts, dtype=torch.long)])
        texts = [text for pair in pairs for text in pair]
        index = torch.tensor(firsts, dtype=torch.long).repeat_interleave(2)
        source = batch[index.to(batch["group_id"].device)]
        rows = with_responses(source, texts, prompt=self.prompt, tokenizer=self.tokenizer)
        different = torch.tensor([better != worse for better, worse in pairs])
        device = rows["tokens"].device
        rows["chosen"] = (torch.arange(len(texts)) % 2 == 0).to(device)
        rows["reward_valid"] = different.repeat_interleave(2).to(device)
        record("pairing/pairs", different.double())
        return rows

    def _pairs(self, batch: TensorDict) -> list[tuple[str, str]]:
        """Return the better and the worse answer of each group."""
        gold, sampled = (decode_texts(batch[key]) for key in ("answer", "response"))
        unrelated = [*gold[1:], *gold[:1]]
        if self.kind == "easy":
            return [*zip(gold, unrelated, strict=True)]
        trios = enumerate(zip(gold, sampled, unrelated, strict=True))
        return [(mine, third) if n % 2 else (best, mine) for n, (best, mine, third) in trios]
