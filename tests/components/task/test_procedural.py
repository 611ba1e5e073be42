from components.task.procedural import SeedTask
from rlcomp.interfaces.task import Task


def test_each_example_is_a_world_and_the_held_out_ones_are_others():
    task: Task = SeedTask(prompt="Go.", examples=1000, held_out=0.1)
    examples = [task.example(index) for index in range(len(task))]

    assert {example.prompt for example in examples} == {"Go."}
    assert [example.columns["seed"] for example in examples] == list(range(1000))
    # A tenth, within three standard deviations of 9.5.
    assert 71 < sum(example.is_held_out(task.held_out) for example in examples) < 129
