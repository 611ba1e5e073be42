"""What is right and in what form, apart: ``reward=unwrapped`` and ``+objective=format``."""

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from rlcomp.wiring.compose import compose_config


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
