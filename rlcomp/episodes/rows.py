"""Conversion of episodes to rows of a batch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import encode_texts
from rlcomp.episodes.episode import Episode
from rlcomp.text.rows import pad_id, pad_rows
from rlcomp.text.tokenizer import decode_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def episode_rows(
    episodes: Sequence[Episode],
    tokenizer: PreTrainedTokenizerBase,
    *,
    group_size: int,
    version: int,
    device: torch.device,
) -> TensorDict:
    """Return a row for each episode, prompt 0 first.

    Args:
        episodes: ``B`` episodes.
        tokenizer: decodes the last turn, the ``response``.
        group_size: episodes of a prompt.
        version: version of the weights that sampled.
        device: device of the rows.

    Returns:
        The keys of a collector without those of the prompt, and ``trajectory_id``, ``turn_id``,
        ``turn_reward``, ``anchor_id``, ``transcript``, ``episode_error`` and ``facts``;
        ``sampling_mask`` if the sets were recorded.
    """
    count = len(episodes)
    tokens, filled = pad_rows([episode.ids for episode in episodes], pad_id(tokenizer))
    sampled = _wide([[*map(int, each.trained)] for each in episodes], 0).bool()
    columns = {
        "tokens": tokens,
        "attention_mask": filled,
        "response_mask": sampled,
        "rollout_log_probs": _wide([each.log_probs for each in episodes], 0.0),
        "policy_version": sampled * version,
        "group_id": torch.arange(count) // group_size,
        "trajectory_id": torch.arange(count),
        "truncated": torch.tensor([each.truncated for each in episodes]),
        "response": encode_texts(_last_turns(episodes, tokenizer)),
        "transcript": encode_texts(["".join(each.texts) for each in episodes]),
        "episode_error": encode_texts([each.broken for each in episodes]),
        **_turns(episodes, tokens.shape[1]),
    }
    rows = TensorDict(columns, batch_size=[count])
    rows["facts"] = _facts(episodes)
    if any(piece is not None for each in episodes for piece in each.kept):
        rows["sampling_mask"] = _sampling_masks(episodes, tokens.shape[1])
    return rows.to(device)


def _wide(rows: Sequence[Sequence[float]], fill: float) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])


def _last_turns(episodes: Sequence[Episode], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    spans = [
        (each.turns[-1].start, each.turns[-1].end) if each.turns else (0, 0) for each in episodes
    ]
    ids = [each.ids[start:end] for each, (start, end) in zip(episodes, spans, strict=True)]
    return decode_rows(tokenizer, ids)


def _turns(episodes: Sequence[Episode], width: int) -> dict[str, Tensor]:
    """Return each token's turn and anchor, and the reward of a turn at its last token."""
    turn = torch.full((len(episodes), width), -1)
    anchor, reward = turn.clone(), torch.zeros(len(episodes), width)
    for row, episode in enumerate(episodes):
        for number, each in enumerate(episode.turns):
            turn[row, each.start : each.end] = number if each.number is None else each.number
            reward[row, each.end - 1] = each.reward
            if each.anchor is not None:
                anchor[row, each.start : each.end] = anchor_id(each.anchor)
    return {"turn_id": turn, "anchor_id": anchor, "turn_reward": reward}


def anchor_id(anchor: str) -> int:
    """Return a state as a number: 63 bits of its text's SHA-256.

    Examples:
        >>> anchor_id("room 3") == anchor_id("room 3"), anchor_id("room 4") >= 0
        (True, True)
    """
    return int.from_bytes(hashlib.sha256(anchor.encode()).digest()[:8], "big") >> 1


def _facts(episodes: Sequence[Episode]) -> TensorDict:
    names = dict.fromkeys(name for each in episodes for name in each.facts)
    values = {
        name: torch.tensor([each.facts.get(name, math.nan) for each in episodes]) for name in names
    }
    return TensorDict(values, batch_size=[len(episodes)])


def _sampling_masks(episodes: Sequence[Episode], width: int) -> Tensor:
    pieces = [piece for each in episodes for piece in each.kept if piece is not None]
    masks = pieces[0].new_zeros(len(episodes), width, pieces[0].shape[-1])
    for row, episode in enumerate(episodes):
        for turn, piece in zip(episode.turns, episode.kept, strict=True):
            if piece is not None:
                masks[row, turn.start : turn.end] = piece
    return masks.cpu()
