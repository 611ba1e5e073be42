"""Tasks made of other tasks."""

import pytest

from components.reward.answer import ExactMatch
from components.task.composite import AnswerVerdicts, HintedTask, TaskMixture
from components.worlds.addition.task import Addition
from components.worlds.repeat_digit.task import RepeatDigit
from components.worlds.sorting.task import Sorting
from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example


def mixture(**changes):
    tasks = {"sort": Sorting(length=1), "sums": Addition(digits=1), "long": Sorting(length=2)}
    return TaskMixture(**{"tasks": tasks, **changes})


def test_the_tasks_alternate_and_short_ones_repeat():
    task = mixture()

    assert len(task) == 300
    prompts = [task.example(n).prompt for n in (0, 1, 2, 30, 33, 299)]
    assert prompts == ["0>", "0+0=", "00>", "0>", "1>", "99>"]


def test_an_example_is_that_of_its_task_with_its_name():
    own, mixed = Sorting(length=2).example(41), mixture().example(3 * 41 + 2)

    assert mixed.columns == {"verify_with": "long"}
    assert (mixed.prompt, mixed.answer, mixed.demonstration) == ("41>", "14", own.demonstration)


def test_columns_of_the_task_are_copied():
    task = mixture(tasks={"say": RepeatDigit()}, column="domain")

    assert {*task.example(0).columns} == {"domain", "instruction_id_list", "kwargs"}


def test_held_out_prompts_of_a_task_are_not_trained_on():
    task = TaskMixture(
        tasks={"a": Addition(digits=1, held_out=0.2), "b": Sorting(length=2)}, held_out=0.3
    )
    held = [n for n in range(100) if Addition(digits=1).example(n).is_held_out(0.2)]
    assert held
    assert all(task.example(2 * n).is_held_out(task.held_out) for n in held)

    with pytest.raises(
        ConfigError, match=r"'a' holds out 0.2 .* mixture is 0.1: .* raise task.held"
    ):
        TaskMixture(tasks={"a": Addition(digits=1, held_out=0.2)}, held_out=0.1)
    benchmark = Addition(digits=1)
    benchmark.held_out = 1.0
    with pytest.raises(ConfigError, match=r"'a' holds out 1 of .* take it out of the mixture"):
        TaskMixture(tasks={"a": benchmark}, held_out=0.9)


def test_more_examples_than_an_index_counts_are_refused():
    # 9 * 10**18 < 2**63 - 1 = 9.22e18 < 10 * 10**18
    long = Sorting(length=18)
    assert len(TaskMixture(tasks={str(n): long for n in range(9)})) == 9 * 10**18

    with pytest.raises(ConfigError, match=r"10 tasks as long as the longest .* more than 9223372"):
        TaskMixture(tasks={str(n): long for n in range(10)})


def test_the_largest_index_still_counts():
    class Seventh(Sorting):
        def __len__(self):
            return (2**63 - 1) // 7  # 2**63 = 8**21 leaves 1

    assert len(TaskMixture(tasks={str(n): Seventh(length=1) for n in range(7)})) == 2**63 - 1


def test_a_column_of_the_task_is_not_overwritten():
    inner = mixture()

    with pytest.raises(ConfigError, match="'a' have a column 'verify_with' themselves"):
        mixture(tasks={"a": inner}).example(0)
    assert mixture(tasks={"a": inner}, column="outer").example(0).columns["outer"] == "a"


TEMPLATE = "{answer}={prompt}"


def examples(share):
    task = HintedTask(task=Sorting(length=3), template=TEMPLATE, share=share)
    return [task.example(index) for index in range(len(task))]


def test_the_share_of_all_examples_has_its_answer_in_the_prompt():
    # 1,000 examples: .8 of them, with a standard deviation of .013.
    result = [example for example in examples(0.8) if "=" in example.prompt]

    assert 760 <= len(result) <= 840
    assert {e.prompt for e in result} == {f"{e.answer}={e.source}" for e in result}


def test_answers_demonstrations_and_the_split_are_those_of_the_task():
    plain = [Sorting(length=3).example(index) for index in range(1000)]

    for own, theirs in zip(examples(0.5), plain, strict=True):
        assert (own.answer, own.demonstration) == (theirs.answer, theirs.demonstration)
        assert own.is_held_out(0.1) == theirs.is_held_out(0.1)


def test_hints_do_not_follow_the_split():
    # Of about 100 held-out examples about half are hinted at.
    held = [e for e in examples(0.5) if e.is_held_out(0.1)]

    assert 0.3 < sum("=" in e.prompt for e in held) / len(held) < 0.7


def test_a_prompt_that_looks_like_the_template_is_left_alone():
    class Odd:
        held_out = 0.0

        def __len__(self):
            return 1

        def example(self, index):
            from rlcomp.interfaces.task import Example

            return Example(prompt="{answer}", answer="{prompt}", demonstration="x")

    task = HintedTask(task=Odd(), template=TEMPLATE, share=1.0)

    assert task.example(0).prompt == "{prompt}={answer}"


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


def test_the_prompt_is_a_demonstration_and_the_answer_its_verdict():
    result = task()

    assert len(result) == 600
    assert result.held_out == 0.2
    assert (result.example(3).prompt, result.example(3).answer) == ("3>9?", "n")
    assert (result.example(4).prompt, result.example(4).demonstration) == ("4>4?", "y")


def test_the_split_is_the_split_of_the_answers():
    result = task()

    for index in range(60):
        assert result.example(index).source == f"source {index % 50}"


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0, 0), (0.3, 140, 220), (1.0, 600, 600)])
def test_a_share_of_the_demonstrations_gives_the_other_verdict(share, low, high):
    result = task(mislabelled=share, accept="+", reject="-", asks="!")
    examples = [result.example(index) for index in range(600)]

    # 180 of 600 with a standard deviation of 11.
    assert low <= sum(each.answer != each.demonstration for each in examples) <= high
    assert all(each.answer == ("-" if n % 3 == 0 else "+") for n, each in enumerate(examples))
    assert examples[1].prompt == "1>1!"


def test_a_column_of_reasoning_precedes_the_verdict():
    result = task(reasons="thought")

    assert result.example(3).demonstration == "3%7=n"
    assert result.example(3).answer == "n"
    with pytest.raises(DataError, match=r"verdicts.reasons is 'thought': the example '13>' has no"):
        result.example(13)


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
