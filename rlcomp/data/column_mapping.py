"""Examples from rows: the columns of prompt, answer and demonstration.

This module does not import torch, so that a bad file is reported before slow imports.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal

from rlcomp.arguments import Checked
from rlcomp.columns import CONVERSATION, check_depth, check_length, column_text
from rlcomp.data.column_names import check_columns, no_answer, value_at
from rlcomp.data.conversations import Conversation, conversation_of, replace_surrogates
from rlcomp.data.records import Row
from rlcomp.data.template import field_names
from rlcomp.errors import ConfigError, DataError, RlcompWarning, nearest
from rlcomp.interfaces.task import Example
from rlcomp.verify.pattern import time_limit


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Columns of a row that make an example; all others become columns of the example.

    Attributes:
        prompt_field: column of the question, a text or a list of messages; without that column,
            messages are read from ``messages`` or ``prompt``
            (:func:`rlcomp.data.conversations.conversation_of`).
        answer_field: column of the gold answer; a conversation without that column takes the
            assistant's last message, without its thought.
        demonstration_field: column of the response to imitate; None: the answer, or in a
            conversation its response.
        answer_pattern: regular expression whose group 1 is the answer inside its column.
        prompt_template: wording of the prompt with ``{prompt}`` and any ``{column}``; a list of
            texts is filled in as lines.

    Raises:
        ConfigError: the pattern or the template cannot be used.
    """

    prompt_field: str
    answer_field: str
    demonstration_field: str | None
    answer_pattern: str | None
    prompt_template: str

    def __post_init__(self) -> None:
        if self.answer_pattern is not None:
            _check_pattern(self.answer_pattern)
        _template_names(self.prompt_template)

    def examples(self, rows: Iterable[Row]) -> list[Example]:
        """Return the example of every row.

        Raises:
            ConfigError: the template names a column that a row does not have.
            DataError: a row lacks a column, holds no text there, its answer does not match, or
                another column is not JSON or too large (:func:`rlcomp.columns.column_text`).
        """
        examples, invalid_rows = [], list[str]()
        answers: dict[str, set[str]] = {}
        for row in rows:
            example = self._example(row)
            examples.append(example)
            answers.setdefault(example.held_out_by, set()).add(example.answer)
            values = map(row.columns.get, self._text_columns())
            if any(isinstance(v, str) and re.search("[\ud800-\udfff]", v) for v in values):
                invalid_rows.append(row.place)
        _warn_about_rows(invalid_rows, answers)
        return examples

    def _text_columns(self) -> set[str]:
        """Return the columns that are read as texts."""
        used = {self.prompt_field, self.answer_field, self.demonstration_field or self.answer_field}
        return used | (_template_names(self.prompt_template) - {"prompt"})

    def _example(self, row: Row) -> Example:
        row = self._add_nested_values(row)
        conversation = conversation_of(row, self.prompt_field)
        if conversation is not None:
            return self._conversation_example(row, conversation)
        self._check(row, "prompt_field", "answer_field", "demonstration_field")
        answer = self._extract_answer(row, _text(row, self.answer_field))
        demonstration = answer
        if self.demonstration_field is not None:
            demonstration = _text(row, self.demonstration_field)
        others = self._other_columns(row, (self.prompt_field,))
        return Example(self._prompt(row), answer, demonstration, columns=others)

    def _add_nested_values(self, row: Row) -> Row:
        """Add the values at dotted names to a row: ``reward_model.ground_truth``, as in verl."""
        inner = {
            name: value
            for name in (self.prompt_field, self.answer_field, self.demonstration_field)
            if name and name not in row.columns
            if (value := value_at(row.columns, name)) is not None
        }
        return row._replace(columns={**row.columns, **inner}) if inner else row

    def _check(self, row: Row, *settings: str) -> None:
        check_columns(row, {setting: getattr(self, setting) for setting in settings})

    def _conversation_example(self, row: Row, conversation: Conversation) -> Example:
        """Return the example of a conversation; its prompt is the last message."""
        if self.prompt_template != "{prompt}":
            raise ConfigError(
                f"prompt_template is {self.prompt_template!r}, but {row.place} holds messages in "
                f"{conversation.used[0]!r}: leave it at '{{prompt}}', or word the messages in the "
                "file; prompt.system puts a system message in front"
            )
        self._check(row, "demonstration_field")
        if self.demonstration_field is not None:
            text = _text(row, self.demonstration_field)
            conversation = conversation._replace(
                completion=[{"role": "assistant", "content": text}]
            )
        others = self._other_columns(row, conversation.used)
        others[CONVERSATION] = _json_column(row, CONVERSATION, conversation.column())
        return Example(
            prompt=conversation.question,
            answer=self._extract_answer(row, self._answer(row, conversation)),
            demonstration=conversation.response,
            source=conversation.source,
            columns=others,
        )

    def _answer(self, row: Row, conversation: Conversation) -> str:
        """Return the answer's column; without it, the assistant's last message without thought."""
        if self.answer_field in row.columns:
            return _text(row, self.answer_field)
        if not conversation.completion:
            taken = [*conversation.used, *filter(None, [self.demonstration_field])]
            raise DataError(no_answer(row, self.answer_field, taken))
        return conversation.outcome

    def _other_columns(self, row: Row, prompt_columns: tuple[str, ...]) -> dict[str, object]:
        """Return the columns that are neither prompt, answer nor demonstration."""
        used = (*prompt_columns, self.answer_field, self.demonstration_field)
        return {
            name: _json_column(row, name, value)
            for name, value in row.columns.items()
            if name not in used
        }

    def _extract_answer(self, row: Row, text: str) -> str:
        if self.answer_pattern is None:
            return text
        try:
            with time_limit(self.answer_pattern, text):
                match = re.search(self.answer_pattern, text)
        except ConfigError as error:
            raise ConfigError(f"{row.place}: {error}") from error
        if match is None or match[1] is None:
            raise DataError(
                f"{row.place}: answer_pattern {self.answer_pattern!r} does not match "
                f"{self.answer_field!r}, which ends in {text[-60:]!r}; where that is the whole "
                "answer, set task.answer_pattern=null"
            )
        return match[1]

    def _prompt(self, row: Row) -> str:
        values = {"prompt": _text(row, self.prompt_field)}
        for name in _template_names(self.prompt_template) - {"prompt"}:
            if name not in row.columns:
                raise ConfigError(
                    f"prompt_template names {{{name}}}, but {row.place} has no such column"
                    f"{nearest(name, ['prompt', *row.columns])}"
                )
            values[name] = _lines(row, name)
        return self.prompt_template.format_map(values)


class RecordTask(metaclass=Checked):
    """Task with the rows of a data set as examples, all read on construction.

    Args:
        fields: the columns that make an example.
        rows: the rows, one for each example.
        held_out: share of the prompts (after the template) that only evaluators see.
    """

    def __init__(self, fields: Fields, rows: Iterable[Row], held_out: float) -> None:
        self.fields = fields
        self.held_out = held_out
        self.examples = fields.examples(rows)

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return len(self.examples)

    def example(self, index: int) -> Example:
        """Return the example of one row."""
        return self.examples[index]


def _warn_about_rows(invalid_rows: list[str], answers: Mapping[str, set[str]]) -> None:
    """Warn of replaced characters and of contradicting answers, once for each file."""
    if invalid_rows:
        warnings.warn(
            f"rows with a lone surrogate, read as '?': {len(invalid_rows)} "
            f"(first: {invalid_rows[0]})",
            RlcompWarning,
            stacklevel=4,
        )
    contradicting = [prompt for prompt, golds in answers.items() if len(golds) > 1]
    if contradicting:
        warnings.warn(
            f"prompts with answers that contradict each other: {len(contradicting)} of "
            f"{len(answers)} (first: {contradicting[0]!r:.60}); each row is rewarded by its own",
            RlcompWarning,
            stacklevel=4,
        )


def _check_pattern(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ConfigError(f"answer_pattern {pattern!r} is no regular expression: {error}") from None
    if groups < 1:
        raise ConfigError(
            f"answer_pattern {pattern!r} has no group: put the answer in parentheses, as in "
            r"'####\s*(.+?)\s*$'"
        )


def _template_names(template: str) -> set[str]:
    return field_names("prompt_template", template, "{prompt} and {column}")


def _text(row: Row, column: str) -> str:
    """Return a column that holds a text or a finite number, as a text."""
    value = row.columns[column]
    if isinstance(value, (float, Decimal)) and math.isfinite(value):
        return _positional(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        shown = "empty (null)" if value is None else f"the {type(value).__name__} {value!r:.60}"
        raise DataError(
            f"{row.place}: column {column!r} is {shown}, not a text or a finite number: give the "
            "row one, or take it out"
        )
    check_length(row.place, column, value)
    return replace_surrogates(value)


def _lines(row: Row, column: str) -> str:
    """Return the text of a column; join a list of texts, such as a program's tests, by lines."""
    value = row.columns[column]
    if not isinstance(value, (list, tuple)) or not all(isinstance(line, str) for line in value):
        return _text(row, column)
    return _text(row._replace(columns={column: "\n".join(value)}), column)


def _json_column(row: Row, name: str, value: object) -> object:
    """Convert a column to JSON types; check its depth and its size."""
    check_depth(row.place, name, value)
    converted = json_value(value)
    column_text(row.place, name, converted)
    return converted


def _positional(value: float | Decimal) -> str:
    """Write a number without an exponent or trailing zeros.

    Examples:
        >>> [_positional(value) for value in (72.0, 1e22, 1e-7, 2.50)]
        ['72', '10000000000000000000000', '0.0000001', '2.5']
    """
    text = f"{Decimal(str(value)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def json_value(value: object) -> object:
    """Convert a value to JSON types; bytes and other values without one become None.

    Examples:
        >>> json_value({"on": date(2024, 2, 29), "cost": Decimal("2.5"), "picture": b"..."})
        {'on': '2024-02-29', 'cost': 2.5, 'picture': None}
    """
    if isinstance(value, Mapping):
        return {str(name): json_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(part) for part in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    return value if isinstance(value, (str, int, float)) else None
