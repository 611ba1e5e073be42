import json
import re

import pytest

from components.worlds.form.task import Form
from rlcomp.errors import ConfigError


def test_what_is_asked_for_is_what_the_goal_wants_of_the_fields_of_the_page():
    for index in range(50):
        example = Form(fields=1 + index % 7).example(index)
        asked = dict(re.findall(r"(\w+): ([\w-]+),", example.prompt))

        assert json.loads(example.answer) == asked
        assert re.findall(r'name="(\w+)"', example.columns["page"]) == [*asked]
        assert example.columns["goal"].endswith(json.dumps(example.answer))
        for name, value in asked.items():
            options = re.search(rf'<select name="{name}">(.*)</select>', example.columns["page"])
            assert options is None or f"<option>{value}</option>" in options[1]


def test_an_example_is_always_the_same_and_others_are_others():
    task = Form(examples=40)

    assert len(task) == 40
    assert task.example(3) == Form().example(3)
    assert len({task.example(index).prompt for index in range(40)}) > 35


def test_more_fields_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="fields is 8: must be at most 7"):
        Form(fields=8)
