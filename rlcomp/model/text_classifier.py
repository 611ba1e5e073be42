"""Sequence classifiers of transformers: load, evaluate and train them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from rlcomp.errors import ConfigError, DataError, ShapeError, nearest
from rlcomp.functional.reward_model import multi_label_loss
from rlcomp.model.pretrained import check_filled, context_limit, read_config, read_weights
from rlcomp.seed import named_seed
from rlcomp.text.tokenizer import encode_all, load_tokenizer

_REMEDY = (
    "it needs config.json and model.safetensors of a sequence classifier; save one with "
    "model.save_pretrained('{path}')"
)


def load_classifier(path: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a sequence classifier and its tokenizer, in eval mode and without gradients.

    Args:
        path: a folder with both, written by ``save_pretrained`` (safetensors).

    Raises:
        DataError: the folder is missing or incomplete, or a file in it cannot be read.
    """
    if not Path(path).is_dir():
        raise DataError(f"no reward model: '{path}' is not a folder")
    message, remedy = f"no reward model in '{path}'", _REMEDY.format(path=path)
    config = read_config(path, message, remedy)
    kind = AutoModelForSequenceClassification
    model, report = read_weights(kind, path, config, message, remedy)
    if report["missing_keys"]:
        # transformers would fill in random weights, such as the head of a classifier.
        raise DataError(f"{message} (it lacks {sorted(report['missing_keys'])[0]}): {remedy}")
    check_filled(path, report)
    return model.eval().requires_grad_(False), load_tokenizer(path=path)


def label_index(model: PreTrainedModel, label: str | None, path: str) -> int:
    """Return the index of a classifier's output by its label.

    Args:
        model: the classifier.
        label: the name in its ``id2label``; None for a single output.
        path: the classifier's path, for messages.

    Raises:
        ConfigError: the classifier has no such label, or several outputs and ``label`` is None.
    """
    known = list(dict(model.config.id2label).values())
    if label is None and len(known) > 1:
        raise ConfigError(
            f"Learned: label is null, but the model in '{path}' has {len(known)} outputs: name one "
            f"of {', '.join(known)}"
        )
    if label is not None and label not in known:
        raise ConfigError(f"Learned: label is {label!r}{nearest(label, known)}")
    return 0 if label is None else known.index(label)


def classify(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]
) -> Tensor:
    """Compute the raw outputs of a classifier at the last token of each of ``N`` texts.

    Changes the model's ``pad_token_id`` to the tokenizer's.

    Returns:
        Shape ``[N, K]``, float32, on the model's device.

    Raises:
        DataError: a text has no token, more tokens than the model's context, or a character that
            the tokenizer cannot write.
    """
    ids = encode_all(tokenizer, texts)
    width, limit = max(map(len, ids)), context_limit(model.config)
    if limit is not None and width > limit:
        raise DataError(f"a text has {width} tokens, but the reward model holds {limit}")
    if not all(ids):
        raise DataError(f"text {[bool(row) for row in ids].index(False)} has no token to read")
    # The model reads the last token that is not padding, by the pad id in its config.
    pad = tokenizer.pad_token_id
    model.config.get_text_config().pad_token_id = pad
    tokens = torch.tensor([[*row, *[pad] * (width - len(row))] for row in ids])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids])
    device = model.device
    logits: Tensor = model(input_ids=tokens.to(device), attention_mask=mask.to(device)).logits
    return logits.float()


def train_classifier(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    labels: Tensor,
    *,
    epochs: int = 3,
    batch_size: int = 16,
    lr: float = 1e-4,
    seed: int = 0,
) -> list[float]:
    """Fit a sequence classifier to labels (mean binary cross-entropy of the known labels).

    Args:
        model: classifier with ``K`` outputs; trained in place, left in eval mode without gradients.
        tokenizer: must have a pad token.
        texts: ``N`` texts.
        labels: 1, 0, or NaN where unknown, shape ``[N, K]``.
        epochs: passes over the texts.
        batch_size: number of texts per step.
        lr: learning rate of AdamW.
        seed: seed of the order of the texts.

    Returns:
        The mean loss of each epoch, in nats per known label.

    Raises:
        ShapeError: ``labels`` is not ``[N, K]``.
        DataError: as :func:`classify`.
    """
    if labels.shape != (len(texts), model.num_labels):
        raise ShapeError(
            f"labels has shape {list(labels.shape)}, but there are {len(texts)} texts and "
            f"{model.num_labels} outputs"
        )
    model.train().requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    generator = torch.Generator().manual_seed(named_seed(seed, "train_classifier"))
    history = []
    for _ in range(epochs):
        order = torch.randperm(len(texts), generator=generator).tolist()
        batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        losses = [
            _step(model, tokenizer, optimizer, [texts[row] for row in rows], labels[rows])
            for rows in batches
        ]
        known = [int((~labels[rows].isnan()).sum()) for rows in batches]
        total = sum(loss * count for loss, count in zip(losses, known, strict=True))
        history.append(total / max(sum(known), 1))
    model.eval().requires_grad_(False)
    return history


def _step(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    optimizer: torch.optim.Optimizer,
    texts: list[str],
    labels: Tensor,
) -> float:
    """Take a step of the optimiser; return the loss before the step."""
    with torch.enable_grad():
        logits = classify(model, tokenizer, texts)
        loss = multi_label_loss(logits, labels.to(logits))
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
    return float(loss.detach())
