import math

import pytest
import torch
from tensordict import TensorDict

from components.shaping.transform import RaterNoise
from rlcomp.batch import encode_texts
from rlcomp.testing import check_component, make_batch


def rows(reward, responses, groups):
    number = len(reward)
    return make_batch(
        reward=reward,
        rewards=TensorDict({}, [number]),
        reward_valid=torch.ones(number, dtype=torch.bool),
        group_id=groups,
        response=encode_texts(responses),
    )


def test_the_better_answer_leads_by_the_bradley_terry_model():
    # s(0.2 / 0.1) of pairs 0.5 against 0.3.
    torch.manual_seed(0)
    count = 4000
    groups = [group for group in range(count) for _ in range(2)]
    batch = rows(torch.tensor([0.5, 0.3] * count), ["a", "b"] * count, groups)

    found = RaterNoise(temperature=0.1)(batch)["reward"].view(-1, 2)

    share = (found[:, 0] > found[:, 1]).double().mean().item()
    # Three standard errors of 4,000 pairs are .015.
    assert share == pytest.approx(1 / (1 + math.exp(-2)), abs=0.016)


def test_equal_answers_to_a_prompt_stay_equally_good():
    batch = rows(torch.zeros(4), ["a", "b", "a", "a"], [0, 0, 0, 1])

    first, second, third, other = RaterNoise()(batch)["reward"].tolist()

    assert first == third
    assert len({first, second, other}) == 3


def test_the_noise_is_in_units_of_the_temperature_and_a_part():
    torch.manual_seed(3)
    one = RaterNoise(temperature=1.0)(rows(torch.zeros(2), ["a", "b"], [0, 0]))
    torch.manual_seed(3)
    ten = RaterNoise(temperature=10.0)(rows(torch.ones(2), ["a", "b"], [0, 0]))

    torch.testing.assert_close(ten["reward"], 1 + 10 * one["reward"])
    torch.testing.assert_close(ten["rewards", "rater_noise"], 10 * one["reward"])


def test_it_keeps_the_contract():
    check_component(RaterNoise())
