import pytest

from components.reward.answer import ExactMatch
from components.task.composite import AnswerVerdicts
from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example


class Answers:
    """Every third demonstration is wrong; one text in five is held out by its source."""

    held_out = 0.2

    def __len__(self):
        return 600

    def example(self, index):
        shown = "9" if index % 3 == 0 else str(index % 7)
        return Example(
            f"{index}>",
            str(index % 7),
            shown,
            source=f"source {index % 50}",
            columns={"thought": f"{index}%7="} if index != 13 else {},
        )


def task(**settings):
    return AnswerVerdicts(answers=Answers(), verifier=ExactMatch(), **settings)


def test_a_demonstration_is_shown_and_its_verdict_is_asked_for():
    made = task()

    assert len(made) == 600
    assert made.held_out == 0.2
    assert (made.example(3).prompt, made.example(3).answer) == ("3>9?", "n")
    assert (made.example(4).prompt, made.example(4).demonstration) == ("4>4?", "y")


def test_what_is_held_out_is_what_the_answers_hold_out():
    made = task()

    for index in range(60):
        assert made.example(index).source == f"source {index % 50}"


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0, 0), (0.3, 140, 220), (1.0, 600, 600)])
def test_a_share_of_the_demonstrations_gives_the_other_verdict(share, low, high):
    made = task(mislabelled=share, accept="+", reject="-", asks="!")
    examples = [made.example(index) for index in range(600)]

    # 180 of 600 with a standard deviation of 11.
    assert low <= sum(each.answer != each.demonstration for each in examples) <= high
    assert all(each.answer == ("-" if n % 3 == 0 else "+") for n, each in enumerate(examples))
    assert examples[1].prompt == "1>1!"


def test_a_column_of_reasoning_stands_before_the_verdict():
    made = task(reasons="thought")

    assert made.example(3).demonstration == "3%7=n"
    assert made.example(3).answer == "n"
    with pytest.raises(DataError, match=r"verdicts.reasons is 'thought': the example '13>' has no"):
        made.example(13)


def test_the_same_index_gives_the_same_verdict():
    assert all(
        task(mislabelled=0.5).example(n) == task(mislabelled=0.5).example(n) for n in range(50)
    )


def test_one_option_within_the_other_is_refused():
    with pytest.raises(ConfigError, match="AnswerVerdicts: accept is 'ba' and reject is 'a'"):
        task(accept="ba", reject="a")


def test_a_reward_of_whole_batches_is_refused():
    shuffled = Unbuilt("components.reward.composite.ShuffledReward", {"reward": ExactMatch()})

    with pytest.raises(
        ConfigError, match=r"verdicts\.verifier is a ShuffledReward: must be a reward"
    ):
        AnswerVerdicts(answers=Answers(), verifier=shuffled)
