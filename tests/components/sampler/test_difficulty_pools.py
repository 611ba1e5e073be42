import pytest
import torch

from components.sampler.difficulty_pools import DifficultyPools
from components.worlds.sorting.task import Sorting
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


def retired(draw, count=1):
    with recording() as ledger:
        draw.take(count)
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
    seen = {drawn(draw)[0] for _ in range(2 * len(TRAINING))}
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
    for _ in range(len(TRAINING) - 1):
        draw.take(1)  # an epoch without it
    before = {**draw.resting}, {**draw.streaks}

    draw.tell({TRAINING[0]: late})

    assert (draw.resting, draw.streaks) == before


def test_the_bounds_count_as_solved_and_hopeless():
    draw = sampler(batch_size=1, solved=0.8, hopeless=0.25, patience=1)
    draw.tell(dict(zip(TRAINING, [0.8, 0.79, 0.25, 0.26], strict=False)))

    assert retired(draw) == {"solved": 1, "hopeless": 1, "released": 0}


def test_it_is_passed_over_so_many_times_and_then_back_without_record():
    draw = sampler(batch_size=1, patience=1, release_after=3)
    draw.tell({TRAINING[0]: 1.0})
    walk = [draw.take(1)[0][0] for _ in range(3 * (len(TRAINING) - 1))]

    assert TRAINING[0] not in walk  # three epochs of the others
    assert sorted(walk) == sorted(TRAINING[1:] * 3)
    told = [retired(draw) for _ in range(len(TRAINING))]
    assert sum(each["released"] for each in told) == 1
    assert (told[-1]["solved"], told[-1]["hopeless"]) == (0, 0)
    assert draw.streaks == {}


@pytest.mark.parametrize("length", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_prompts_that_are_always_solved_rest_whatever_the_size_of_the_data(length):
    task = Sorting(length=length, held_out=0.1)
    draw = sampler(task=task, batch_size=64, context_length=16, max_new_tokens=6)
    batches = 12 * len(task) // 64
    for batch in range(batches):
        chosen = [index for index, _ in draw.take(64)]
        assert len({*chosen}) == 64
        draw.tell({index: 1.0 if index % 2 == 0 else 0.5 for index in chosen})
        if batch == batches // 2:
            later = list[int]()
        if batch >= batches // 2:
            later += chosen

    solved = sum(index % 2 == 0 for index in later) / len(later)
    # Half of the prompts, of which each comes twice of 22 times: at most 1/12, over all cycles.
    assert solved < 0.2


def test_where_all_rest_those_with_the_shortest_rest_left_come():
    draw = sampler(batch_size=2, patience=1)
    draw.tell(dict.fromkeys(TRAINING[:2], 1.0))
    for _ in range(3):
        draw.take(len(TRAINING) - 2)  # an epoch without them
    draw.tell(dict.fromkeys(TRAINING[2:], 1.0))

    assert sorted(drawn(draw)) == TRAINING[:2]
    assert set(draw.resting) == set(TRAINING[2:])


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


def test_a_checkpoint_of_rests_by_batches_is_read_its_prompts_rest_anew():
    draw, other = (sampler(patience=1, release_after=5) for _ in range(2))
    draw.tell({TRAINING[0]: 1.0, TRAINING[1]: 0.5, TRAINING[2]: 0.0})
    state = draw.run_state()
    until = torch.tensor([27, 0])
    old = {name: value for name, value in state.items() if name != "turns"}

    other.load_run_state({**old, "batches": 21, "until": until})

    assert other.streaks == {TRAINING[0]: 1, TRAINING[2]: -1}
    assert other.resting == {TRAINING[0]: 5}


def test_a_shorter_rest_holds_for_what_rests_already():
    draw, other = sampler(patience=1, release_after=9), sampler(patience=1, release_after=2)
    draw.tell({TRAINING[0]: 1.0})

    other.load_run_state(draw.run_state())

    assert other.resting == {TRAINING[0]: 2}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tried": torch.tensor([1, 1])}, "none of them twice"),
        ({"tried": torch.tensor([1, 10])}, "indices of the task"),
        ({"tried": torch.tensor([-1, 1])}, "indices of the task"),
        ({"streaks": torch.tensor([1, 0])}, "must hold no 0"),
        ({"turns": torch.tensor([-2, 0])}, "nothing below -1"),
        ({"turns": torch.tensor([1])}, r"must be \[2\]"),
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
