import pytest

from components.task.file import FileTask, HubTask
from components.worlds.addition.task import Addition
from components.worlds.countdown.task import Countdown
from components.worlds.sorting.task import Sorting
from rlcomp.errors import ConfigError


@pytest.mark.parametrize(
    ("task", "arguments", "words"),
    [
        (Addition, {"digits": 0}, "Addition: digits is 0: must be greater than 0"),
        (Countdown, {"size": "9"}, "Countdown: size is '9': must be an integer"),
        (FileTask, {"path": ""}, "FileTask: path is '': must not be empty"),
        (FileTask, {"path": "a.jsonl", "promt_field": "q"}, "FileTask: .*'promt_field'"),
        (HubTask, {"name": 3}, "HubTask: name is 3: must be a text"),
        (Sorting, {"held_out": 1.5}, "Sorting: held_out is 1.5: must be less than 1"),
    ],
)
def test_a_task_made_by_hand_refuses_wrong_values(task, arguments, words):
    with pytest.raises(ConfigError, match=words):
        task(**arguments)
