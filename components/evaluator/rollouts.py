"""Log of sample rollouts, token by token, for the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.batch import decode_columns, decode_texts
from rlcomp.columns import CONVERSATION
from rlcomp.component import Component
from rlcomp.functional.ratio import log_ratio
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.metrics import current_means, record_sample
from rlcomp.text.prompt import resolve_prompt_format


class RolloutLog(Component):
    """Stage that logs the first groups of a batch as samples for ``rlcomp-report RUN``.

    It logs for each answer its tokens as texts with the mask of trained tokens. For each token it
    logs the advantage, the ratio of the policy after the step to the one before, and the entropy
    after the step; in episodes also the turn and its reward from the environment. It also logs the
    reward with its parts, the environment's facts, whether the answer is correct, whether it was
    cut off, and the right answer, split at its possible ends if there are several. Entries that no
    stage wrote are left out.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``group_id`` ``[B]``,
    ``prompt``, ``response`` ``[B, W]``, and if present ``advantage``, ``old_log_probs``
    ``[B, T]``, ``turn_id``, ``turn_reward`` ``[B, T]``, ``reward``, ``rewards``, ``facts``,
    ``correct``, ``truncated`` ``[B]``, ``answers_group_id`` ``[B]``, ``answer``, ``answer_ends``,
    ``policy_prompt``, ``columns`` ``[B, W]``.

    Args:
        policy: the policy, which scores the answers with its current weights.
        num_groups: number of prompts. All answers to them are logged; if these answers pose
            questions (``answers_group_id``), the answers to the questions too.
        prompt: format of the prompts; None: plain text.
    """

    keys = {
        "answers_group_id": (
            "B",
            "int64",
            "group_id of the answers to the question in this response; -1: none",
            {"offset": "group_id"},
        )
    }
    reads = ("tokens", "attention_mask", "response_mask", "group_id", "prompt", "response")
    optional = (
        "advantage",
        "old_log_probs",
        "reward",
        "rewards",
        "correct",
        "truncated",
        "answer",
        "answer_ends",
        "policy_prompt",
        "answers_group_id",
        "columns",
        "turn_id",
        "turn_reward",
        "facts",
    )

    def __init__(
        self, *, policy: Policy, num_groups: PositiveInt = 2, prompt: PromptFormat | None = None
    ) -> None:
        super().__init__()
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        self.policy = policy
        self.num_groups = num_groups

    def forward(self, batch: TensorDict) -> TensorDict:
        """Record the samples; return the batch unchanged."""
        groups = list(dict.fromkeys(batch["group_id"].tolist()))[: self.num_groups]
        if "answers_group_id" in batch.keys():
            first = torch.isin(batch["group_id"], batch["group_id"].new_tensor(groups))
            groups += batch["answers_group_id"][first].tolist()  # no row is in group -1
        present = [key for key in (*self.reads, *self.optional) if key in batch.keys()]
        selected = torch.isin(batch["group_id"], batch["group_id"].new_tensor(groups))
        rows = batch.select(*present)[selected]
        with torch.no_grad():
            scored = self.policy(rows.select("tokens", "attention_mask", "response_mask"))
        numbers = {"entropy": scored["entropy"]}
        if "advantage" in rows.keys():
            numbers["advantage"] = rows["advantage"]
        if "old_log_probs" in rows.keys():
            mask = rows["response_mask"]
            numbers["ratio"] = log_ratio(scored["log_probs"], rows["old_log_probs"], mask).exp()
        texts = rows["policy_prompt" if "policy_prompt" in rows.keys() else "prompt"]
        columns = decode_columns(rows, [CONVERSATION])
        prompts = self.prompt.encode(decode_texts(texts), columns)
        outcomes = _outcomes(rows)
        if "reward/mean" in (metrics := current_means()) and "reward/correct" not in metrics:
            outcomes.pop("correct", None)  # a reward without a verdict
        outcomes["prompt"] = [*self.prompt.render(decode_texts(rows["prompt"]), columns)]
        for index, ids in enumerate(prompts):
            outcome = {key: column[index] for key, column in outcomes.items()}
            start = _shared_length(ids, rows["tokens"][index].tolist())
            record_sample(**outcome, **self._tokens(rows, numbers, index, start))
        return batch

    def _tokens(
        self, rows: TensorDict, numbers: dict[str, Tensor], index: int, start: int
    ) -> dict[str, object]:
        """Return the response tokens of one row with their per-token values."""
        mask = rows["response_mask"][index]
        # A filter may have emptied the response mask, so use the attention mask.
        positions = rows["attention_mask"][index, start:].nonzero().flatten() + start
        decode = self.policy.tokenizer.decode
        columns: dict[str, object] = {
            "tokens": [decode([token]) for token in rows["tokens"][index, positions].tolist()],
            "trained": mask[positions].long().tolist(),
        }
        if "turn_id" in rows.keys():
            columns["turn"] = rows["turn_id"][index, positions].tolist()
        if "turn_reward" in rows.keys():
            rewards = rows["turn_reward"][index, positions].tolist()
            columns["turn_reward"] = [_round(value) for value in rewards]
        for name, values in numbers.items():
            columns[name] = [_round(value) for value in values[index, positions].tolist()]
        return columns


def _shared_length(prompt: Sequence[int], row: Sequence[int]) -> int:
    """Return the number of first tokens that a row shares with its prompt."""
    pairs = enumerate(zip(prompt, row, strict=False))
    return next((index for index, (first, second) in pairs if first != second), len(prompt))


def _outcomes(rows: TensorDict) -> dict[str, list[object]]:
    """Return the per-response entries, one per row."""
    columns: dict[str, list[object]] = {"group_id": rows["group_id"].tolist()}
    for key in ("prompt", "response", "answer"):
        if key in rows.keys():
            columns[key] = [*decode_texts(rows[key])]
    columns |= _pieces(rows)
    for key in ("correct", "truncated"):
        if key in rows.keys():
            columns[key] = rows[key].tolist()
    if "reward" in rows.keys():
        columns["reward"] = [_round(value) for value in rows["reward"].tolist()]
    for key in ("rewards", "facts"):
        if key in rows.keys():
            parts = {name: part.tolist() for name, part in rows[key].items()}
            columns[key] = [
                {name: _round(part[index]) for name, part in parts.items()}
                for index in range(len(rows))
            ]
    return columns


def _pieces(rows: TensorDict) -> dict[str, list[object]]:
    """Return the gold answers split at their ends (``answer_ends``), if any has several."""
    if "answer" not in rows.keys() or "answer_ends" not in rows.keys():
        return {}
    pieces: list[object] = []
    for text, ends in zip(decode_texts(rows["answer"]), rows["answer_ends"], strict=True):
        stops = (ends.nonzero().flatten() + 1).tolist()
        cuts = zip([0, *stops], stops, strict=False)
        # An incomplete character becomes the replacement character.
        pieces.append(
            [text.encode()[start:stop].decode("utf-8", "replace") for start, stop in cuts]
        )
    return {"pieces": pieces} if bool((rows["answer_ends"].sum(1) > 1).any()) else {}


def _round(value: float) -> float | None:
    """Round to four digits for display; JSON has no NaN and no infinity."""
    return float(f"{value:.4g}") if math.isfinite(value) else None
