"""Trainable linear embedding of preferences: weights of objectives."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.errors import ConfigError
from rlcomp.text.preference_tokens import preference_points


class PreferenceEmbedding(nn.Embedding):
    """Embedding layer with preference tokens: a linear map of the objective weights.

    The table keeps its size, so that the output head can still share it; its rows of preference
    tokens are never read.

    Args:
        table: the embedding of all other tokens; its weight is shared, not copied.
        points: the preference of each preference token, by token id: a whole number of steps for
            each of K objectives. The weight of an objective is its share of the steps.

    Attributes:
        points: weights of the objectives by token id, ``[V, K]``; 0 for other tokens.
    """

    points: Tensor

    def __init__(self, table: nn.Embedding, points: Mapping[int, tuple[int, ...]]) -> None:
        super().__init__(
            table.num_embeddings, table.embedding_dim, table.padding_idx, _weight=table.weight
        )
        self.weight = table.weight
        steps = torch.tensor([*points.values()], dtype=table.weight.dtype)
        weights = torch.zeros(table.num_embeddings, steps.shape[1], dtype=table.weight.dtype)
        weights[list(points)] = steps / steps.sum(1, keepdim=True)
        self.register_buffer("points", weights.to(table.weight.device))
        # The scale of other embeddings: a norm layer would amplify a smaller embedding, and its
        # gradient.
        scale = float(table.weight.detach().std())
        drawn = torch.randn(table.embedding_dim, steps.shape[1]) * scale
        self.preference_map = nn.Parameter(drawn.to(table.weight))

    def forward(self, ids: Tensor) -> Tensor:
        """Return the embeddings ``[..., H]`` of ids ``[...]``."""
        point = self.points[ids]
        mapped = point @ self.preference_map.t()
        # The weights of other tokens are all 0.
        return torch.where(point.any(-1, keepdim=True), mapped, super().forward(ids))


def conditioned(*, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Replace the embedding of a model by a :class:`PreferenceEmbedding`.

    torch's global generator draws the embedding's map. If the model gets adapters, add them first:
    ``lora`` would freeze this embedding.

    Args:
        model: changed in place, and returned; its vocabulary must hold the tokenizer's tokens.
        tokenizer: must have preference tokens.

    Raises:
        ConfigError: the tokenizer has no preference tokens, or the model has no rows for them or
            has a :class:`PreferenceEmbedding` already.
    """
    points = preference_points(tokenizer)
    table = model.get_input_embeddings()
    if not points:
        raise ConfigError(
            "model: the tokenizer has no tokens for preferences: use tokenizer=character_preference"
        )
    if isinstance(table, PreferenceEmbedding):
        raise ConfigError("model: it reads preferences already; wrap it once")
    if not isinstance(table, nn.Embedding) or max(points) >= table.num_embeddings:
        raise ConfigError(
            f"model: its embedding ({table}) has no row {max(points)} for the last preference: "
            "make vocab_size larger"
        )
    model.set_input_embeddings(PreferenceEmbedding(table, points))
    return model
