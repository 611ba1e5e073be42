import inspect

import pytest
import torch

from components.sampler.demonstrations import Demonstrations
from components.worlds.addition.task import Addition
from rlcomp.batch import decode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example, is_held_out
from rlcomp.text.tokenizer import byte_tokenizer


class Listed:
    """A task of the given prompts and demonstrations."""

    held_out = 0.0

    def __init__(self, *texts: tuple[str, str]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def example(self, index: int) -> Example:
        prompt, demonstration = self.texts[index]
        return Example(prompt, "", demonstration)


def demonstrations(**changes) -> Demonstrations:
    defaults = {
        "task": Addition(),
        "tokenizer": byte_tokenizer(),
        "batch_size": 5,
        "context_length": 16,
    }
    return Demonstrations(**{**defaults, **changes})


def test_a_row_is_prompt_demonstration_and_eos_with_the_mask_on_what_is_imitated():
    tokenizer = byte_tokenizer()

    batch = demonstrations()()

    for row, prompt in zip(batch, decode_texts(batch["prompt"]), strict=True):
        left, right = map(int, prompt.removesuffix("=").split("+"))
        imitated = tokenizer.decode(row["tokens"][row["response_mask"]])
        whole = tokenizer.decode(row["tokens"][row["attention_mask"]])
        assert imitated == f"{left + right}<eos>"
        assert whole == prompt + imitated


def test_what_just_fits_the_context_is_accepted():
    # "ab" and "cdef" are 2 and 4 bytes; with EOS 7 tokens.
    draw = demonstrations(task=Listed(("ab", "cdef")), batch_size=1, context_length=7)

    assert draw()["attention_mask"].sum().item() == 7


def test_a_demonstration_too_long_for_the_context_is_refused_at_once():
    task = Listed(*[("a", "b")] * 7, ("ab", "cdef"), ("abcde", ""))
    words = "prompt 'ab', its demonstration and EOS have 7 tokens, which exceeds context_length 6"

    with pytest.raises(DataError, match=words):
        demonstrations(task=task, batch_size=1, context_length=6)


def test_a_batch_holds_what_is_declared_and_nothing_else():
    draw = demonstrations()

    assert set(draw().keys()) == set(draw.writes)


def test_held_out_prompts_are_not_shown():
    draw = demonstrations(task=Addition(digits=1, held_out=0.5), batch_size=20)

    shown = [text for _ in range(10) for text in decode_texts(draw()["prompt"])]

    assert not any(is_held_out(prompt, 0.5) for prompt in shown)


def test_a_resumed_sampler_goes_on_exactly():
    walked, resumed = demonstrations(), demonstrations()
    walked()

    resumed.load_run_state(walked.run_state())

    assert torch.equal(resumed()["tokens"], walked()["tokens"])


def test_a_task_with_too_few_training_examples_is_refused():
    with pytest.raises(ConfigError, match="batch_size is 101"):
        demonstrations(task=Addition(digits=1), batch_size=101)


@pytest.mark.parametrize(("part", "numbers"), [(Demonstrations, {"batch_size": 128})])
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
