"""Example and task: what every task gives and every sampler, reward and evaluator is given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Example:
    """One question with its gold answer.

    Attributes:
        prompt: text the policy continues.
        answer: what a verifier compares with.
        demonstration: a full response to imitate (without EOS); often the answer itself.
        turns: the same in pieces, where an environment takes part: what the policy says and what
            is said to it take turns, the policy first. Empty: the policy says all of it.
        answer_ends: after how many bytes (UTF-8) of the answer a part of it ends that counts as an
            answer by itself; None: the whole answer only.
        source: what is held out or not as a whole, such as the text that prompts are cut from; by
            default the prompt.
        columns: what else rewards and readers are told, by name: unit tests, a rejected answer, a
            rubric; values that JSON can hold, at most 1 MiB long and 64 deep each, no NaN or
            infinity (:func:`rlcomp.columns.column_text`). None is as good as missing.
    """

    prompt: str
    answer: str
    demonstration: str
    answer_ends: tuple[int, ...] | None = None
    source: str | None = None
    columns: Mapping[str, object] = field(default_factory=dict, hash=False)
    turns: tuple[str, ...] = ()

    @property
    def held_out_by(self) -> str:
        """The key of the held-out split: the source, or the prompt where there is none."""
        return self.prompt if self.source is None else self.source

    def is_held_out(self, fraction: float) -> bool:
        """Whether it belongs to the held-out part, which only evaluators use."""
        return is_held_out(self.held_out_by, fraction)


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
