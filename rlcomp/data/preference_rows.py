"""Preferences in a data set's row: pairs, rankings, ratings, votes and single labels.

This module does not import torch, so that a bad file is reported before slow imports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from rlcomp.columns import CONVERSATION, column_text
from rlcomp.data.column_names import prompt_remedy
from rlcomp.data.comparisons import (
    ComparedPair,
    check_labels,
    compared_answers,
    rated_answers,
    rating_of,
)
from rlcomp.data.conversations import conversation_of, replace_surrogates
from rlcomp.data.records import Row
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example

Dialogues = Literal["text", "messages"]
# Examples from several rated or ranked answers: one per pair, one per answer, or one per row.
Ratings = Literal["pairs", "each", "ranking"]
# Column of an example that is a whole ranking: of each answer its text and its columns.
RANKED = "ranked_answers"

# Marks of the turns in the dialogues of Anthropic's HH.
_TURN = re.compile(r"\n\nHuman:|\n\nAssistant:")
_SPEAKERS = {"\n\nHuman:": "user", "\n\nAssistant:": "assistant"}
# Columns that are read here; all others become columns of the example.
_READ_COLUMNS = {
    *("chosen", "rejected", "votes", "responses", "ranking", "ratings"),
    *("completion", "label", "rating"),
    *("output_1", "output_2", "preference", "tools", "tie", "winner"),
    *("response_a", "response_b", "conversation_a", "conversation_b"),
}


def preference_examples(
    row: Row,
    prompt_field: str,
    dialogues: Dialogues,
    *,
    ties: bool = False,
    ratings: Ratings = "pairs",
) -> list[Example]:
    """Return the examples of a row; of a pair, the column ``rejected`` is the worse answer.

    A row has one of these groups of columns:

    - ``chosen``, ``rejected``: texts, messages, or whole dialogues with a common beginning, the
      prompt; with ``votes: [for, against]`` of several annotators, the minority's share is the
      label noise
    - ``responses`` with ``ranking`` (their indices, best first) or ``ratings``: every pair that
      differs, each with weight 1 / pairs of the row
    - ``output_1``, ``output_2`` and ``preference`` from 1 to 2 (AlpacaEval)
    - ``response_a``, ``response_b`` (or ``conversation_a``, ``conversation_b``) and ``winner``:
      ``model_a``, ``model_b`` or ``tie`` (battles of Chatbot Arena)
    - ``completion`` and ``label`` or ``rating``: a single answer with a column ``desirable`` or
      ``rating``

    Args:
        row: a row of the file.
        prompt_field: column of the prompt, a text or messages; without that column, the column
            ``instruction``.
        dialogues: dialogues of HH become a ``text`` that ends in ``Assistant:``, or ``messages``.
        ties: whether to include pairs without a preferred answer (equal ratings, a preference of
            1.5, equal votes, ``winner: tie``, ``tie: true``), with a column ``tie`` and a label
            noise of 1/2.
        ratings: the examples of ``responses`` with ``ratings`` or a ``ranking``: all ``pairs`` that
            differ; ``each`` answer with a ``rating``; or one ``ranking`` of all
            (:func:`answers_of_ranking`).

    Raises:
        DataError: the row has none of these columns, an answer is missing, both answers are the
            same, or a column that describes the label is malformed; the message names file and
            line.
    """
    if "completion" in row.columns and {"label", "rating"} & {*row.columns}:
        check_labels(row)
        return [_labelled_example(row, prompt_field)]
    has_several = "responses" in row.columns and {"ranking", "ratings"} & {*row.columns}
    if ratings != "pairs" and has_several:
        examples = [
            _one_answer_example(row, prompt_field, answer, {"rating": rating})
            for answer, rating in rated_answers(row)
        ]
        return examples if ratings == "each" else [_ranking(row, examples)]
    return [
        _example(row, prompt_field, dialogues, pair) for pair in compared_answers(row, ties=ties)
    ]


def answers_of_ranking(example: Example) -> list[Example]:
    """Return the answers of a ranking, each an example with its ``rating``.

    Raises:
        DataError: the example is not a ranking.
    """
    answers = example.columns.get(RANKED)
    if not isinstance(answers, list):
        raise DataError(
            f"the example {example.prompt[:60]!r} is not a ranking of answers: a file has "
            "'responses' and 'ranking' or 'ratings', with task=preferences task.ratings=ranking"
        )
    return [
        replace(example, answer=text, demonstration=text, columns=columns)
        for text, columns in answers
    ]


def _ranking(row: Row, examples: Sequence[Example]) -> Example:
    """Return one example with all answers; its demonstration is the best one."""
    best = max(examples, key=lambda example: float(str(example.columns["rating"])))
    answers = [[example.demonstration, dict(example.columns)] for example in examples]
    return _check_columns(row, replace(best, columns={**best.columns, RANKED: answers}))


def _labelled_example(row: Row, prompt_field: str) -> Example:
    columns: dict[str, object] = {}
    if "label" in row.columns:
        label = row.columns["label"]
        if not isinstance(label, bool):
            raise DataError(f"{row.place}: column 'label' is {label!r:.60}: must be true or false")
        columns["desirable"] = label
    if "rating" in row.columns:
        columns["rating"] = rating_of(row)
    return _one_answer_example(row, prompt_field, row.columns["completion"], columns)


def _one_answer_example(
    row: Row, prompt_field: str, answer: object, columns: Mapping[str, object]
) -> Example:
    """Return the example of a single answer."""
    conversations = _conversations(row, prompt_field, [answer])
    return _build_example(row, prompt_field, conversations, [answer], columns)


def _example(row: Row, prompt_field: str, dialogues: Dialogues, pair: ComparedPair) -> Example:
    answers = [pair.chosen, pair.rejected]
    if answers[0] == answers[1]:
        raise DataError(f"{row.place}: both answers of the pair are the same: remove the row")
    if all(isinstance(answer, str) and _TURN.match(answer) for answer in answers):
        return _dialogue(row, dialogues, pair)
    conversations = _conversations(row, prompt_field, answers)
    return _build_example(row, prompt_field, conversations, answers, pair.label_columns)


def _conversations(
    row: Row, prompt_field: str, answers: Sequence[object]
) -> list[dict[str, object]]:
    """Return the prompt and each answer as messages; an empty list if all of them are texts."""
    prompt = row.columns.get(_prompt_column(row, prompt_field))
    message_lists = [answer for answer in answers if isinstance(answer, (list, tuple))]
    if not message_lists and not isinstance(prompt, (list, tuple)):
        return []
    if message_lists and len(message_lists) < len(answers):
        raise DataError(
            f"{row.place}: one answer is a text, the other messages: write both in one form"
        )
    common = _common_beginning(message_lists, has_prompt=prompt is not None)
    question = list(prompt) if isinstance(prompt, (list, tuple)) else []
    if isinstance(prompt, str) and not common:
        question = [{"role": "user", "content": prompt}]
    # Some data sets repeat the prompt at the beginning of each answer.
    if common[: len(question)] == question:
        question = []
    messages, start = [*question, *common], len(common)
    return [
        {
            "messages": messages,
            "completion": answer[start:] if isinstance(answer, (list, tuple)) else answer,
        }
        for answer in answers
    ]


def _common_beginning(
    message_lists: Sequence[Sequence[object]], *, has_prompt: bool
) -> list[object]:
    """Return the common beginning of all lists; the last message of a list never belongs to it.

    It is empty for a single list if ``has_prompt``.
    """
    if not message_lists or (len(message_lists) == 1 and has_prompt):
        return []
    common: list[object] = []
    for messages in zip(*(messages[:-1] for messages in message_lists), strict=False):
        if any(message != messages[0] for message in messages):
            break
        common.append(messages[0])
    return common


def _prompt_column(row: Row, prompt_field: str) -> str:
    """Return the column of the prompt: ``prompt_field``, or ``instruction`` if it is missing."""
    has_other = prompt_field not in row.columns and "instruction" in row.columns
    return "instruction" if has_other else prompt_field


def _build_example(
    row: Row,
    prompt_field: str,
    conversations: list[dict[str, object]],
    answers: Sequence[object],
    columns: Mapping[str, object],
) -> Example:
    """Return the example of one answer, or of a pair, the better answer first.

    ``conversations`` hold the prompt and each answer as messages; empty if they are texts.
    """
    prompt_column = _prompt_column(row, prompt_field)
    others = {
        name: value
        for name, value in row.columns.items()
        if name not in {*_READ_COLUMNS, prompt_column, "messages"} and value is not None
    }
    columns = {**others, **columns}
    if not conversations:
        prompt = _text(row, "prompt", row.columns.get(prompt_column))
        if not prompt:
            raise DataError(f"{row.place}: the prompt is empty: remove the row")
        chosen, *rejected = [_text(row, "answer", answer) for answer in answers]
        columns |= {"rejected": rejected[0]} if rejected else {}
        return _check_columns(row, Example(prompt, chosen, chosen, columns=columns))
    tools = {"tools": row.columns["tools"]} if "tools" in row.columns else {}
    checked = []
    for answer_columns in conversations:
        conversation = conversation_of(Row(row.place, {**answer_columns, **tools}), "messages")
        if conversation is None or not conversation.completion:
            raise DataError(f"{row.place}: an answer has no message, or no prompt before it")
        checked.append(conversation)
    first, *others_checked = checked
    columns[CONVERSATION] = first.column()
    columns |= {"rejected": others_checked[0].completion} if others_checked else {}
    example = Example(
        prompt=first.question,
        answer=first.outcome,
        demonstration=first.response,
        source=first.source,
        columns=columns,
    )
    return _check_columns(row, example)


def _dialogue(row: Row, dialogues: Dialogues, pair: ComparedPair) -> Example:
    """Return a pair of HH: the last turns are the answers, the turns before them the prompt."""
    turns = [_turns(str(text)) for text in (pair.chosen, pair.rejected)]
    first, second = (dialogue[:-1] for dialogue in turns)
    last_turns = [dialogue[-1][1] for dialogue in turns]
    if (
        first != second
        or not first
        or {dialogue[-1][0] for dialogue in turns} != {"\n\nAssistant:"}
    ):
        raise DataError(
            f"{row.place}: the dialogues differ before the assistant's last turn, or do not end "
            "with it: pairs have one prompt; remove the row"
        )
    if dialogues == "text":
        question = "".join(f"{who}{text}" for who, text in first) + "\n\nAssistant:"
        text_row = Row(row.place, {**row.columns, "prompt": question})
        return _build_example(text_row, "prompt", [], last_turns, pair.label_columns)
    messages = [{"role": _SPEAKERS[who], "content": text.strip()} for who, text in first]
    conversations: list[dict[str, object]] = [
        {"messages": messages, "completion": text.strip()} for text in last_turns
    ]
    return _build_example(row, "prompt", conversations, last_turns, pair.label_columns)


def _turns(text: str) -> list[tuple[str, str]]:
    marks = list(_TURN.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return [(mark[0], text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]


def _text(row: Row, part: str, value: object) -> str:
    if not isinstance(value, str):
        raise DataError(
            f"{row.place}: the {part} is {value!r:.60}, not a text"
            + (f"; {prompt_remedy(row)}" if part == "prompt" else "")
        )
    return replace_surrogates(value)


def _check_columns(row: Row, example: Example) -> Example:
    for name, value in example.columns.items():
        column_text(row.place, name, value)
    return example
