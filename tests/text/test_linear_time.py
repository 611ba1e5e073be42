"""What grows with a user's data takes time in proportion to it."""

import time

import pytest

from rlcomp.text.reasoning import split_steps
from rlcomp.text.tokenizer import character_tokenizer


def tokenizer_of_many_words():
    words = [f"<{number:05d}x>" for number in range(16_000)]
    assert len(character_tokenizer(characters="ab", words=words)) == 2 + 2 + 16_000


def steps_of_many_blank_lines():
    assert split_steps("a" + "\n" * 1_000_000, "\n") == ["a" + "\n" * 1_000_000]


# Quadratic, each takes 10 s or more.
@pytest.mark.parametrize("work", [tokenizer_of_many_words, steps_of_many_blank_lines])
def test_time_is_linear_in_the_data(work):
    start = time.process_time()

    work()

    assert time.process_time() - start < 3
