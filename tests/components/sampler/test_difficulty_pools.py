import pytest
import torch

from components.sampler.difficulty_pools import DifficultyPools
from components.task.sorting import Sorting
from rlcomp.batch import decode_texts
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.interfaces.task import is_held_out
from rlcomp.metrics import recording
from rlcomp.text.tokenizer import byte_tokenizer

TRAINING = [n for n in range(10) if not is_held_out(f"{n}>", 0.3)]


def sampler(**changes):
    defaults = {
        "task": Sorting(length=1, held_out=0.3),
        "tokenizer": byte_tokenizer(),
        "batch_size": len(TRAINING),
        "context_length": 8,
        "max_new_tokens": 2,
    }
    return DifficultyPools(**{**defaults, **changes})


def drawn(draw):
    return draw()["example_id"].tolist()


def retired(draw):
    with recording() as ledger:
        draw.take(1)
    return {name.split("/")[1]: int(value) for name, value in ledger.means().items()}


def test_a_prompt_stands_beside_its_answer_and_its_number():
    batch = sampler()()

    assert [f"{n}>" for n in batch["example_id"].tolist()] == decode_texts(batch["prompt"])
    assert [str(n) for n in batch["example_id"].tolist()] == decode_texts(batch["answer"])


def test_without_pass_rates_every_training_prompt_comes_once_an_epoch():
    draw = sampler()

    assert len(TRAINING) > 4
    assert sorted(drawn(draw)) == sorted(drawn(draw)) == TRAINING


def test_what_was_solved_or_hopeless_twice_in_a_row_rests():
    draw = sampler(batch_size=1)
    a, b, c, d = TRAINING[:4]
    draw.tell({a: 1.0, b: 0.0, c: 1.0, d: 0.5})
    assert retired(draw) == {"solved": 0, "hopeless": 0, "released": 0}

    draw.tell({a: 1.0, b: 0.0, c: 0.0, d: 0.5})  # c: never twice the same

    assert retired(draw) == {"solved": 1, "hopeless": 1, "released": 0}
    seen = {drawn(draw)[0] for _ in range(15)}
    assert seen == set(TRAINING) - {a, b}


def test_another_pass_rate_in_between_begins_anew():
    draw = sampler(batch_size=1)
    for rate in (1.0, 0.5, 1.0):
        draw.tell({TRAINING[0]: rate})

    assert retired(draw)["solved"] == 0


@pytest.mark.parametrize("rates", [(1.0, 0.0, 0.0), (0.0, 1.0, 1.0)])
def test_the_opposite_pass_rate_begins_a_row_of_its_own(rates):
    draw = sampler(batch_size=1)
    for rate in rates:
        draw.tell({TRAINING[0]: rate})

    told = retired(draw)

    assert (told["solved"], told["hopeless"]) == (rates[-1] == 1.0, rates[-1] == 0.0)


@pytest.mark.parametrize("late", [0.5, 0.0, 1.0])
def test_a_pass_rate_that_comes_late_changes_nothing_of_what_rests(late):
    draw = sampler(batch_size=1, patience=1, release_after=3)
    draw.tell({TRAINING[0]: 1.0})
    draw.take(1)

    draw.tell({TRAINING[0]: late})

    told = [retired(draw) for _ in range(3)]
    assert [each["solved"] for each in told] == [1, 1, 0]
    assert [each["hopeless"] for each in told] == [0, 0, 0]
    assert [each["released"] for each in told] == [0, 0, 1]


def test_the_bounds_count_as_solved_and_hopeless():
    draw = sampler(batch_size=1, solved=0.8, hopeless=0.25, patience=1)
    draw.tell(dict(zip(TRAINING, [0.8, 0.79, 0.25, 0.26], strict=False)))

    assert retired(draw) == {"solved": 1, "hopeless": 1, "released": 0}


def test_it_is_released_after_so_many_batches_and_without_record():
    draw = sampler(batch_size=1, patience=1, release_after=3)
    draw.take(1)
    draw.tell({TRAINING[0]: 1.0})

    told = [retired(draw) for _ in range(4)]

    assert [each["solved"] for each in told] == [1, 1, 1, 0]
    assert [each["released"] for each in told] == [0, 0, 0, 1]
    assert draw.streaks == {}


def test_where_all_rest_those_come_that_would_be_released_first():
    draw = sampler(batch_size=2, patience=1)
    for index in reversed(TRAINING):
        draw.tell({index: 1.0})
        draw.batches += 1

    assert sorted(drawn(draw)) == sorted(TRAINING[-2:])
    assert set(draw.resting) == set(TRAINING[:-2])


def test_where_all_rest_one_whole_epoch_is_looked_through():
    draw = sampler(batch_size=1, patience=1)
    draw.tell(dict.fromkeys(TRAINING, 1.0))

    draw.take(1)

    # The rest of epoch 0, the whole of epoch 1, and the example with which epoch 2 begins.
    assert draw.examples.epoch == 2


def test_what_does_not_rest_comes_before_what_is_called_back():
    draw = sampler(batch_size=len(TRAINING) - 1, patience=1)
    drawn(draw)
    draw.tell(dict.fromkeys(TRAINING[:2], 0.0))

    batch = drawn(draw)

    assert len(set(batch)) == len(TRAINING) - 1
    assert set(TRAINING[2:]) <= set(batch)
    assert len(draw.resting) == 1


def test_a_resumed_sampler_goes_on_exactly():
    draw, other = (sampler(batch_size=3, patience=1, release_after=2) for _ in range(2))
    drawn(draw)
    draw.tell(dict(zip(TRAINING, [1.0, 0.0, 0.5], strict=False)))
    drawn(draw)

    other.load_run_state(draw.run_state())

    for _ in range(6):
        assert drawn(other) == drawn(draw)
        assert retired(other) == retired(draw)
    assert other.batches == draw.batches


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tried": torch.tensor([1, 1])}, "none of them twice"),
        ({"tried": torch.tensor([1, 10])}, "indices of the task"),
        ({"tried": torch.tensor([-1, 1])}, "indices of the task"),
        ({"streaks": torch.tensor([1, 0])}, "must hold no 0"),
        ({"until": torch.tensor([-1, 0])}, "nothing below 0"),
        ({"batches": -1}, "'batches' is -1"),
        ({"streaks": torch.tensor([1])}, r"must be \[2\]"),
    ],
)
def test_a_state_that_cannot_be_is_refused(changes, told):
    draw = sampler()
    draw.tell({TRAINING[0]: 1.0, TRAINING[1]: 0.0})

    with pytest.raises(CheckpointError, match=told):
        sampler().load_run_state({**draw.run_state(), **changes})


def test_the_pools_must_not_overlap():
    with pytest.raises(ConfigError, match=r"hopeless is 0.5: must be below solved, 0.5"):
        sampler(hopeless=0.5, solved=0.5)
