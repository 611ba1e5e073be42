import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from components.task.file import FileTask
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example

PATTERN = OmegaConf.load(Path(__file__).parents[3] / "conf" / "task" / "gsm8k.yaml").answer_pattern


@pytest.fixture
def path(tmp_path) -> str:
    rows = [{"question": f"{n}+1?", "answer": f"It is\n#### {n + 1}", "level": n} for n in (1, 2)]
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_each_row_is_an_example(path):
    task = FileTask(
        path=path,
        demonstration_field="answer",
        answer_pattern=PATTERN,
        prompt_template="Question: {prompt}\nAnswer: ",
    )

    assert len(task) == 2
    assert task.example(1) == Example(
        "Question: 2+1?\nAnswer: ", "3", "It is\n#### 3", columns={"level": 2}
    )


def test_a_wrong_column_is_found_when_the_task_is_made(path):
    with pytest.raises(DataError, match=r"sums.jsonl:1: .*'prompt'"):
        FileTask(path=path, prompt_field="prompt")


def test_a_wrong_template_is_found_when_the_task_is_made(path):
    with pytest.raises(ConfigError, match=r"\{lvl\}"):
        FileTask(path=path, prompt_template="{lvl} {prompt}")


def test_gsm8k_is_read_whole_and_its_answers_are_the_final_numbers(shared_data):
    file = shared_data / "math" / "gsm8k_test.jsonl.gz"
    task = FileTask(path=str(file), demonstration_field="answer", answer_pattern=PATTERN)
    final = FileTask(path=str(file), answer_field="final")

    assert len(task) == 260
    assert all(task.example(n).answer == final.example(n).answer for n in range(260))
    assert all("####" in task.example(n).demonstration for n in range(260))


@pytest.mark.parametrize("end", ["", "\n", "\n\n", " ", "  \n \n"])
def test_blanks_after_the_answer_of_gsm8k_are_no_part_of_it(tmp_path, end):
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"question": "q", "answer": f"so\n#### 1,000 USD{end}"}))

    assert FileTask(path=str(file), answer_pattern=PATTERN).example(0).answer == "1,000 USD"
