"""Examples of a task as plain text, every token of which is to be foretold."""

from __future__ import annotations

from rlcomp.arguments import Checked
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example, Task


class Documents(metaclass=Checked):
    """Documents: prompt and demonstration of a task's example as one text (next-token prediction).

    The first character is the prompt, and the rest is the demonstration, so that nothing tells a
    question from an answer. A document is held out where the example is.

    Args:
        task: whose examples; of one without a demonstration the answer is taken.

    Raises:
        DataError: when called: prompt and demonstration together have less than two characters.

    Examples:
        >>> from components.worlds.addition.task import Addition
        >>> example = Documents(task=Addition(digits=1)).example(34)
        >>> example.prompt, example.demonstration, example.source
        ('3', '+4=7', '3+4=')
    """

    def __init__(self, *, task: Task) -> None:
        self.task = task
        self.held_out = task.held_out

    def __len__(self) -> int:
        """How many examples there are, training and held out."""
        return len(self.task)

    def example(self, index: int) -> Example:
        """The example of an index as a document."""
        example = self.task.example(index)
        text = example.prompt + (example.demonstration or example.answer)
        if len(text) < 2:
            raise DataError(
                f"Documents: example {index} has the text {text!r}: nothing to foretell"
            )
        return Example(text[0], text, text[1:], source=example.source or example.prompt)
