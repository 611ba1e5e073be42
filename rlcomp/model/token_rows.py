"""Checked rows of tokens for a model's own methods."""

from __future__ import annotations

from collections.abc import Sequence

from tensordict import TensorDict

from rlcomp.canonical import canonical, missing_keys_message
from rlcomp.errors import ConfigError, ShapeError
from rlcomp.keys import Key


def token_rows(
    owner: str,
    batch: TensorDict,
    keys: Sequence[Key] = ("tokens", "attention_mask", "response_mask"),
    optional: Sequence[Key] = (),
    *,
    vocabulary: int | None = None,
) -> TensorDict:
    """Return the canonical entries of a batch that a model's own methods read.

    Args:
        owner: the model, for the message.
        batch: any batch; other entries are left out.
        keys: required entries.
        optional: optional entries.
        vocabulary: number of the model's tokens; None for no check.

    Raises:
        KeyError: an entry is missing.
        ConfigError: a token is none of the model's, or an entry does not match the schema.
        ShapeError: there is no token, or the rows are not padded on the right.
    """
    missing = [key for key in keys if key not in batch.keys()]
    if missing:
        raise KeyError(missing_keys_message(owner, missing, batch.keys()))
    rows = canonical(owner, batch.select(*keys, *optional, strict=False), [*keys, *optional])
    tokens, mask = rows["tokens"], rows["attention_mask"]
    if not tokens.numel():
        raise ShapeError(f"{owner}: 'tokens' has shape {list(tokens.shape)}: it holds no token")
    if vocabulary is not None:
        unknown = mask & ((tokens < 0) | (tokens >= vocabulary))
        if bool(unknown.any()):
            row, column = unknown.nonzero()[0].tolist()
            raise ConfigError(
                f"{owner}: 'tokens' at [{row}, {column}] is {int(tokens[row, column])}, but the "
                f"model has ids 0 to {vocabulary - 1}: encode the text with its own tokenizer"
            )
    return rows
