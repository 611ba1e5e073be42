"""Rewards of mask-proposal self-play (PretrainZero)."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from components.reward.next_token import PrefixMatch
from rlcomp.arguments import Probability
from rlcomp.batch import decode_texts
from rlcomp.data.masked_text import normalised_span
from rlcomp.functional.games import count_answers, generator_reward
from rlcomp.metrics import record


class MaskGameReward(PrefixMatch):
    r"""PretrainZero's rewards: 1 for the masked span, 1 - accuracy for its proposer.

    The paper calls the proposer of a mask the generator.

    ``R_pred = 1[prediction = span]``; ``R_gen = 1 - |p - p*| / max(p*, 1 - p*)`` if ``p > 0``, else
    0, with ``p`` the accuracy of the predictors of the mask and ``p*`` = ``target`` (0 in the
    paper).

    A prediction is the last ``\boxed{...}`` after the thought. It is right if it equals the answer
    in Unicode's NFC without white space at both ends. A missing prediction is wrong. A proposer
    whose mask could not be used gets a valid 0.

    Reads ``tokens``, ``response_mask`` ``[B, T]``, ``group_id`` ``[B]``, ``answer`` ``[B, W]``, and
    if present ``is_proposer``, ``answers_group_id`` ``[B]``; without them every row is a
    predictor. Writes ``reward`` ``[B]``; ``rewards`` (``{predictor: [B], generator: [B]}``, NaN in
    the rows of the other role); ``correct`` ``[B]``, False for proposers; ``reward_valid``
    ``[B]``, False for a proposer whose predictors are missing from the batch. Records
    ``reward/mean`` (over valid rows), ``reward/correct`` (over predictors),
    ``reward/invalid_fraction``, and over masks ``mask_game/accuracy`` (the mean share ``p`` of
    right predictions), ``mask_game/all_right`` and ``mask_game/all_wrong`` (shares of masks with
    ``p`` 1 and 0), ``mask_game/difficulty`` (the proposers' mean reward).

    Args:
        tokenizer: the policy's tokenizer, for the bytes of tokens.
        target: the accuracy ``p*`` with the highest reward of the proposer; 0 gives the paper's
            ``1 - p``, with 0 for ``p = 0``.
        casefold: whether upper and lower case are the same.
        think_end: the box is searched after the first one of these; empty: in the whole
            response.

    Raises:
        ConfigError: the tokenizer does not give the bytes of its tokens, or ``think_end`` is a
            special token, which has no bytes.

    Source:
        PretrainZero, arXiv:2512.03442; the normalisation and the target are this project's.
    """

    reads = ("tokens", "response_mask", "group_id", "answer")
    writes = ("reward", "rewards", "correct", "reward_valid")
    keys = {
        "is_proposer": ("B", "bool", "the row poses a question; the others answer one"),
        "answers_group_id": (
            "B",
            "int64",
            "group_id of the answers to the question in this response; -1: none",
            {"offset": "group_id"},
        ),
    }
    optional = ("is_proposer", "answers_group_id")

    def __init__(
        self,
        *,
        tokenizer: PreTrainedTokenizerBase,
        target: Probability = 0.0,
        casefold: bool = False,
        think_end: str = "</think>",
    ) -> None:
        super().__init__(tokenizer=tokenizer, think_end=think_end)
        self.target = target
        self.casefold = casefold

    def forward(self, batch: TensorDict) -> TensorDict:
        """Judge every row."""
        group_id, no_row = batch["group_id"], torch.zeros_like(batch["group_id"], dtype=torch.bool)
        is_proposer = batch.get("is_proposer", no_row)
        right = self._correct_rows(batch) & ~is_proposer
        group = torch.where(is_proposer, batch.get("answers_group_id", group_id), group_id)
        successes, attempts = count_answers(group, group_id, right, ~is_proposer)
        generator = generator_reward(successes, attempts, self.target)
        valid = ~is_proposer | (group == -1) | (attempts > 0)
        _write_rewards(batch, is_proposer, right, generator, valid)
        # A predictor's group has at least one attempt, itself; proposers' values are not used.
        accuracy = successes / attempts
        # All masks have equally many predictors, so that the mean over rows is the mean over masks.
        record("mask_game/accuracy", accuracy, where=~is_proposer)
        record("mask_game/all_right", (accuracy == 1).float(), where=~is_proposer)
        record("mask_game/all_wrong", (accuracy == 0).float(), where=~is_proposer)
        record("mask_game/difficulty", generator, where=~is_proposer)
        return batch

    def _correct_rows(self, batch: TensorDict) -> Tensor:
        """Return which responses are correct, bool ``[B]``."""
        rows = zip(self._predictions(batch), decode_texts(batch["answer"]), strict=True)
        right = [
            boxed is not None and self._normalise(boxed) == self._normalise(answer)
            for boxed, answer in rows
        ]
        return torch.tensor(right, dtype=torch.bool, device=batch["tokens"].device)

    def _normalise(self, text: bytes | str) -> str:
        # Invalid UTF-8 becomes surrogates, which occur in no text.
        text = text.decode(errors="surrogateescape") if isinstance(text, bytes) else text
        return normalised_span(text.casefold() if self.casefold else text)


def _write_rewards(
    batch: TensorDict, is_proposer: Tensor, right: Tensor, generator: Tensor, valid: Tensor
) -> None:
    """Write the four entries and record them."""
    predictor, nan = right.float(), torch.tensor(float("nan"), device=right.device)
    batch["reward"] = torch.where(is_proposer, generator, predictor)
    parts = {
        "predictor": torch.where(is_proposer, nan, predictor),
        "generator": torch.where(is_proposer & valid, generator, nan),
    }
    batch["rewards"] = TensorDict(parts, batch_size=batch.batch_size)
    batch["correct"] = right
    batch["reward_valid"] = valid
    record("reward/mean", batch["reward"], where=valid)
    record("reward/correct", right.float(), where=~is_proposer)
    record("reward/invalid_fraction", (~valid).float())
