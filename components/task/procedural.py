"""Procedural tasks: each example comes from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcomp.arguments import Checked, Fraction, NonEmptyText, NonNegativeInt, PositiveInt
from rlcomp.data.template import field_names
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.verify.reasoning_gym import puzzles


class SeedTask(metaclass=Checked):
    r"""Task whose examples have the same prompt and, in the column ``seed``, their index as a seed.

    All episodes of an example have the same world, so that a group baseline compares actions in the
    same world.

    Args:
        prompt: text before the environment's first observation.
        examples: number of examples.
        held_out: share of the seeds that only evaluators see.

    Examples:
        >>> SeedTask().example(3).columns
        {'seed': 3}
    """

    def __init__(
        self,
        *,
        prompt: NonEmptyText = "Play.\n",
        examples: PositiveInt = 1_000,
        held_out: Fraction = 0.1,
    ) -> None:
        self.prompt = prompt
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return the example of an index."""
        return Example(self.prompt, "", "", source=str(index), columns={"seed": index})


class ReasoningGymTask(metaclass=Checked):
    """Task of a procedural data set of reasoning-gym, for ``reward=reasoning_gym``.

    Each puzzle is made from the seed and its index. The column ``reasoning_gym`` identifies it, so
    that its checker can make it again. Some puzzles have many right answers. Some have no recorded
    answer and an empty demonstration.

    Args:
        name: name of the data set, such as ``leg_counting``.
        settings: reasoning-gym's settings of the data set, such as its difficulty.
        seed: seed of the puzzles.
        size: number of puzzles.
        prompt_template: the prompt's wording, with ``{question}``.
        held_out: share of the prompts that only evaluators see.

    Raises:
        ConfigError: there is no such data set, it has no such settings, its checker accepts wrong
            answers, or the template has no ``{question}`` or another field.
        MissingExtra: reasoning-gym is not installed (extra ``gym``).

    Source:
        Stojanovski et al. 2025 (Reasoning Gym), arXiv:2505.24760.
    """

    def __init__(
        self,
        *,
        name: NonEmptyText,
        settings: Mapping[str, Any] | None = None,
        seed: NonNegativeInt = 0,
        size: PositiveInt = 1_000,
        prompt_template: NonEmptyText = "{question}\n",
        held_out: Fraction = 0.1,
    ) -> None:
        fields = field_names("prompt_template", prompt_template, "{question}")
        if fields != {"question"}:
            raise ConfigError(f"prompt_template {prompt_template!r}: must have {{question}} alone")
        options = dict(settings or {})
        self.puzzle = {"name": name, "settings": options, "seed": seed, "size": size}
        self.prompt_template = prompt_template
        self.held_out = held_out
        self._puzzles = puzzles(name, options, seed, size)

    def __len__(self) -> int:
        """Return the number of puzzles, training and held out."""
        return len(self._puzzles)

    def example(self, index: int) -> Example:
        """Return the puzzle of the index."""
        puzzle = self._puzzles[index]
        answer = "" if puzzle["answer"] is None else str(puzzle["answer"])
        prompt = self.prompt_template.format(question=puzzle["question"])
        columns = {"reasoning_gym": {**self.puzzle, "index": index}}
        return Example(prompt, answer, answer, columns=columns)
