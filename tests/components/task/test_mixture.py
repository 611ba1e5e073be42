import pytest

from components.task.composite import TaskMixture
from components.worlds.addition.task import Addition
from components.worlds.repeat_digit.task import RepeatDigit
from components.worlds.sorting.task import Sorting
from rlcomp.errors import ConfigError


def mixture(**changes):
    tasks = {"sort": Sorting(length=1), "sums": Addition(digits=1), "long": Sorting(length=2)}
    return TaskMixture(**{"tasks": tasks, **changes})


def test_the_tasks_take_turns_and_short_ones_repeat_themselves():
    task = mixture()

    assert len(task) == 300
    prompts = [task.example(n).prompt for n in (0, 1, 2, 30, 33, 299)]
    assert prompts == ["0>", "0+0=", "00>", "0>", "1>", "99>"]


def test_an_example_is_that_of_its_task_with_its_name():
    own, mixed = Sorting(length=2).example(41), mixture().example(3 * 41 + 2)

    assert mixed.columns == {"verify_with": "long"}
    assert (mixed.prompt, mixed.answer, mixed.demonstration) == ("41>", "14", own.demonstration)


def test_columns_of_the_task_are_kept():
    task = mixture(tasks={"say": RepeatDigit()}, column="domain")

    assert {*task.example(0).columns} == {"domain", "instruction_id_list", "kwargs"}


def test_what_a_task_holds_out_is_not_trained_on():
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
