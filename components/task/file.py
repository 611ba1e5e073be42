"""Examples from a file or a Hugging Face data set."""

from __future__ import annotations

from itertools import chain

from rlcomp.arguments import Fraction, NonEmptyText
from rlcomp.data.column_mapping import Fields, RecordTask
from rlcomp.data.records import hub_rows, read_rows


class FileTask(RecordTask):
    r"""Task of the rows of a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file.

    The file is validated on construction. All columns but those of prompt, answer and demonstration
    become columns of the example, for rewards (``reward=function``): JSON without NaN, each value
    at most 1 MiB long, with at most 64 levels of nesting.

    Args:
        path: a file, a glob pattern (``shards/*.jsonl``), or a list of these.
        prompt_field: column of the question.
        answer_field: column of the gold answer.
        demonstration_field: column of the response to imitate; null: the answer itself.
        answer_pattern: regular expression whose group 1 is the answer inside its column, such as
            ``####\s*(.+?)\s*$``; null: the whole column.
        prompt_template: template of the prompt; may hold ``{prompt}`` and any ``{COLUMN}``.
        held_out: share of the prompts (after the template) that only evaluators see.

    Raises:
        ConfigError: the pattern or the template cannot be used.
        DataError: the file is missing, empty or malformed; the message names file and line.
    """

    def __init__(
        self,
        *,
        path: NonEmptyText | list[NonEmptyText],
        prompt_field: NonEmptyText = "question",
        answer_field: NonEmptyText = "answer",
        demonstration_field: NonEmptyText | None = None,
        answer_pattern: NonEmptyText | None = None,
        prompt_template: NonEmptyText = "{prompt}",
        held_out: Fraction = 0.1,
    ) -> None:
        self.path = path
        fields = Fields(
            prompt_field=prompt_field,
            answer_field=answer_field,
            demonstration_field=demonstration_field,
            answer_pattern=answer_pattern,
            prompt_template=prompt_template,
        )
        files = [path] if isinstance(path, str) else path
        super().__init__(fields, chain.from_iterable(map(read_rows, files)), held_out)


class HubTask(RecordTask):
    r"""Task of the rows of a data set's split, from the hub or from a local folder or file.

    All columns but those of prompt, answer and demonstration become columns of the example, for
    rewards (``reward=function``).

    Args:
        name: the data set's name on the hub, or the path of a folder or file.
        subset: the configuration, such as ``main``; null: the only one.
        split: the split, such as ``train``; a local file is read as a whole.
        prompt_field: column of the question.
        answer_field: column of the gold answer.
        demonstration_field: column of the response to imitate; null: the answer itself.
        answer_pattern: regular expression whose group 1 is the answer inside its column, such as
            ``####\s*(.+?)\s*$``; null: the whole column.
        prompt_template: template of the prompt; may hold ``{prompt}`` and any ``{COLUMN}``.
        held_out: share of the prompts (after the template) that only evaluators see.

    Raises:
        ConfigError: the pattern or the template cannot be used.
        DataError: there is no such data set or split, or a row does not fit; the message names the
            row.
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
        fields = Fields(
            prompt_field=prompt_field,
            answer_field=answer_field,
            demonstration_field=demonstration_field,
            answer_pattern=answer_pattern,
            prompt_template=prompt_template,
        )
        super().__init__(fields, hub_rows(name, subset, split), held_out)
