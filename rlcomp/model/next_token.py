"""Next-token entropies of a language model at every position of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rlcomp.errors import ConfigError, DataError, NumericalError
from rlcomp.functional.divergence import top_entropy
from rlcomp.model.pretrained import context_limit

# Most tokens of a pass, padding included.
_TOKENS = 2**13
# Most logits in memory at once: 256 MiB in float32.
_LOGITS = 2**26


@torch.no_grad()
def next_token_entropies(
    model: PreTrainedModel,
    rows: Sequence[Sequence[int]],
    *,
    top_k: int,
    renormalise: bool,
    device: torch.device,
) -> list[Tensor]:
    """Compute the top-k next-token entropy before each token of each text.

    Args:
        model: a causal language model; its device and mode are restored at the end.
        rows: tokens of each text.
        top_k: as in :func:`~rlcomp.functional.divergence.top_entropy`.
        renormalise: as in ``top_entropy``.
        device: device of the forward passes.

    Returns:
        One value per token, nats, on the CPU; 0 at the first token of a text.

    Raises:
        ConfigError: a text holds a token that the model does not have.
        DataError: a text is longer than the model's context.
        NumericalError: an entropy is not finite.
    """
    _check_fits(model, rows)
    results = [torch.zeros(len(row)) for row in rows]
    original_device, training = model.device, model.training
    model.to(device).eval()
    try:
        for batch in _batches(rows):
            entropies = _entropies(model, [rows[index] for index in batch], top_k, renormalise)
            for index, entropy in zip(batch, entropies.cpu(), strict=True):
                results[index][1:] = entropy[: len(rows[index]) - 1]
    finally:
        model.to(original_device).train(training)
    if not all(bool(entropy.isfinite().all()) for entropy in results):
        raise NumericalError("the proxy's output is not finite: its positions would be left out")
    return results


def _check_fits(model: PreTrainedModel, rows: Sequence[Sequence[int]]) -> None:
    vocabulary, limit = model.config.get_text_config().vocab_size, context_limit(model.config)
    largest = max((max(row, default=0) for row in rows), default=0)
    length = max(map(len, rows), default=0)
    if largest >= vocabulary:
        raise ConfigError(
            f"the proxy has {vocabulary} tokens, but a text holds token {largest}: use a proxy "
            "with the tokenizer of the policy"
        )
    if limit is not None and length > limit:
        raise DataError(
            f"a text has {length} tokens, but the proxy's context holds {limit}: lower longest of "
            "the corpus, which cuts it into shorter documents, or use another proxy"
        )


def _batches(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the row indices of each pass: similar lengths, the longest first.

    Rows of fewer than two tokens are left out: they have no next token to predict.
    """
    order = sorted((n for n, row in enumerate(rows) if len(row) > 1), key=lambda n: -len(rows[n]))
    while order:
        count = max(1, _TOKENS // len(rows[order[0]]))
        yield order[:count]
        order = order[count:]


def _entropies(
    model: PreTrainedModel, rows: Sequence[Sequence[int]], top_k: int, renormalise: bool
) -> Tensor:
    """Compute the next token's entropy at each position, ``[B, T]``, of rows, the longest first.

    Padding is on the right, where no token of a causal model attends to it. The columns are read in
    pieces, with a KV cache, so that the logits of one piece are in memory at once.
    """
    width = len(rows[0])
    tokens = torch.tensor([[*row] + [0] * (width - len(row)) for row in rows], device=model.device)
    columns = max(1, _LOGITS // (len(rows) * model.config.get_text_config().vocab_size))
    cache, pieces = None, []
    for start in range(0, width, columns):
        piece = tokens[:, start : start + columns]
        output = model(input_ids=piece, past_key_values=cache, use_cache=columns < width)
        cache = output.past_key_values
        pieces.append(top_entropy(output.logits, top_k, renormalise))
    return torch.cat(pieces, dim=1)
