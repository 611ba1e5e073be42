"""Rows of pairs of answers: chosen and rejected, with weight and label noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.columns import CONVERSATION, DESIRABLE
from rlcomp.data.comparisons import LARGEST_NUMBER
from rlcomp.data.examples import prompt_batch
from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import Demonstration, PromptFormat, Response
from rlcomp.interfaces.task import Example
from rlcomp.text.rows import demonstration_rows

# Column of a single answer: its score.
RATING = "rating"
# Columns of an example that is a pair; its demonstration is the chosen answer.
REJECTED, WEIGHT, NOISE, MARGIN, ANNOTATOR, STEP, TIE = (
    "rejected",
    "weight",
    "label_noise",
    "margin",
    "annotator",
    "step",
    "tie",
)


def pair_rows(
    tokenizer: PreTrainedTokenizerBase, prompt: PromptFormat, examples: Sequence[Example]
) -> TensorDict:
    """Return rows of pairs: row 2k is the chosen answer of example k, row 2k + 1 the rejected one.

    Args:
        tokenizer: tokenizer of the policy.
        prompt: encodes the examples as tokens.
        examples: each with a column ``rejected``, a text, or messages for a conversation. If the
            column ``step`` is true, both answers are steps of a longer one and have no EOS.

    Returns:
        Of ``U`` examples: ``tokens``, ``attention_mask``, ``response_mask`` ``[2U, T]``,
        ``chosen``, ``group_id`` ``[2U]`` (examples with the same held-out key, usually the prompt,
        share one), and the prompt's keys (:func:`rlcomp.data.examples.prompt_batch`).

    Raises:
        DataError: an example has no rejected answer.
    """
    rows = demonstration_rows(tokenizer, pair_demonstrations(prompt, examples))
    pair_index = torch.arange(len(examples)).repeat_interleave(2)
    ids: dict[str, int] = {}
    groups = [ids.setdefault(example.held_out_by, len(ids)) for example in examples]
    rows["chosen"] = torch.arange(len(pair_index)) % 2 == 0
    rows["group_id"] = torch.tensor(groups)[pair_index]
    return rows.update(prompt_batch([*examples])[pair_index])


def pair_demonstrations(prompt: PromptFormat, examples: Iterable[Example]) -> list[Demonstration]:
    """Return the rows of pairs: of each example the chosen answer, then the rejected one.

    The answers of an example with a true column ``step`` lose their last token, which ends them.

    Raises:
        DataError: an example has no rejected answer.
    """
    examples = list(examples)
    sides = [side for example in examples for side in _answers_of_pair(example)]
    texts = [example.prompt for example in examples for _ in range(2)]
    responses, columns = zip(*sides, strict=True)
    rows = prompt.demonstrations(texts, responses, columns)
    open_ended = [bool(example.columns.get(STEP)) for example in examples for _ in range(2)]
    return [
        Demonstration(row.ids[:-1], row.trained[:-1]) if step else row
        for row, step in zip(rows, open_ended, strict=True)
    ]


def _answers_of_pair(example: Example) -> list[tuple[Response, Mapping[str, object]]]:
    """Return the chosen and the rejected answer, each with the columns of its example."""
    rejected, conversation = example.columns.get(REJECTED), example.columns.get(CONVERSATION)
    chosen: Response = example.turns or example.demonstration
    if isinstance(conversation, Mapping) and isinstance(rejected, (str, list)):
        messages = rejected
        if isinstance(rejected, str):
            messages = [{"role": "assistant", "content": rejected}]
        # The prompt format takes the answer from the conversation, not from the text.
        columns = {**example.columns, CONVERSATION: {**conversation, "completion": messages}}
        return [(chosen, example.columns), ("", columns)]
    if not isinstance(rejected, str):
        raise DataError(
            f"the example {example.prompt[:60]!r} has {rejected!r:.60} as its rejected answer, not "
            "a text: pairs need a column 'rejected'; use task=preferences task.path=FILE or "
            "task=sorting_pairs"
        )
    return [(chosen, example.columns), (rejected, example.columns)]


def desirable(examples: Sequence[Example]) -> Tensor:
    """Return whether each answer is a good one, the column ``desirable``; shape ``[B]``, bool.

    Raises:
        DataError: an example has no such column of true or false.
    """
    for example in examples:
        if not isinstance(example.columns.get(DESIRABLE), bool):
            raise DataError(
                f"the example {example.prompt[:60]!r} has desirable "
                f"{example.columns.get(DESIRABLE)!r:.60}: must be true or false; a file has "
                "'completion' and 'label' (task=preferences), pairs need sampler@pairs=pairs"
            )
    return torch.tensor([bool(example.columns[DESIRABLE]) for example in examples])


def ratings(examples: Sequence[Example]) -> Tensor:
    """Return the column ``rating`` of each answer, else ``desirable`` as 1 or 0; shape ``[B]``.

    Raises:
        DataError: an example has neither a finite number nor true or false.
    """
    values = []
    for example in examples:
        value = example.columns.get(RATING, example.columns.get(DESIRABLE))
        if not isinstance(value, (int, float)) or not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
            raise DataError(
                f"the example {example.prompt[:60]!r} has the rating {value!r:.60}: must be a "
                "finite number; a file has 'completion' and 'rating' or 'label', or 'responses' "
                "and 'ratings' with task.ratings=each"
            )
        values.append(float(value))
    return torch.tensor(values)


def pair_weights(examples: Sequence[Example], by_annotator: Mapping[str, float]) -> Tensor | None:
    """Return the weight of each pair: its column ``weight`` times its annotator's; shape ``[U]``.

    None if no example has a weight and no annotator has one.

    Raises:
        DataError: a weight is no finite number of at least 0, or an annotator is not known.
    """
    values = [example.columns.get(WEIGHT) for example in examples]
    if not by_annotator and all(weight is None for weight in values):
        return None
    weights = []
    for example, weight in zip(examples, values, strict=True):
        value = _number(example, WEIGHT, weight, 1.0, math.inf)
        weights.append(value * _annotator_value(example, by_annotator, 1.0))
    return torch.tensor(weights)


def pair_margins(examples: Sequence[Example]) -> Tensor | None:
    """Return the column ``margin``: the wanted lead of the chosen answer; shape ``[U]``.

    An example without a margin has 0; None if no example has one.

    Raises:
        DataError: a margin is no finite number of at least 0.
    """
    values = [example.columns.get(MARGIN) for example in examples]
    if all(margin is None for margin in values):
        return None
    pairs = zip(examples, values, strict=True)
    return torch.tensor([_number(pair, MARGIN, margin, 0.0, math.inf) for pair, margin in pairs])


def tied_pairs(examples: Sequence[Example]) -> Tensor | None:
    """Return whether each pair is a tie, by the column ``tie``; shape ``[U]``, bool.

    None if no example is a tie.
    """
    values = [example.columns.get(TIE) is True for example in examples]
    return torch.tensor(values) if any(values) else None


def label_noise(examples: Sequence[Example], by_annotator: Mapping[str, float]) -> Tensor | None:
    """Return the probability that each label is wrong: the column, else the annotator's; ``[U]``.

    None if no example has a label noise and no annotator is known.

    Raises:
        DataError: a value is no probability, or an annotator is not known.
    """
    values = [example.columns.get(NOISE) for example in examples]
    if not by_annotator and all(noise is None for noise in values):
        return None
    probabilities = []
    for example, noise in zip(examples, values, strict=True):
        default = 0.0 if noise is not None else _annotator_value(example, by_annotator, 0.0)
        probabilities.append(_number(example, NOISE, noise, default, 1.0))
    return torch.tensor(probabilities)


def _annotator_value(example: Example, known: Mapping[str, float], default: float) -> float:
    if not known:
        return default
    name = example.columns.get(ANNOTATOR)
    if name not in known:
        raise DataError(
            f"the example {example.prompt[:60]!r} has the annotator {name!r:.60}, known are "
            f"{', '.join(map(repr, known))}: name it in the sampler's settings, or give the row a "
            f"column {ANNOTATOR!r}"
        )
    return known[str(name)]


def _number(example: Example, name: str, value: object, default: float, highest: float) -> float:
    if value is None:
        return default
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # Compare before converting: an int may be larger than any float.
    if not is_number or not 0 <= value <= min(highest, LARGEST_NUMBER):  # type: ignore[operator]
        bounds = "from 0 to 1" if highest == 1 else "of at least 0"
        raise DataError(
            f"the example {example.prompt[:60]!r} has {name} {value!r:.60}: must be a finite "
            f"number {bounds}"
        )
    return float(value)  # type: ignore[arg-type]
