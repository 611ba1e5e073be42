from components.task.composite import HintedTask
from components.worlds.sorting.task import Sorting

TEMPLATE = "{answer}={prompt}"


def examples(share):
    task = HintedTask(task=Sorting(length=3), template=TEMPLATE, share=share)
    return [task.example(index) for index in range(len(task))]


def test_of_all_examples_the_share_has_its_answer_in_front():
    # 1,000 examples: .8 of them, with a standard deviation of .013.
    told = [example for example in examples(0.8) if "=" in example.prompt]

    assert 760 <= len(told) <= 840
    assert {e.prompt for e in told} == {f"{e.answer}={e.source}" for e in told}


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
