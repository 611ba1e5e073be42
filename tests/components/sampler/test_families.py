import pytest

from components.sampler.task_curriculum import Families
from components.worlds.addition.task import Addition
from components.worlds.sorting.task import Sorting
from rlcomp.batch import decode_texts
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.metrics import recording
from rlcomp.text.tokenizer import byte_tokenizer


def families():
    return {
        "sort": {"one": Sorting(length=1), "two": Sorting(length=2), "three": Sorting(length=3)},
        "add": {"one": Addition(digits=1), "two": Addition(digits=2)},
    }


def sampler(**changes):
    defaults = {
        "families": families(),
        "tokenizer": byte_tokenizer(),
        "batch_size": 5,
        "context_length": 16,
        "max_new_tokens": 3,
        "raise_at": 0.75,
        "lower_at": 0.25,
    }
    return Families(**{**defaults, **changes})


def drawn(draw):
    batch = draw()
    return dict(zip(batch["example_id"].tolist(), decode_texts(batch["prompt"]), strict=True))


def levels(draw):
    with recording() as ledger:
        draw.take(2)
    return ledger.means()


def told(draw, sort=None, add=None):
    """Tell it the same pass rate of all its prompts of a family."""
    by_family = {index: sort if text.endswith(">") else add for index, text in drawn(draw).items()}
    draw.tell({index: rate for index, rate in by_family.items() if rate is not None})


def test_the_families_share_every_batch_and_over_time_equally():
    draw = sampler()

    texts = [decode_texts(draw()["prompt"]) for _ in range(4)]
    sums = [sum(text.endswith(">") for text in batch) for batch in texts]

    assert sums == [3, 2, 3, 2]


def test_what_is_left_over_goes_round():
    three = {
        name: {"one": Sorting(length=length)} for name, length in zip("abc", (1, 2, 3), strict=True)
    }
    draw = sampler(families=three, batch_size=4)

    lengths = [[len(prompt) - 1 for prompt in drawn(draw).values()] for _ in range(3)]

    # The fourth is of the first family, then of the second, then of the third.
    assert lengths == [[1, 1, 2, 3], [1, 2, 2, 3], [1, 2, 3, 3]]


def test_numbers_tell_levels_and_families_apart():
    draw = sampler()
    first = drawn(draw)
    told(draw, sort=1.0, add=1.0)
    second = drawn(draw)

    # 10 and 100 examples before the third level of sorting, 1110 before the sums, 100 of one digit.
    assert all(text == f"{index}>" for index, text in first.items() if text.endswith(">"))
    assert all(text == f"{index - 10:02d}>" for index, text in second.items() if index < 1110)
    assert all(1110 <= index < 1210 for index, text in first.items() if text.endswith("="))
    assert all(index >= 1210 for index, text in second.items() if text.endswith("="))


def test_each_family_goes_up_and_down_by_its_own_pass_rate():
    draw = sampler()
    assert levels(draw) == {"families/sort": 1, "families/add": 1}

    told(draw, sort=0.75, add=0.74)
    assert levels(draw) == {"families/sort": 2, "families/add": 1}
    told(draw, sort=0.9, add=0.9)
    assert levels(draw) == {"families/sort": 3, "families/add": 2}
    told(draw, sort=0.9, add=0.9)  # there is no level above
    assert levels(draw) == {"families/sort": 3, "families/add": 2}
    told(draw, sort=0.24, add=0.25)
    assert levels(draw) == {"families/sort": 2, "families/add": 2}
    told(draw, add=0.0)  # nothing is known of sorting
    assert levels(draw) == {"families/sort": 2, "families/add": 1}
    told(draw, sort=0.0, add=0.0)
    told(draw, sort=0.0, add=0.0)  # nor one below
    assert levels(draw) == {"families/sort": 1, "families/add": 1}


def test_the_mean_over_prompts_counts():
    draw = sampler()
    draw.tell({0: 1.0, 1: 1.0, 2: 0.25})  # of the first of sorting: exactly 0.75

    assert levels(draw)["families/sort"] == 2


def test_prompts_of_another_level_do_not_count():
    draw = sampler()
    draw.tell({10: 1.0, 1109: 1.0, 1210: 1.0})

    assert levels(draw) == {"families/sort": 1, "families/add": 1}


def test_a_resumed_sampler_goes_on_exactly():
    draw, other = sampler(), sampler()
    told(draw, sort=1.0, add=0.0)
    drawn(draw)

    other.load_run_state(draw.run_state())

    assert [drawn(other) for _ in range(3)] == [drawn(draw) for _ in range(3)]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"turn": 2}, "'turn' is 2"),
        ({"level": {"sort": 3, "add": 0}}, "'sort' is 3"),
        ({"level": {"sort": 0}}, "add"),
        ({"level": {"sort": 0, "add": 0, "sum": 0}}, "'sum' is no field of this state"),
    ],
)
def test_a_state_that_cannot_be_is_refused(changes, told):
    draw = sampler()

    with pytest.raises(CheckpointError, match=told):
        sampler().load_run_state({**draw.run_state(), **changes})


def test_places_of_a_family_that_is_not_there_are_refused():
    state = sampler().run_state()
    state["examples"]["sum"] = []

    with pytest.raises(CheckpointError, match="'sum' is no field of this state"):
        sampler().load_run_state(state)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"families": {"sort": {}}}, "'sort' has no level"),
        ({"raise_at": 0.4, "lower_at": 0.5}, "lower_at is 0.5: must be at most raise_at, 0.4"),
        ({"batch_size": 1}, "batch_size is 1, below the number of families, 2"),
        ({"batch_size": 26}, "batch_size is 13, but the task has only"),
    ],
)
def test_what_cannot_be_is_refused(changes, told):
    with pytest.raises(ConfigError, match=told):
        sampler(**changes)


def test_the_bounds_may_meet():
    assert sampler(raise_at=0.5, lower_at=0.5, batch_size=2).batch_size == 2
