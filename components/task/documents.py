"""Examples of a task as plain text for next-token prediction."""

from __future__ import annotations

from rlcomp.arguments import Checked
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example, Task


class Documents(metaclass=Checked):
    """Task of documents: prompt and demonstration of another task's example as one text.

    For next-token prediction the first character is the prompt and the rest the demonstration, so
    that question and answer are not distinguished. A document is held out if the example is.

    Args:
        task: the other task; the answer replaces a missing demonstration.

    Raises:
        DataError: (when called) prompt and demonstration together have less than two characters.

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
        """Return the number of examples, training and held out."""
        return len(self.task)

    def example(self, index: int) -> Example:
        """Return the example of an index as a document."""
        example = self.task.example(index)
        text = example.prompt + (example.demonstration or example.answer)
        if len(text) < 2:
            raise DataError(
                f"Documents: example {index} has the text {text!r}: nothing to foretell"
            )
        return Example(text[0], text, text[1:], source=example.source or example.prompt)
