import pytest
import torch

from components.sampler.pools import TaskPools
from components.worlds.sorting.task import Sorting
from rlcomp.batch import decode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.metrics import recording
from rlcomp.text.tokenizer import byte_tokenizer


def sampler(**changes) -> TaskPools:
    defaults = {
        "tasks": {"short": Sorting(length=1), "long": Sorting(length=3)},
        "weights_start": {"short": 1.0, "long": 0.0},
        "weights_end": {"short": 1.0, "long": 3.0},
        "tokenizer": byte_tokenizer(),
        "batch_size": 6,
        "context_length": 8,
        "max_new_tokens": 2,
    }
    return TaskPools(**{**defaults, **changes})


def prompts(draw: TaskPools, at: float = 0.5) -> list[str]:
    with recording(progress=at):
        return decode_texts(draw()["prompt"])


@pytest.mark.parametrize(("at", "share"), [(0.0, 0.0), (0.5, 0.375), (1.0, 0.75)])
def test_shares_go_linearly_from_the_start_to_the_end(at, share):
    # long: 0 at the start, 3 / (1 + 3) at the end.
    assert sampler().shares(at) == pytest.approx([1 - share, share])


def test_a_task_without_weight_is_not_drawn():
    draw = sampler()

    assert all(len(prompt) == 2 for _ in range(20) for prompt in prompts(draw, at=0.0))


def test_the_share_of_a_task_is_drawn_and_recorded():
    # 500 batches of 6 at the end: 3/4 long, std sqrt(3/16 / 3000) = 0.0079.
    draw = sampler()

    with recording(progress=1.0) as ledger:
        drawn = [prompt for _ in range(500) for prompt in decode_texts(draw()["prompt"])]

    share = sum(len(prompt) == 4 for prompt in drawn) / len(drawn)
    assert share == pytest.approx(0.75, abs=5 * 0.0079)
    assert ledger.means() == pytest.approx({"pools/short": 1 - share, "pools/long": share})


def test_within_a_task_every_prompt_comes_once_per_epoch():
    draw = sampler(tasks={"short": Sorting(length=1, held_out=0.0), "long": Sorting(length=3)})

    drawn = [prompt for _ in range(5) for prompt in prompts(draw, at=0.0)]

    assert sorted(drawn) == sorted(f"{n}>" for n in range(10) for _ in range(3))


def test_a_resumed_sampler_goes_on_exactly():
    walked, resumed = sampler(), sampler()
    prompts(walked)

    resumed.load_run_state(walked.run_state())
    resumed.generator.set_state(walked.generator.get_state())

    assert [prompts(resumed) for _ in range(10)] == [prompts(walked) for _ in range(10)]


def test_tasks_of_one_size_come_in_orders_of_their_own():
    draw = sampler(
        tasks={"one": Sorting(length=2), "other": Sorting(length=2)},
        weights_start={"one": 1.0, "other": 1.0},
        weights_end={"one": 1.0, "other": 1.0},
    )

    one, other = (examples.take(9) for examples in draw.examples.values())
    assert one != other


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights_end": {"short": 1.0, "lang": 1.0}}, "weights_end names 'lang'"),
        ({"weights_start": {"short": 1.0}}, "weights_start has no weight for 'long'"),
        ({"weights_start": {"short": 0.0, "long": 0.0}}, "at least one weight must be above 0"),
    ],
)
def test_weights_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        sampler(**changes)


def test_a_prompt_of_any_task_that_leaves_no_room_is_refused():
    with pytest.raises(DataError, match="has 4 tokens"):
        sampler(max_new_tokens=5)


def test_the_draws_do_not_touch_the_global_generator():
    draw = sampler()
    before = torch.get_rng_state()

    draw()

    assert torch.equal(torch.get_rng_state(), before)
