import pytest
import torch

from components.sampler.task_curriculum import Frontier
from components.worlds.sorting.task import Sorting
from rlcomp.batch import decode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import is_held_out
from rlcomp.metrics import recording
from rlcomp.text.tokenizer import byte_tokenizer


def sampler(**changes) -> Frontier:
    defaults = {
        "tasks": {"easy": Sorting(length=1), "mean": Sorting(length=2), "hard": Sorting(length=3)},
        "threshold": 0.5,
        "tokenizer": byte_tokenizer(),
        "batch_size": 4,
        "context_length": 8,
        "max_new_tokens": 2,
    }
    return Frontier(**{**defaults, **changes})


def lengths(draw: Frontier) -> set[int]:
    """Digits of the prompts of a batch: 1 easy, 2 mean, 3 hard."""
    return {len(prompt) - 1 for prompt in decode_texts(draw()["prompt"])}


def test_a_prompt_stands_beside_its_answer_and_its_number():
    draw = sampler()
    draw.tell({0: 1.0})

    batch = draw()

    prompts = decode_texts(batch["prompt"])
    assert [f"{n:02d}>" for n in batch["example_id"].tolist()] == prompts
    assert decode_texts(batch["answer"]) == ["".join(sorted(prompt[:-1])) for prompt in prompts]


def test_a_batch_at_the_threshold_moves_the_frontier_by_one_task():
    draw = sampler()
    seen = [lengths(draw)]

    # Means 0.4375, 0.5 and 0.9: below, at and above the threshold.
    for rates in ({1: 0.75, 2: 0.125}, {1: 0.75, 2: 0.25}, {}, {3: 0.9}):
        draw.tell(rates)
        seen.append(lengths(draw))

    assert seen == [{1}, {1}, {2}, {2}, {3}]


def test_the_last_task_stays_and_no_failure_moves_back():
    draw = sampler()
    for rate in (1.0, 1.0, 1.0, 0.0):
        draw.tell({5: rate})

    assert lengths(draw) == {3}


def test_the_number_of_the_task_is_recorded():
    draw = sampler()
    draw.tell({5: 1.0})

    with recording() as ledger:
        draw()
        draw.tell({5: 1.0})
        draw()

    assert ledger.means() == {"frontier/task": 2.5}  # the second, then the third


def test_every_training_prompt_of_a_task_comes_once_per_epoch():
    draw = sampler(tasks={"only": Sorting(length=2)}, batch_size=1)
    training = [n for n in range(100) if not is_held_out(f"{n:02d}>", 0.1)]

    assert sorted(draw()["example_id"].item() for _ in training) == training


def test_a_resumed_sampler_goes_on_exactly():
    walked, resumed = sampler(), sampler()
    walked()
    walked.tell({0: 1.0})
    walked()

    resumed.load_run_state(walked.run_state())

    after = [(draw()["example_id"].tolist(), lengths(draw)) for draw in (walked, resumed)]
    assert after[0] == after[1]
    assert after[0][1] == {2}


def test_the_draws_follow_the_seed_of_the_construction():
    batches = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        batches.append(sampler()()["example_id"].tolist())

    assert batches[0] == batches[1] != batches[2]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"tasks": {}}, ConfigError, "tasks is empty: name at least one"),
        ({"batch_size": 11}, ConfigError, "batch_size is 11"),
        ({"max_new_tokens": 6}, DataError, "has 3 tokens"),
    ],
)
def test_what_cannot_work_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        sampler(**changes)


def test_by_itself_a_batch_has_64_prompts_and_seven_tenths_move_on():
    tasks = {"first": Sorting(length=3), "next": Sorting(length=4)}
    draw = Frontier(tasks=tasks, tokenizer=byte_tokenizer(), context_length=16, max_new_tokens=4)
    assert draw().batch_size == (64,)
    for rate, digits in ((0.6875, 3), (0.7, 4)):
        draw.tell({0: rate})
        assert lengths(draw) == {digits}
