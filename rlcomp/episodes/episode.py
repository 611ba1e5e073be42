"""Episodes, and their conversion to rows of a batch."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import encode_texts
from rlcomp.engine.session import TurnSample
from rlcomp.text.rows import pad_id, pad_rows
from rlcomp.text.tokenizer import decode_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass
class EpisodeTurn:
    """Turn of the policy in an episode.

    Attributes:
        start: index of its first token.
        end: index after its last token.
        anchor: the state before the turn, if states can be compared.
        reward: the environment's reward.
        number: number of the turn in an episode of several rows; None: its index in this row.
    """

    start: int
    end: int
    anchor: str | None
    reward: float = 0.0
    number: int | None = None


@dataclass
class Episode:
    """Row of the prompt, the policy's turns and the observations so far.

    Attributes:
        ids: tokens, append-only after the first turn.
        trained: whether the policy sampled each token.
        log_probs: log-prob of each token, nats; 0 for tokens that were not sampled.
        turns: turns of the policy, in order.
        sampling_masks: the candidate sets of each turn's tokens; None if not recorded.
        texts: the texts after the prompt, piece by piece.
        truncated: whether a limit ended it: on the tokens of a turn, on the number of turns, or on
            the context.
        broken: reason of the environment's failure; '' without one.
        facts: numbers of the environment about the episode.
    """

    ids: list[int]
    trained: list[bool] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    turns: list[EpisodeTurn] = field(default_factory=list)
    sampling_masks: list[Tensor | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    truncated: bool = False
    broken: str = ""
    facts: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trained = [False] * len(self.ids)
        self.log_probs = [0.0] * len(self.ids)

    def fork(self) -> Episode:
        """Return an independent copy."""
        other = copy.copy(self)
        other.ids, other.trained = [*self.ids], [*self.trained]
        other.log_probs, other.sampling_masks = [*self.log_probs], [*self.sampling_masks]
        other.turns, other.texts = [replace(turn) for turn in self.turns], [*self.texts]
        return other

    def append_turn(self, sample: TurnSample, text: str, anchor: str | None) -> None:
        """Append a turn of the policy."""
        start = len(self.ids)
        self._append(sample.tokens, True, sample.log_probs)
        self.turns.append(EpisodeTurn(start, len(self.ids), anchor))
        self.sampling_masks.append(sample.sampling_mask)
        self.texts.append(text)

    def set_observation(self, ids: Sequence[int], text: str) -> None:
        """Replace the ids by ``ids``, which end with a new observation.

        Before the first turn, the observation may be inside the prompt. Later, ``ids`` must begin
        with the present ids.
        """
        assert not self.turns or self.ids == ids[: len(self.ids)], "a row was rewritten"
        if not self.turns:
            self.ids, self.trained, self.log_probs = [], [], []
        new = ids[len(self.ids) :]
        self._append(new, False, [0.0] * len(new))
        self.texts.append(text)

    def _append(self, tokens: Sequence[int], trained: bool, log_probs: Sequence[float]) -> None:
        self.ids += tokens
        self.trained += [trained] * len(tokens)
        self.log_probs += log_probs


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
        version: version of the policy's weights.
        device: device of the rows.

    Returns:
        ``tokens``, ``attention_mask``, ``response_mask``, ``rollout_log_probs``,
        ``policy_version``, ``turn_id``, ``anchor_id`` (-1: none), ``turn_reward`` ``[B, T]``,
        ``group_id``, ``trajectory_id``, ``truncated`` ``[B]``, the texts ``response``,
        ``transcript``, ``episode_error`` ``[B, W]``, and ``facts`` with a number ``[B]`` for each
        name (NaN in rows without it); ``sampling_mask`` ``[B, T, V/8]`` if it was recorded.
    """
    count = len(episodes)
    tokens, filled = pad_rows([episode.ids for episode in episodes], pad_id(tokenizer))
    sampled = _pad([[*map(int, each.trained)] for each in episodes], 0).bool()
    columns = {
        "tokens": tokens,
        "attention_mask": filled,
        "response_mask": sampled,
        "rollout_log_probs": _pad([each.log_probs for each in episodes], 0.0),
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
    if any(piece is not None for each in episodes for piece in each.sampling_masks):
        rows["sampling_mask"] = _sampling_masks(episodes, tokens.shape[1])
    return rows.to(device)


def _pad(rows: Sequence[Sequence[float]], fill: float) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])


def _last_turns(episodes: Sequence[Episode], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    last = [(each.ids, each.turns[-1:]) for each in episodes]
    return decode_rows(
        tokenizer, [ids[turn[0].start : turn[0].end] if turn else [] for ids, turn in last]
    )


def _turns(episodes: Sequence[Episode], width: int) -> dict[str, Tensor]:
    """Return each token's turn and anchor (-1: none), and a turn's reward at its last token."""
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
    """Return the number of a state: 63 bits of the SHA-256 of its text.

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
    pieces = [piece for each in episodes for piece in each.sampling_masks if piece is not None]
    masks = pieces[0].new_zeros(len(episodes), width, pieces[0].shape[-1])
    for row, episode in enumerate(episodes):
        for turn, piece in zip(episode.turns, episode.sampling_masks, strict=True):
            if piece is not None:
                masks[row, turn.start : turn.end] = piece
    return masks.cpu()
