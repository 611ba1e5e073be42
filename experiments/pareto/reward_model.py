"""A reward model that has learnt to like brackets: ``reward_model.py FOLDER [TEXTS] [EPOCHS]``.

It learns from labels. A fifth of the labels are unknown (NaN).
"""

import argparse
import random

import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from components.worlds.sorting.task import Sorting
from rlcomp import character_tokenizer
from rlcomp.model.text_classifier import classify, train_classifier


def labelled(count, draw):
    """Prompts with answers of all kinds, and whether brackets stand around them."""
    task, texts, labels = Sorting(length=6, shortest=1), [], []
    for _ in range(count):
        example = task.example(draw.randrange(len(task)))
        digits = example.answer[: draw.randint(0, len(example.answer))]
        text = draw.choice([digits, f"({digits})", f"({digits}", f"{digits})"])
        texts.append(example.prompt + text)
        labels.append([float(text[:1] == "(" and text[-1:] == ")")])
    return texts, torch.tensor(labels)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("texts", type=int, nargs="?", default=2048)
    parser.add_argument("epochs", type=int, nargs="?", default=10)
    given, draw = parser.parse_args(), random.Random(0)
    torch.manual_seed(0)
    # All that the policy can write: what its judge cannot read would stop a run.
    tokenizer = character_tokenizer(characters="0123456789+-*/=()>: ,?")
    shape = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
    model = LlamaForSequenceClassification(
        LlamaConfig(
            vocab_size=len(tokenizer), num_labels=1, pad_token_id=tokenizer.pad_token_id, **shape
        )
    )
    texts, labels = labelled(given.texts, draw)
    labels[torch.rand(len(labels)) < 0.2] = torch.nan
    losses = train_classifier(model, tokenizer, texts, labels, epochs=given.epochs, lr=2e-3)
    model.save_pretrained(given.folder)
    tokenizer.save_pretrained(given.folder)
    texts, labels = labelled(512, draw)
    right = ((classify(model, tokenizer, texts) > 0) == labels.bool()).float().mean()
    print(f"nats per label {losses[0]:.3f} -> {losses[-1]:.3f}, right on new texts {right:.3f}")
