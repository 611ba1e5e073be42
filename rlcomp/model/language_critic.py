"""Language value function (NLRL): a critic whose values are words."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.errors import ConfigError, DataError
from rlcomp.functional.reduction import masked
from rlcomp.model.backbone import token_rows
from rlcomp.model.language_model import LanguageModel
from rlcomp.text.tokenizer import encode_all

# Most numbers of log_distribution in memory at once.
_MAX_NUMBERS = 2**27
_REMEDY = "take other words, or add them to the tokenizer (tokenizer.words=[...])"


class LanguageCritic(LanguageModel):
    """Critic that is a copy of the policy and rates a state by one of a few words.

    ``V(s) = sum_w p(w | s) v_w / sum_w p(w | s)``. The state ``s`` is the prompt and the response
    so far, ``p(w | s)`` the probability that the next token is the first token of the word ``w``,
    and ``v_w`` the word's value.

    The copy gets the policy's weights again when the first phase with it begins. It is trained like
    a language model: ``loss=sft`` on states and words (``value_targets``).

    Args:
        model: the policy's model; it is not changed.
        tokenizer: the policy's tokenizer.
        words: the value of each word, in reward units; at least two.
        engine: the compute engine.

    Raises:
        ConfigError: there are fewer than two words, two words begin with the same token, or the
            tokenizer cannot write a word.

    Source:
        Feng et al. 2024, arXiv:2411.14251 (natural language RL); there values are free texts.
    """

    source: PreTrainedModel
    started: Tensor

    def __init__(
        self,
        *,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        words: dict[str, float],
        engine: Engine = AUTO,
    ) -> None:
        super().__init__(
            model=copy.deepcopy(model), tokenizer=tokenizer, decoding=Decoding(), engine=engine
        )
        # Not registered in nn.Module: the model's tensors belong to its owner.
        object.__setattr__(self, "source", model)
        self.words = dict(words)
        self.word_ids = _word_ids(tokenizer, self.words)
        # A buffer, so that a resumed run does not copy the weights again.
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def begin_phase(self) -> None:
        """Copy the model's current weights, once."""
        if not bool(self.started):
            self.model.load_state_dict(self.source.state_dict())
            self.started.fill_(True)

    def values(self, batch: TensorDict) -> Tensor:
        """Compute the value before each response token, ``[B, T]``, in reward units, no gradient.

        It is 0 outside ``response_mask``.
        """
        batch = token_rows(type(self).__name__, batch)
        rows = max(
            1, _MAX_NUMBERS // (batch["tokens"].shape[1] * self.causal_forward.signature.vocabulary)
        )
        with torch.no_grad():
            pieces = [self._values(piece) for piece in batch.split(rows)]
        return masked(torch.cat(pieces), batch["response_mask"])

    def _values(self, batch: TensorDict) -> Tensor:
        first_ids = [ids[0] for ids in self.word_ids.values()]
        # The softmax of log-probs normalises them over the words.
        probs = self.log_distribution(batch)[..., first_ids].softmax(-1)
        return probs @ torch.tensor([*self.words.values()], device=probs.device)

    def nearest(self, value: float) -> str:
        """Return the word with the value nearest to ``value``, the first one of a tie."""
        return min(self.words, key=lambda word: abs(self.words[word] - value))


def _word_ids(
    tokenizer: PreTrainedTokenizerBase, words: Mapping[str, float]
) -> dict[str, list[int]]:
    """Return the token ids of each word; check that the first ids differ."""
    if len(words) < 2:
        raise ConfigError(f"critic.words is {dict(words)}: name at least two words with values")
    try:
        word_ids = dict(zip(words, encode_all(tokenizer, [*words]), strict=True))
    except DataError as error:
        raise ConfigError(f"critic.words: {error}; {_REMEDY}") from error
    first_words: dict[int, str] = {}
    for word, ids in word_ids.items():
        if not ids or (tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids):
            raise ConfigError(f"critic.words: the tokenizer cannot write {word!r}: {_REMEDY}")
        other = first_words.setdefault(ids[0], word)
        if other != word:
            raise ConfigError(
                f"critic.words: {other!r} and {word!r} begin with the same token, and the value is "
                f"read off the first: {_REMEDY}"
            )
    return word_ids
