"""Exact, numeric and formatted answers."""

import pytest
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from components.reward.answer import ExactMatch, Numeric
from rlcomp.config.compose import compose_config
from rlcomp.errors import DataError
from rlcomp.testing import check_component, make_batch


@pytest.mark.parametrize(
    ("response", "score"), [("42", 1.0), (" 42\n", 1.0), ("4 2", 0.0), ("42.", 0.0), ("", 0.0)]
)
def test_white_space_around_the_response_does_not_matter(response, score):
    assert ExactMatch().score("", response, "42") == score


@pytest.mark.parametrize(("response", "score"), [("42", 1.0), ("42 ", 0.0)])
def test_without_strip_it_does(response, score):
    assert ExactMatch(strip=False).score("", response, "42") == score


@given(st.text(), st.text())
def test_only_the_answer_itself_is_right(response, answer):
    assert ExactMatch(strip=False).score("", response, answer) == (response == answer)


@pytest.mark.parametrize(
    ("where", "response", "score"),
    [
        ("boxed", r"\boxed{ 42}", 1.0),
        ("boxed", "42", 0.0),
        ("boxed", r"\boxed{43}", 0.0),
        ("tagged", "<answer>42 </answer>", 1.0),
        ("tagged", r"\boxed{42}", 0.0),
    ],
)
def test_exact_match_reads_the_agreed_place(where, response, score):
    assert ExactMatch(where=where).score("", response, " 42") == score


def test_a_column_can_hold_the_gold_text():
    reward = ExactMatch(column="reasoning")
    batch = make_batch(
        prompt=["312>"] * 3,
        response=["123=2", "2", "123=3"],
        answer=["2", "2", "123=3"],
        columns=[{"reasoning": " 123=2"}] * 3,
    )
    assert reward(batch)["reward"].tolist() == [1.0, 0.0, 0.0]
    assert reward.needed_columns == {"reasoning"}


def test_an_example_without_the_column_is_refused():
    with pytest.raises(DataError, match="reward=exact_match needs the column 'thought'"):
        ExactMatch(column="thought").score_row({"prompt": "", "response": "1", "answer": "1"})


def test_the_answer_is_the_gold_text_and_needs_no_column():
    assert ExactMatch().needed_columns == frozenset()
    assert ExactMatch().score_row({"prompt": "", "response": "7", "answer": "7"}) == 1.0


def test_it_keeps_the_contract():
    check_component(Numeric(where="last"))


def test_its_arguments_reach_the_verifier():
    # 9 is not marked; 9.5 is within a tenth of 10, and within 1 of it.
    assert Numeric().score("", "9", "9") == 0.0
    assert Numeric(where="last").score("", "9", "9") == 1.0
    assert Numeric().score("", "A: 9.5", "10") == 0.0
    assert Numeric(relative=0.1).score("", "A: 9.5", "10") == 1.0
    assert Numeric(absolute=1.0).score("", "A: 9.5", "10") == 1.0
    assert Numeric().score("", "A: 9", "ten") is None


def reward(name):
    config = compose_config([f"reward={name}"])
    return instantiate(OmegaConf.to_container(config.reward))


@pytest.mark.parametrize(
    ("response", "score"),
    [("(124)", 1.0), ("(999)", 1.0), ("124", 0.0), ("(124", 0.0), ("()", 0.0), ("(1)2", 0.0)],
)
def test_the_format_is_digits_in_round_brackets_right_or_wrong(response, score):
    assert reward("format").score("", response, "124") == score


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("124", 1.0),
        ("(124)", 1.0),
        ("421", 0.0),
        ("(421)", 0.0),
        ("(124", 0.0),
        ("124)", 0.0),
        ("((124))", 0.0),
        ("(124)(124)", 0.0),
        ("", 0.0),
    ],
)
def test_unwrapped_judges_the_content_or_the_whole(response, score):
    assert reward("unwrapped").score("", response, "124") == score


# TRL's cases of its own think format (data/peers/trl_rewards.jsonl, Apache-2.0), and four of ours.
THOUGHTS = [
    ("<think>This is my reasoning.</think>This is my answer.", 1.0),
    ("<think></think>\nThis is my answer.", 1.0),
    ("<think>\nThis is <some tag> my reasoning.</think>\nThis is my answer.", 1.0),
    ("<think>\nThis is my reasoning.\nThis is my answer.", 0.0),
    ("This is my reasoning.</think>\nThis is my answer.", 0.0),
    ("This<think>is my reasoning.</think>\nThis is my answer.", 0.0),
    ("<think>This is<think>my reasoning.</think></think>This is my answer.", 0.0),
    ("<think>This is</think>\nmy\n<think>reasoning.</think>\nThis is my answer.", 0.0),
    ("<think>a</think>b</think>", 0.0),
    ("<think>a</think>b<think>", 0.0),
    (" <think>a</think>b", 0.0),
    ("", 0.0),
]


@pytest.mark.parametrize(("response", "score"), THOUGHTS)
def test_a_response_is_one_thought_and_then_an_answer(response, score):
    assert reward("think_format").score("", response, "anything") == score


@pytest.mark.parametrize(
    ("name", "response"), [("boxed", r"\boxed{124}"), ("tagged", "<answer>124</answer>")]
)
def test_the_place_of_an_answer_is_a_yaml(name, response):
    assert reward(name).score("", response, "124") == 1.0
    assert reward(name).score("", "124", "124") == 0.0


def test_last_number_reads_a_bare_number_and_numeric_does_not():
    assert reward("last_number").score("", "so 124", "124") == 1.0
    assert reward("numeric").score("", "so 124", "124") == 0.0
