"""Pairs of answers as rows: an example's chosen and rejected answer, its weight and label noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.columns import CONVERSATION, DESIRABLE
from rlcomp.data.examples import prompt_batch
from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import Demonstration, Prompt, Response
from rlcomp.interfaces.task import Example
from rlcomp.text.rows import demonstration_rows

# Of a single answer: whether it is good, or how good.
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
    tokenizer: PreTrainedTokenizerBase, prompt: Prompt, examples: Sequence[Example]
) -> TensorDict:
    """Rows of pairs: row 2k is the chosen answer of example k, row 2k + 1 the rejected one.

    Args:
        tokenizer: the policy's.
        prompt: how they become tokens.
        examples: each with a column ``rejected``, a text or, of a conversation, messages as well.
            With a true column ``step`` both answers are steps of a longer one: nothing ends them.

    Returns:
        ``tokens``, ``attention_mask``, ``response_mask`` ``[2U, T]``, ``chosen``, ``group_id``
        ``[2U]`` (equal prompts share one), and the prompt's keys
        (:func:`rlcomp.data.examples.prompt_batch`).

    Raises:
        DataError: an example has no rejected answer.
    """
    rows = demonstration_rows(tokenizer, pair_demonstrations(prompt, examples))
    twice = torch.arange(len(examples)).repeat_interleave(2)
    known: dict[str, int] = {}
    groups = [known.setdefault(example.held_out_by, len(known)) for example in examples]
    rows["chosen"] = torch.arange(len(twice)) % 2 == 0
    rows["group_id"] = torch.tensor(groups)[twice]
    return rows.update(prompt_batch([*examples])[twice])


def pair_demonstrations(prompt: Prompt, examples: Iterable[Example]) -> list[Demonstration]:
    """The rows of pairs, chosen first.

    Raises:
        DataError: an example has no rejected answer.
    """
    examples = list(examples)
    sides = [side for example in examples for side in _sides(example)]
    texts = [example.prompt for example in examples for _ in range(2)]
    responses, columns = zip(*sides, strict=True)
    rows = prompt.demonstrations(texts, responses, columns)
    open_ended = [bool(example.columns.get(STEP)) for example in examples for _ in range(2)]
    return [
        Demonstration(row.ids[:-1], row.trained[:-1]) if step else row
        for row, step in zip(rows, open_ended, strict=True)
    ]


def _sides(example: Example) -> list[tuple[Response, Mapping[str, object]]]:
    rejected, held = example.columns.get(REJECTED), example.columns.get(CONVERSATION)
    chosen: Response = example.turns or example.demonstration
    if isinstance(held, Mapping) and isinstance(rejected, (str, list)):
        messages = rejected
        if isinstance(rejected, str):
            messages = [{"role": "assistant", "content": rejected}]
        turned = {**example.columns, CONVERSATION: {**held, "completion": messages}}
        return [(chosen, example.columns), ("", turned)]
    if not isinstance(rejected, str):
        raise DataError(
            f"the example {example.prompt[:60]!r} has {rejected!r:.60} as its rejected answer, not "
            "a text: pairs need a column 'rejected'; use task=preferences task.path=FILE or "
            "task=sorting_pairs"
        )
    return [(chosen, example.columns), (rejected, example.columns)]


def desirable(examples: Sequence[Example]) -> Tensor:
    """Whether each answer is a good one, by the column ``desirable``; shape ``[B]``, bool.

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
    """How good each answer is: its column ``rating``, else 1 or 0 of ``desirable``; shape ``[B]``.

    Raises:
        DataError: an example has neither a finite number nor true or false.
    """
    found = []
    for example in examples:
        value = example.columns.get(RATING, example.columns.get(DESIRABLE))
        if not isinstance(value, (int, float)) or not -3.4e38 <= value <= 3.4e38:
            raise DataError(
                f"the example {example.prompt[:60]!r} has the rating {value!r:.60}: must be a "
                "finite number; a file has 'completion' and 'rating' or 'label', or 'responses' "
                "and 'ratings' with task.ratings=each"
            )
        found.append(float(value))
    return torch.tensor(found)


def pair_weights(examples: Sequence[Example], by_annotator: Mapping[str, float]) -> Tensor | None:
    """How much each pair counts, shape ``[U]``: its column ``weight`` times its annotator's weight.

    None where no example says anything and no annotator has a weight.

    Raises:
        DataError: a weight is no finite number of at least 0, or an annotator is not known.
    """
    own = [example.columns.get(WEIGHT) for example in examples]
    if not by_annotator and all(weight is None for weight in own):
        return None
    found = []
    for example, weight in zip(examples, own, strict=True):
        value = _number(example, WEIGHT, weight, 1.0, math.inf)
        found.append(value * _of_annotator(example, by_annotator, 1.0))
    return torch.tensor(found)


def pair_margins(examples: Sequence[Example]) -> Tensor | None:
    """By how much the chosen answer of each pair is to lead, shape ``[U]``: its column ``margin``.

    0 where an example says nothing; None where none does.

    Raises:
        DataError: a margin is no finite number of at least 0.
    """
    own = [example.columns.get(MARGIN) for example in examples]
    if all(margin is None for margin in own):
        return None
    pairs = zip(examples, own, strict=True)
    return torch.tensor([_number(one, MARGIN, margin, 0.0, math.inf) for one, margin in pairs])


def tied_pairs(examples: Sequence[Example]) -> Tensor | None:
    """Of each pair, whether neither answer is preferred, shape ``[U]``, bool: its column ``tie``.

    None where no example is a tie.
    """
    own = [example.columns.get(TIE) is True for example in examples]
    return torch.tensor(own) if any(own) else None


def label_noise(examples: Sequence[Example], by_annotator: Mapping[str, float]) -> Tensor | None:
    """Probability that each label is wrong, shape ``[U]``: its column, else its annotator's.

    None where no example says anything and no annotator is known.

    Raises:
        DataError: a probability is none, or an annotator is not known.
    """
    own = [example.columns.get(NOISE) for example in examples]
    if not by_annotator and all(noise is None for noise in own):
        return None
    found = []
    for example, noise in zip(examples, own, strict=True):
        value = 0.0 if noise is not None else _of_annotator(example, by_annotator, 0.0)
        found.append(_number(example, NOISE, noise, value, 1.0))
    return torch.tensor(found)


def _of_annotator(example: Example, known: Mapping[str, float], otherwise: float) -> float:
    if not known:
        return otherwise
    name = example.columns.get(ANNOTATOR)
    if name not in known:
        raise DataError(
            f"the example {example.prompt[:60]!r} has the annotator {name!r:.60}, known are "
            f"{', '.join(map(repr, known))}: name it in the sampler's settings, or give the row a "
            f"column {ANNOTATOR!r}"
        )
    return known[str(name)]


def _number(example: Example, name: str, value: object, otherwise: float, highest: float) -> float:
    if value is None:
        return otherwise
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # Within what float32 holds, and compared before it is converted.
    if not number or not 0 <= value <= min(highest, 3.4e38):  # type: ignore[operator]
        told = "from 0 to 1" if highest == 1 else "of at least 0"
        raise DataError(
            f"the example {example.prompt[:60]!r} has {name} {value!r:.60}: must be a finite "
            f"number {told}"
        )
    return float(value)  # type: ignore[arg-type]
