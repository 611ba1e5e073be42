import pytest
import torch

from components.sampler.curriculum import Curriculum
from components.worlds.sorting.task import Sorting
from rlcomp.batch import decode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import is_held_out
from rlcomp.metrics import recording
from rlcomp.text.tokenizer import byte_tokenizer

TRAINING = [n for n in range(100) if not is_held_out(f"{n:02d}>", 0.1)]


def sampler(**changes) -> Curriculum:
    defaults = {
        "task": Sorting(length=2),
        "tokenizer": byte_tokenizer(),
        "batch_size": 8,
        "context_length": 8,
        "max_new_tokens": 2,
    }
    return Curriculum(**{**defaults, **changes})


def drawn(draw: Curriculum) -> list[int]:
    return draw()["example_id"].tolist()


def test_a_prompt_stands_beside_its_answer_and_its_number():
    batch = sampler()()

    prompts, answers = decode_texts(batch["prompt"]), decode_texts(batch["answer"])
    assert [f"{n:02d}>" for n in batch["example_id"].tolist()] == prompts
    assert answers == ["".join(sorted(prompt[:-1])) for prompt in prompts]


def test_without_pass_rates_every_training_prompt_comes_once_before_one_comes_twice():
    draw = sampler(batch_size=len(TRAINING) // 2)

    first, second, third = drawn(draw), drawn(draw), drawn(draw)

    assert sorted([*first, *second]) == TRAINING
    assert set(third) <= set(TRAINING)


def test_prompts_of_the_band_come_first_and_all_others_are_new():
    draw = sampler(exploration=0.0)
    first = drawn(draw)
    draw.tell(dict(zip(first[:7], [0.0, 0.1, 0.2, 0.5, 0.8, 0.9, 1.0], strict=True)))

    with recording() as ledger:
        second = drawn(draw)

    band = {first[2], first[3], first[4]}
    assert band <= set(second)
    assert not (set(second) - band) & set(first)
    assert ledger.means() == {"curriculum/in_band": 3 / 8, "curriculum/tried": 7.0}


def test_no_prompt_comes_twice_in_a_batch():
    draw = sampler(exploration=0.5)
    draw.tell(dict.fromkeys(TRAINING, 0.5))

    assert all(len(set(drawn(draw))) == 8 for _ in range(30))


def test_exploration_is_the_expected_share_from_outside_the_band():
    # 400 batches of 8, each place explored with 0.25; std sqrt(3 / 16 / 3200) = 0.0077.
    draw = sampler(exploration=0.25)
    draw.tell(dict.fromkeys(TRAINING[:40], 0.5))

    with recording() as ledger:
        for _ in range(400):
            drawn(draw)

    assert ledger.means()["curriculum/in_band"] == pytest.approx(0.75, abs=5 * 0.0077)


def test_the_last_pass_rate_counts():
    draw = sampler(exploration=0.0, batch_size=1)
    draw.tell({TRAINING[0]: 0.5, TRAINING[1]: 0.5})
    draw.tell({TRAINING[0]: 1.0})

    assert {drawn(draw)[0] for _ in range(10)} == {TRAINING[1]}


def test_held_out_prompts_are_never_drawn():
    draw = sampler(task=Sorting(length=2, held_out=0.5))

    assert not any(is_held_out(f"{n:02d}>", 0.5) for _ in range(30) for n in drawn(draw))


def test_a_resumed_sampler_goes_on_exactly():
    walked, resumed = sampler(), sampler()
    for _ in range(3):
        walked.tell({n: n % 5 / 4 for n in drawn(walked)})

    resumed.load_run_state(walked.run_state())
    resumed.generator.set_state(walked.generator.get_state())

    assert resumed.pass_rates == walked.pass_rates
    assert [drawn(resumed) for _ in range(20)] == [drawn(walked) for _ in range(20)]


def test_the_draws_follow_the_seed_of_the_construction():
    batches = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        batches.append(drawn(sampler()))

    assert batches[0] == batches[1] != batches[2]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"low": 0.9, "high": 0.1}, ConfigError, "low is 0.9, above high 0.1"),
        ({"batch_size": 101}, ConfigError, "batch_size is 101"),
        ({"max_new_tokens": 6}, DataError, "has 3 tokens"),
    ],
)
def test_what_cannot_work_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        sampler(**changes)


def test_among_900_prompts_most_come_from_the_band():
    draw = sampler(
        task=Sorting(length=3, held_out=0.1), batch_size=64, context_length=16, max_new_tokens=5
    )
    inside, batches = 0, 6 * 900 // 64
    for _ in range(batches):
        chosen = [index for index, _ in draw.take(64)]
        draw.tell({index: 1.0 if index % 4 else 0.5 for index in chosen})
        inside += sum(index % 4 == 0 for index in chosen)

    # .7 from the band, and a quarter of the rest; the band is small at first.
    assert inside / (64 * batches) == pytest.approx(0.7 + 0.3 / 4, abs=0.05)
