"""Hinted task: prompts with their answer in front, for some of the examples."""

from __future__ import annotations

from dataclasses import replace

from rlcomp.arguments import Checked, NonEmptyText, Probability
from rlcomp.interfaces.task import Example, Task, is_held_out


class Hinted(metaclass=Checked):
    """Task whose prompts hold privileged text, such as the solution, in a share of the examples.

    What is held out is held out by the prompt without it. Which examples have it does not depend on
    their order.

    Args:
        task: whose examples they are.
        template: of a hinted prompt: ``{prompt}`` and ``{answer}`` stand for those of the example.
        share: of the examples.

    Examples:
        >>> from components.worlds.sorting.task import Sorting
        >>> task = Hinted(task=Sorting(length=2), template="{answer}={prompt}", share=1.0)
        >>> task.example(42).prompt
        '24=42>'
    """

    def __init__(
        self, *, task: Task, template: NonEmptyText = "{answer}={prompt}", share: Probability = 0.8
    ) -> None:
        self.task = task
        self.template = template
        self.share = share
        self.held_out = task.held_out

    def __len__(self) -> int:
        """How many examples there are, training and held out."""
        return len(self.task)

    def example(self, index: int) -> Example:
        """The example of the task, hinted or not."""
        example = self.task.example(index)
        # Another hash than that of the held-out split, which would hint at none or all of it.
        if not is_held_out(f"hint {example.held_out_by}", self.share):
            return example
        parts = self.template.split("{prompt}")
        prompt = example.prompt.join(part.replace("{answer}", example.answer) for part in parts)
        return replace(example, prompt=prompt, source=example.held_out_by)
