import pytest
from tensordict import TensorDict

from components.conditioning import TeacherPrompt
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.errors import ConfigError
from rlcomp.testing import check_component


def test_it_keeps_the_contract():
    check_component(TeacherPrompt(template="{answer}={prompt}"))


def test_the_teacher_reads_the_solution_as_it_stands():
    texts = {"prompt": ["42>", "{answer}>"], "answer": ["24", "{prompt}"]}
    batch = TensorDict({key: encode_texts(rows) for key, rows in texts.items()}, batch_size=[2])

    found = TeacherPrompt(template="{answer}={prompt}")(batch)

    assert decode_texts(found["teacher_prompt"]) == ["24=42>", "{prompt}={answer}>"]
    assert decode_texts(found["prompt"]) == texts["prompt"]


def test_a_template_without_the_prompt_is_refused():
    with pytest.raises(ConfigError, match=r"must hold \{prompt\}"):
        TeacherPrompt(template="{answer}")
