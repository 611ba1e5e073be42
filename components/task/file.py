"""Examples from a file."""

from __future__ import annotations

from rlcomp.arguments import Checked, Fraction, NonEmptyText
from rlcomp.data.records import Fields, read_rows
from rlcomp.interfaces.task import Example


class File(metaclass=Checked):
    r"""The rows of a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file, validated on construction.

    Args:
        path: the file.
        prompt_field: column of the question.
        answer_field: column of the gold answer.
        demonstration_field: column of the response to imitate; null: the answer itself.
        answer_pattern: regular expression whose group 1 is the answer inside its column, such as
            ``####\s*(.+?)\s*$``; null: the whole column.
        prompt_template: the prompt's wording, ``{prompt}`` and any ``{column}`` filled in.
        held_out: share of the prompts, as worded, that only evaluators see.

    Raises:
        ConfigError: the pattern or the template cannot be used.
        DataError: the file is missing, empty or malformed; names file and line.
    """

    def __init__(
        self,
        *,
        path: NonEmptyText,
        prompt_field: NonEmptyText = "question",
        answer_field: NonEmptyText = "answer",
        demonstration_field: NonEmptyText | None = None,
        answer_pattern: NonEmptyText | None = None,
        prompt_template: NonEmptyText = "{prompt}",
        held_out: Fraction = 0.1,
    ) -> None:
        self.path = path
        self.prompt_field = prompt_field
        self.answer_field = answer_field
        self.demonstration_field = demonstration_field
        self.answer_pattern = answer_pattern
        self.prompt_template = prompt_template
        self.held_out = held_out
        fields = Fields(
            prompt_field=prompt_field,
            answer_field=answer_field,
            demonstration_field=demonstration_field,
            answer_pattern=answer_pattern,
            prompt_template=prompt_template,
        )
        self.texts = fields.texts(read_rows(path, fields.columns))

    def __len__(self) -> int:
        """How many examples there are, training and held out."""
        return len(self.texts)

    def example(self, index: int) -> Example:
        """The example of one row."""
        return Example(*self.texts[index])
