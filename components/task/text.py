"""Plain text."""

from __future__ import annotations

import re
from pathlib import Path

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt
from rlcomp.data.corpus import Document, corpus_files, read_documents
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example, Task


class TextTask(metaclass=Checked):
    r"""Task of the documents of a text file, or of all text files below a folder.

    SFT on the demonstrations is pre-training on the text: the prompt is the first word (the first
    character of a text of one word), the demonstration the rest. The answer is the whole document.
    Other tasks use it as their corpus.

    Args:
        path: a ``.txt``, ``.txt.gz``, ``.jsonl`` or ``.jsonl.gz`` file, or a folder; null: the
            170 kB of Shakespeare that come with this module.
        field: the column of a JSON Lines row that holds its text.
        separator: text between two documents of a file, such as ``"\n\n"``; null: a file (in JSON
            Lines, a row) is a document.
        longest: maximum number of bytes of a document; a longer one is cut into several documents,
            at line ends or spaces if possible, and never inside a character.
        shortest: least bytes of a document; shorter ones are left out.
        held_out: share of the documents that only evaluators see.

    Raises:
        ConfigError: ``longest`` is below ``shortest``, or below 4, the bytes of a character.
        DataError: a file is missing, malformed or not UTF-8, or there are no documents, or more
            than 1 GiB of text.

    Examples:
        >>> TextTask().document(0).text[:16]
        'SAMPSON:\nGregory'
    """

    def __init__(
        self,
        *,
        path: NonEmptyText | None = None,
        field: NonEmptyText = "text",
        separator: NonEmptyText | None = None,
        longest: PositiveInt = 512,
        shortest: PositiveInt = 64,
        held_out: Fraction = 0.1,
    ) -> None:
        if longest < max(shortest, 4):
            raise ConfigError(
                f"TextTask: longest is {longest}: must be at least shortest, {shortest}, and at "
                "least 4, the bytes of one character"
            )
        self.path = path
        self.field = field
        self.separator = separator
        self.longest = longest
        self.shortest = shortest
        self.held_out = held_out
        corpus = Path(__file__).with_name("texts") if path is None else Path(path)
        self.input_files = [] if path is None else corpus_files(corpus)
        self.documents = read_documents(
            corpus,
            field=field,
            separator=separator,
            longest=longest,
            shortest=shortest,
        )

    def __len__(self) -> int:
        """Return the number of documents, training and held out."""
        return len(self.documents)

    def document(self, index: int) -> Document:
        """Return a document with its file and its place there."""
        return self.documents[index]

    def example(self, index: int) -> Example:
        r"""Return a document as an example: first word -> rest; the split hashes the whole text.

        The prompt is not empty, because an empty prompt would be read as BOS or EOS, a token that a
        prompt cut from the document does not have (:func:`rlcomp.text.tokenizer.encode_prompts`).

        Examples:
            >>> example = TextTask().example(0)
            >>> example.prompt, example.demonstration[:8]
            ('SAMPSON:', '\nGregory')
        """
        text = self.documents[index].text
        first = re.match(r"\s*\S+", text)
        prompt = first[0] if first and first.end() < len(text) else text[:1]
        return Example(prompt, text, text[len(prompt) :], source=text)


class DocumentTask(metaclass=Checked):
    """Task of documents: prompt and demonstration of another task's example as one text.

    For next-token prediction the first character is the prompt and the rest the demonstration, so
    that question and answer are not distinguished. A document is held out if the example is.

    Args:
        task: the other task; the answer replaces a missing demonstration.

    Raises:
        DataError: (when called) prompt and demonstration together have less than two characters.

    Examples:
        >>> from components.worlds.addition.task import Addition
        >>> example = DocumentTask(task=Addition(digits=1)).example(34)
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
                f"DocumentTask: example {index} has the text {text!r}: nothing to predict"
            )
        return Example(text[0], text, text[1:], source=example.source or example.prompt)
