"""Example selection: training and held-out part, prompt-length checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Literal

import torch
from tensordict import TensorDict

from rlcomp.batch import decode_columns, decode_texts, encode_columns, encode_texts
from rlcomp.columns import CONVERSATION, DESIRABLE
from rlcomp.data.held_out import fitting_share
from rlcomp.data.permutation import permutation
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.prompt import Demonstration, PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.text.prompt import resolve_prompt_format

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Split = Literal["held_out", "training"]

# Every prompt is measured in tasks up to this size, a fixed sample in larger ones.
_MEASURED_WHOLE = 10_000
_MEASURED_SAMPLE = 256

# A part that repeats its prompts is read until so many examples bring no new one, or so many for
# each prompt found: of n prompts with equally many examples, one is missed with probability e^-20.
_REPEATS, _REPEATS_PER_PROMPT = 1_000, 20


def training_examples(task: Task, indices: Iterable[int]) -> Iterator[Example]:
    """Yield the training examples at the indices, in order; skip held-out ones."""
    return (example for _, example in indexed_examples(task, indices))


def indexed_examples(task: Task, indices: Iterable[int]) -> Iterator[tuple[int, Example]]:
    """Yield the training examples at the indices, each with its index."""
    for index in indices:
        example = task.example(index)
        if not example.is_held_out(task.held_out):
            yield index, example


def held_out_examples(task: Task, count: int, seed: int) -> list[Example]:
    """Return ``count`` held-out examples with different prompts, fixed by the seed; all if fewer.

    The search ends when 1,000 examples in a row, and 20 for each prompt found, bring no new prompt.

    Raises:
        ConfigError: the task holds out no example.
    """
    return split_examples(task, "held_out", count, seed)


def split_examples(
    task: Task, split: Split, count: int, seed: int, *, only_right: bool = False
) -> list[Example]:
    """Return examples of the held-out or of the training part, as :func:`held_out_examples`.

    With ``only_right``, examples with an answer labelled as bad (``desirable``) are left out.

    Raises:
        ConfigError: that part is empty, or all its answers are labelled as bad.
    """
    held_out, num_bad, repeats = split == "held_out", 0, 0
    chosen: dict[tuple[str, str], Example] = {}
    indices = permutation(len(task), seed, "held out" if held_out else "training")
    # A search for held-out examples of a share of 0 would read the whole task.
    examples = map(task.example, indices if task.held_out > 0 or not held_out else ())
    for example in examples:
        if example.is_held_out(task.held_out) != held_out:
            continue
        if only_right and example.columns.get(DESIRABLE) is False:
            num_bad += 1
            continue
        key = (example.prompt, str(example.columns.get(CONVERSATION)))
        repeats = repeats + 1 if key in chosen else 0
        chosen.setdefault(key, example)
        if len(chosen) == count or repeats >= max(_REPEATS, _REPEATS_PER_PROMPT * len(chosen)):
            break
    if not chosen:
        raise _no_examples_error(task, held_out, num_bad)
    return list(chosen.values())


def _no_examples_error(task: Task, held_out: bool, num_bad: int) -> ConfigError:
    """Return the error for a part without examples to evaluate on."""
    if num_bad:
        return ConfigError(
            f"task has {num_bad} examples to evaluate on, and the answer of each is labelled as "
            "bad: add examples with a good answer, or take the evaluation out"
        )
    which, change = ("none", "raise") if held_out else ("all", "lower")
    share = fitting_share(task)
    remedies = [str(share)] if share else [f"{change} task.held_out"] * (len(task) > 1)
    return ConfigError(
        f"task.held_out is {task.held_out} and {which} of its {len(task)} examples is held "
        f"out: there is nothing to evaluate on; {', or '.join([*remedies, 'add examples'])}"
    )


def check_enough(task: Task, batch_size: int, otherwise: str = "") -> None:
    """Refuse a batch larger than the training part; ``otherwise`` is one more remedy to name.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
    """
    available = sum(1 for _ in islice(training_examples(task, range(len(task))), batch_size))
    if available < batch_size:
        raise ConfigError(
            f"batch_size is {batch_size}, but the task has only {available} training examples (of "
            f"{len(task)}, task.held_out is {task.held_out}); "
            f"{_size_remedy(task, batch_size, available)}{otherwise}"
        )


def _size_remedy(task: Task, batch_size: int, available: int) -> str:
    """Return settings that fill a batch and leave held-out examples for an evaluator."""
    none_held_out = task.held_out > 0 and available == len(task)
    split = fitting_share(task) if none_held_out else None
    if split is not None:  # with a smaller batch alone, the evaluator would refuse the next attempt
        return (
            f"set batch_size={split.training} or less, and as none is held out for evaluations, "
            f"{split}"
        )
    smaller = [f"set batch_size={available} or less"] if available else []
    share = fitting_share(task, batch_size)
    return ", or ".join([*smaller, *([str(share)] if share else [])]) or "add examples"


def check_prompts_fit(
    task: Task,
    tokenizer: PreTrainedTokenizerBase,
    context_length: int,
    max_new_tokens: int,
    prompt: PromptFormat | None = None,
) -> None:
    """Refuse a task whose longest prompt leaves no room for a response.

    Every prompt is measured up to 10,000 examples, otherwise the last one and a sample of 256.

    Raises:
        DataError: a prompt and ``max_new_tokens`` exceed the context; the message names the prompt
            and its length.
        ConfigError: the task cuts its prompts from a text, and the prompt format is for answers.
    """
    examples, prompt = _examples_to_measure(task), resolve_prompt_format(prompt, tokenizer)
    _check_prompt_format(examples, prompt)
    prompts = [example.prompt for example in examples]
    encoded = prompt.encode(prompts, [example.columns for example in examples])
    lengths = [len(ids) for ids in encoded]
    length, longest = max(zip(lengths, prompts, strict=True))
    if length + max_new_tokens > context_length:
        num_long = sum(size + max_new_tokens > context_length for size in lengths)
        raise DataError(
            f"the prompt {_abbreviate(longest)} has {length} tokens, and with max_new_tokens "
            f"{max_new_tokens} that exceeds context_length {context_length}, as {num_long} of "
            f"{len(lengths)} prompts do; set context_length={length + max_new_tokens} or more, "
            "lower max_new_tokens or shorten task.prompt_template"
        )


def check_demonstrations_fit(
    task: Task,
    tokenizer: PreTrainedTokenizerBase,
    context_length: int,
    prompt: PromptFormat | None = None,
) -> None:
    """Refuse a task whose longest prompt and demonstration do not fit, together with EOS.

    Every example is measured up to 10,000 examples, otherwise the last one and a sample of 256.

    Raises:
        DataError: prompt and demonstration exceed the context; the message names the prompt and
            the length of the row.
        ConfigError: as :func:`check_prompts_fit`.
    """
    check_rows_fit(task, context_length, resolve_prompt_format(prompt, tokenizer), demonstrations)


def check_rows_fit(
    task: Task,
    context_length: int,
    prompt: PromptFormat,
    rows: Callable[[PromptFormat, list[Example]], list[Demonstration]],
) -> None:
    """Refuse a task with a row that does not fit, as :func:`check_demonstrations_fit`.

    ``rows`` makes the rows of examples, in order, the same number for each.

    Raises:
        DataError: a row exceeds the context; the message names the prompt and the row's length.
        ConfigError: as :func:`check_prompts_fit`.
    """
    examples = _examples_to_measure(task)
    _check_prompt_format(examples, prompt)
    lengths = [len(row.ids) for row in rows(prompt, examples)]
    length = max(lengths)
    if length > context_length:
        rows_per_example = len(lengths) // len(examples)
        longest = examples[lengths.index(length) // rows_per_example].prompt
        num_long = sum(size > context_length for size in lengths)
        raise DataError(
            f"the prompt {_abbreviate(longest)}, its demonstration and EOS have {length} tokens, "
            f"which exceeds context_length {context_length}, as {num_long} of {len(lengths)} do; "
            f"set context_length={length} or more, if the model allows it, or take them out of the "
            "task"
        )


def demonstrations(prompt: PromptFormat, examples: list[Example]) -> list[Demonstration]:
    """Return the demonstration of each example as tokens, in order."""
    return prompt.demonstrations(
        [example.prompt for example in examples],
        [example.turns or example.demonstration for example in examples],
        [example.columns for example in examples],
    )


def _check_prompt_format(examples: Iterable[Example], prompt: PromptFormat) -> None:
    """Refuse a task of texts to continue with a prompt format for answers.

    Raises:
        ConfigError: the task cuts its prompts from a text.
    """
    if prompt.continues:
        return
    for example in examples:
        # A conversation has columns; an example with an environment has columns or turns.
        if example.source is not None and not example.columns and not example.turns:
            raise ConfigError(
                "prompt is chat, but a response has to continue the task's prompts, such as "
                f"{_abbreviate(example.prompt)}, cut from a text: use prompt=text"
            )


def _examples_to_measure(task: Task) -> list[Example]:
    measure_all = len(task) <= _MEASURED_WHOLE
    sample = islice(permutation(len(task), 0, "prompt lengths"), _MEASURED_SAMPLE)
    indices = range(len(task)) if measure_all else [len(task) - 1, *sample]
    return [task.example(index) for index in indices]


def _abbreviate(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def prompt_batch(examples: list[Example]) -> TensorDict:
    """Return a new batch of the examples' prompts and answers, ``batch_size=[len(examples)]``.

    Returns:
        ``prompt``, ``answer`` and ``answer_ends`` (true on the last byte of each part in
        ``Example.answer_ends``, by default of the whole answer), shape ``[P, W]``; ``columns``,
        where an example has any (:func:`rlcomp.batch.decode_columns`).
    """
    answer = encode_texts([example.answer for example in examples])
    ends = torch.zeros(answer.shape, dtype=torch.bool)
    for row, example in enumerate(examples):
        length = len(example.answer.encode())
        stops = (length,) if example.answer_ends is None else example.answer_ends
        ends[row, [stop - 1 for stop in stops if stop]] = True
    prompt = encode_texts([example.prompt for example in examples])
    batch = TensorDict(
        {"prompt": prompt, "answer": answer, "answer_ends": ends}, batch_size=[len(examples)]
    )
    columns = encode_columns([example.columns for example in examples])
    return batch.update({"columns": columns}) if columns.keys() else batch


def batch_examples(batch: TensorDict) -> list[Example]:
    """Return the prompt of each row as an example, for an environment; the demonstration is empty.

    Args:
        batch: ``prompt`` ``[P, W]``, and optionally ``answer`` ``[P, W]`` and ``columns``.
    """
    prompts = decode_texts(batch["prompt"])
    answers = decode_texts(batch["answer"]) if "answer" in batch.keys() else [""] * len(prompts)
    rows = zip(prompts, answers, decode_columns(batch), strict=True)
    return [Example(prompt, answer, "", columns=columns) for prompt, answer, columns in rows]
