from collections import Counter

import pytest
import torch

from components.sampler.prompts import Epochs
from components.worlds.sorting.task import Sorting
from rlcomp.batch import decode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import is_held_out
from rlcomp.text.tokenizer import byte_tokenizer


def sampler(**changes) -> Epochs:
    defaults = {
        "task": Sorting(length=2),
        "tokenizer": byte_tokenizer(),
        "batch_size": 7,
        "context_length": 8,
        "max_new_tokens": 2,
    }
    return Epochs(**{**defaults, **changes})


def prompts(draw: Epochs, batches: int) -> list[str]:
    return [text for _ in range(batches) for text in decode_texts(draw()["prompt"])]


def test_a_batch_holds_prompts_with_their_answers():
    batch = sampler()()

    texts = decode_texts(batch["prompt"])
    assert batch.batch_size == (7,)
    assert decode_texts(batch["answer"]) == ["".join(sorted(text[:-1])) for text in texts]


def test_every_training_prompt_comes_once_per_epoch_and_batches_span_epochs():
    training = [f"{n:02d}>" for n in range(100) if not is_held_out(f"{n:02d}>", 0.1)]
    size = len(training)

    drawn = prompts(sampler(), 2 * size // 7 + 1)

    assert size % 7 != 0
    assert Counter(drawn[:size]) == Counter(training)
    assert Counter(drawn[size : 2 * size]) == Counter(training)
    assert drawn[:size] != drawn[size : 2 * size]


@pytest.mark.parametrize("before", [0, 5, 30])
def test_a_resumed_sampler_goes_on_exactly(before):
    walked = sampler()
    prompts(walked, before)
    state = walked.run_state()

    resumed = sampler()
    resumed.load_run_state(state)

    assert prompts(resumed, 20) == prompts(walked, 20)


def test_the_order_follows_the_seed_of_the_construction():
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(prompts(sampler(), 1))

    assert drawn[0] == drawn[1] != drawn[2]


def test_a_task_with_too_few_training_examples_is_refused():
    with pytest.raises(ConfigError, match="batch_size is 101"):
        sampler(batch_size=101)


def test_a_prompt_that_leaves_no_room_is_refused():
    with pytest.raises(DataError, match="has 3 tokens"):
        sampler(max_new_tokens=6)
