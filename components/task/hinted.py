"""Hinted task: some prompts with privileged text."""

from __future__ import annotations

from dataclasses import replace

from rlcomp.arguments import Checked, NonEmptyText, Probability
from rlcomp.interfaces.task import Example, Task, is_held_out


class HintedTask(metaclass=Checked):
    """Task with privileged text, such as the solution, in a share of the prompts.

    The prompt without this text decides what is held out. The choice of the hinted examples does
    not depend on their order.

    Args:
        task: the task of the examples.
        template: text of a hinted prompt, with ``{prompt}`` and ``{answer}`` of the example.
        share: share of the hinted examples.

    Examples:
        >>> from components.worlds.sorting.task import Sorting
        >>> task = HintedTask(task=Sorting(length=2), template="{answer}={prompt}", share=1.0)
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
        """Return the number of examples, training and held out."""
        return len(self.task)

    def example(self, index: int) -> Example:
        """Return the example of the task, hinted or not."""
        example = self.task.example(index)
        # The hash of the held-out split would hint at none or all of it, so use another one.
        if not is_held_out(f"hint {example.held_out_by}", self.share):
            return example
        parts = self.template.split("{prompt}")
        prompt = example.prompt.join(part.replace("{answer}", example.answer) for part in parts)
        return replace(example, prompt=prompt, source=example.held_out_by)
