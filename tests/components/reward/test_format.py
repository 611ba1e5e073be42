"""What is right and in what form, apart: ``reward=unwrapped`` and ``+objective=format``."""

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from rlcomp.config.compose import compose_config


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
def test_unwrapped_judges_what_is_inside_or_the_whole(response, score):
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
