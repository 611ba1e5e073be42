"""Examples, tasks and the held-out split."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from rlcomp.seed import named_seed


@dataclass(frozen=True)
class Example:
    """One question with its gold answer.

    Attributes:
        prompt: text the policy continues.
        answer: what a verifier compares with.
        demonstration: a full response to imitate (without EOS); often the answer itself.
        answer_ends: after how many bytes (UTF-8) of the answer a part of it ends that counts as an
            answer by itself; None: the whole answer only.
        source: what is held out or not as a whole, such as the text that prompts are cut from; by
            default the prompt.
    """

    prompt: str
    answer: str
    demonstration: str
    answer_ends: tuple[int, ...] | None = None
    source: str | None = None

    @property
    def held_out_by(self) -> str:
        """The key of the held-out split: the source, or the prompt where there is none."""
        return self.prompt if self.source is None else self.source

    def is_held_out(self, fraction: float) -> bool:
        """Whether it belongs to the held-out part, which only evaluators use."""
        return is_held_out(self.held_out_by, fraction)


def document_example(text: str) -> Example:
    """A document as an SFT example: the prompt is its first word, the demonstration the rest.

    A model that predicts its next tokens reads it as prompts are read that are cut from it: without
    what stands for an empty prompt in front.

    Examples:
        >>> example = document_example("to be or not")
        >>> example.prompt, example.demonstration, example.answer
        ('to', ' be or not', 'to be or not')
    """
    first = re.match(r"\s*\S+", text)
    prompt = first[0] if first and first.end() < len(text) else text[:1]
    return Example(prompt, text, text[len(prompt) :], source=text)


class Task(Protocol):
    """A task: a fixed, indexable set of examples with a held-out part."""

    held_out: float

    def __len__(self) -> int:
        """How many examples there are, training and held out."""
        ...

    def example(self, index: int) -> Example:
        """The example at an index in ``range(len(self))``; always the same one."""
        ...


def is_held_out(prompt: str, fraction: float) -> bool:
    """Train/held-out split by the hash of the prompt, independent of the order.

    Examples:
        >>> sum(is_held_out(str(n), 0.1) for n in range(10_000))
        1018
    """
    digest = hashlib.sha256(prompt.encode()).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2.0**64


def permutation(length: int, seed: int, name: str) -> Iterator[int]:
    """A pseudo-random permutation of ``range(length)``, fixed by (seed, name).

    A Feistel network with cycle walking: nothing of size ``length`` is held, so a task of a million
    procedural examples costs what one of ten does.

    Examples:
        >>> sorted(permutation(10, 0, "epoch 0")) == list(range(10))
        True
    """
    half = max((length - 1).bit_length() + 1, 2) // 2
    keys = [named_seed(seed, f"{name}/{turn}") for turn in range(4)]
    for start in range(length):
        index = _feistel(start, half, keys)
        while index >= length:
            index = _feistel(index, half, keys)
        yield index


def _feistel(index: int, half: int, keys: list[int]) -> int:
    low = (1 << half) - 1
    left, right = index >> half, index & low
    for key in keys:
        mixed = (right * 0x9E3779B97F4A7C15 + key) & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 29
        mixed = (mixed * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        left, right = right, left ^ ((mixed >> 32) & low)
    return (left << half) | right
