"""Next-token entropies of a language model at every position of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rlcomp.errors import ConfigError, DataError, NumericalError
from rlcomp.functional.position_entropy import top_entropy
from rlcomp.model.pretrained import context_limit

# Tokens that are read at once, padding included.
_TOKENS = 2**13
# Logits that are held at once: 256 MiB in float32.
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
    """Top-k next-token entropy before each token of each text.

    Args:
        model: a causal language model; on return in its own place and mode.
        rows: texts as tokens, of ``n`` tokens each.
        top_k: as in :func:`~rlcomp.functional.position_entropy.top_entropy`.
        renormalise: likewise.
        device: where to read.

    Returns:
        For each text shape ``[n]``, nats, on the CPU; as for log-probs 0 at its first token, which
        nothing foretells.

    Raises:
        ConfigError: a text holds a token that the model does not have.
        DataError: a text is longer than the model's context.
        NumericalError: what the model expects is not finite.
    """
    _check_fits(model, rows)
    found = [torch.zeros(len(row)) for row in rows]
    home, training = model.device, model.training
    model.to(device).eval()
    try:
        for batch in _batches(rows):
            entropies = _entropies(model, [rows[index] for index in batch], top_k, renormalise)
            for index, entropy in zip(batch, entropies.cpu(), strict=True):
                found[index][1:] = entropy[: len(rows[index]) - 1]
    finally:
        model.to(home).train(training)
    if not all(bool(entropy.isfinite().all()) for entropy in found):
        raise NumericalError("the proxy's output is not finite: its positions would be left out")
    return found


def _check_fits(model: PreTrainedModel, rows: Sequence[Sequence[int]]) -> None:
    vocabulary, limit = model.config.get_text_config().vocab_size, context_limit(model.config)
    largest, length = (max(map(of, rows), default=0) for of in (_largest, len))
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


def _largest(row: Sequence[int]) -> int:
    return max(row, default=0)


def _batches(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Row indices of each forward batch: similar lengths, longest first."""
    order = sorted((n for n, row in enumerate(rows) if len(row) > 1), key=lambda n: -len(rows[n]))
    while order:
        count = max(1, _TOKENS // len(rows[order[0]]))
        yield order[:count]
        order = order[count:]


def _entropies(
    model: PreTrainedModel, rows: Sequence[Sequence[int]], top_k: int, renormalise: bool
) -> Tensor:
    """Entropy of the next token at each position, ``[B, T]``; right padding is not attended."""
    width = len(rows[0])
    tokens = torch.tensor([[*row] + [0] * (width - len(row)) for row in rows], device=model.device)
    columns = max(1, _LOGITS // (len(rows) * model.config.get_text_config().vocab_size))
    cache, found = None, []
    for start in range(0, width, columns):
        piece = tokens[:, start : start + columns]
        # Where all fit at once no cache is needed.
        output = model(input_ids=piece, past_key_values=cache, use_cache=columns < width)
        cache = output.past_key_values
        found.append(top_entropy(output.logits, top_k, renormalise))
    return torch.cat(found, dim=1)
