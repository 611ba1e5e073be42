"""Examples from a Hugging Face data set."""

from __future__ import annotations

from rlcomp.arguments import Checked, Fraction, NonEmptyText
from rlcomp.data.records import Fields, hub_rows
from rlcomp.interfaces.task import Example


class Hub(metaclass=Checked):
    r"""The rows of one split of a data set, from the hub or from a local folder or file.

    Args:
        name: the data set's name on the hub, or the path of a folder or file.
        subset: which of its configurations, such as ``main``; null: the only one.
        split: such as ``train``; a local file is read whole, whatever the split.
        prompt_field: column of the question.
        answer_field: column of the gold answer.
        demonstration_field: column of the response to imitate; null: the answer itself.
        answer_pattern: regular expression whose group 1 is the answer inside its column, such as
            ``####\s*(.+?)\s*$``; null: the whole column.
        prompt_template: the prompt's wording, ``{prompt}`` and any ``{column}`` filled in.
        held_out: share of the prompts, as worded, that only evaluators see.

    Raises:
        ConfigError: the pattern or the template cannot be used.
        DataError: there is no such data set or split, or a row does not fit; names the row.
        MissingExtra: ``datasets`` is not installed.
    """

    def __init__(
        self,
        *,
        name: NonEmptyText,
        subset: NonEmptyText | None = None,
        split: NonEmptyText = "train",
        prompt_field: NonEmptyText = "question",
        answer_field: NonEmptyText = "answer",
        demonstration_field: NonEmptyText | None = None,
        answer_pattern: NonEmptyText | None = None,
        prompt_template: NonEmptyText = "{prompt}",
        held_out: Fraction = 0.1,
    ) -> None:
        self.name = name
        self.subset = subset
        self.split = split
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
        self.texts = fields.texts(hub_rows(name, subset, split, fields.columns))

    def __len__(self) -> int:
        """How many examples there are, training and held out."""
        return len(self.texts)

    def example(self, index: int) -> Example:
        """The example of one row."""
        return Example(*self.texts[index])
