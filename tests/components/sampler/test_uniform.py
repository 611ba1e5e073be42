from collections import Counter

import pytest
import torch

from components.sampler.prompts import Uniform
from components.worlds.sorting.task import Sorting
from rlcomp.batch import decode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import is_held_out
from rlcomp.text.tokenizer import byte_tokenizer


def sampler(**changes) -> Uniform:
    defaults = {
        "task": Sorting(length=1, held_out=0.2),
        "tokenizer": byte_tokenizer(),
        "batch_size": 4,
        "context_length": 8,
        "max_new_tokens": 2,
    }
    return Uniform(**{**defaults, **changes})


def test_a_batch_holds_prompts_with_their_answers():
    batch = sampler(task=Sorting(length=3))()

    prompts, answers = decode_texts(batch["prompt"]), decode_texts(batch["answer"])
    assert batch.batch_size == (4,)
    assert answers == ["".join(sorted(prompt[:-1])) for prompt in prompts]


def test_what_stood_in_the_batch_is_gone():
    batch = sampler()(sampler()().set("reward", torch.zeros(4)))

    assert set(batch.keys()) == {"prompt", "answer", "answer_ends"}


def test_no_prompt_comes_twice_in_a_batch():
    draw = sampler()

    assert all(len(set(decode_texts(draw()["prompt"]))) == 4 for _ in range(30))


def test_held_out_prompts_are_never_drawn_and_all_others_equally_often():
    # 9 training prompts: "7>" alone is held out. 600 batches of 4: each prompt 266.7 times,
    # standard deviation sqrt(600 * 4/9 * 5/9) = 12.2.
    draw = sampler()
    training = [f"{n}>" for n in range(10) if not is_held_out(f"{n}>", 0.2)]

    counts = Counter(text for _ in range(600) for text in decode_texts(draw()["prompt"]))

    expected = 600 * 4 / len(training)
    assert set(counts) == set(training)
    assert len(training) < 10
    assert all(abs(count - expected) < 5 * 12.2 for count in counts.values())


def test_the_draws_follow_the_seed_of_the_construction():
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(decode_texts(sampler(task=Sorting(length=4))()["prompt"]))

    assert drawn[0] == drawn[1] != drawn[2]


def test_the_draws_do_not_touch_the_global_generator():
    draw = sampler()
    before = torch.get_rng_state()

    draw()

    assert torch.equal(torch.get_rng_state(), before)


def test_a_task_with_too_few_training_examples_is_refused():
    with pytest.raises(ConfigError, match="batch_size is 11"):
        sampler(batch_size=11)


def test_a_prompt_that_leaves_no_room_is_refused():
    # "0>" is 2 tokens: 2 + 7 > 8.
    with pytest.raises(DataError, match="has 2 tokens"):
        sampler(max_new_tokens=7)
