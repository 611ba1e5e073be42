"""Example and task: the data of every sampler, reward and evaluator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Example:
    """One question with its gold answer.

    Attributes:
        prompt: text that the policy continues.
        answer: gold answer, for verifiers.
        demonstration: whole response to imitate, without EOS; often the answer itself.
        turns: the demonstration as alternate turns of policy and environment, the policy first.
            Empty: one turn of the policy.
        answer_ends: ends, in UTF-8 bytes, of the parts of the answer that count as an answer by
            themselves; None: the whole answer only.
        source: unit of the held-out split, such as the text that prompts are cut from; by default
            the prompt.
        columns: further data for rewards and readers, by name: unit tests, a rejected answer, a
            rubric; JSON values, at most 1 MiB long and 64 deep each, no NaN or infinity
            (:func:`rlcomp.columns.column_text`). None counts as missing.
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
        """Return the key of the held-out split: the source, or else the prompt."""
        return self.prompt if self.source is None else self.source

    def is_held_out(self, fraction: float) -> bool:
        """Test if the example belongs to the held-out part, which only evaluators use."""
        return is_held_out(self.held_out_by, fraction)


class Task(Protocol):
    """A task: a fixed, indexable set of examples with a held-out part.

    Attributes:
        held_out: share of the keys (:attr:`Example.held_out_by`) in the held-out part, 0 to 1.
    """

    held_out: float

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        ...

    def example(self, index: int) -> Example:
        """Return the example at an index in ``range(len(self))``; always the same one."""
        ...


def is_held_out(prompt: str, fraction: float) -> bool:
    """Return True if the hash of a prompt, or of another key, puts it into the held-out part.

    The split depends on neither the order nor the number of the examples.

    Args:
        prompt: the key of the split: an example's source, or else its prompt.
        fraction: expected share of the held-out part, 0 to 1.

    Examples:
        >>> sum(is_held_out(str(n), 0.1) for n in range(10_000))
        1018
    """
    digest = hashlib.sha256(prompt.encode()).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2.0**64
