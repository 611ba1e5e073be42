import pytest
import torch

from components.pareto.scalarisation import LinearScalarisation, RandomWeights
from rlcomp.errors import ConfigError


def test_weights_are_found_by_name_whatever_their_order(shown):
    weights = LinearScalarisation(weights={"b": 3.0, "a": -1.0}).weigh(shown(torch.eye(2)))

    assert weights.tolist() == [-1.0, 3.0]


def test_without_weights_all_weigh_the_same(shown):
    assert LinearScalarisation(weights=None).weigh(shown(torch.eye(4))).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"a": 1.0, "b": 1.0, "bb": 1.0}, "weights names 'bb'; did you mean 'b'"),
        ({"a": 1.0}, "the objective 'b' is not in weights"),
    ],
)
def test_weights_must_name_the_objectives(weights, message, shown):
    with pytest.raises(ConfigError, match=message):
        LinearScalarisation(weights=weights).weigh(shown(torch.eye(2)))


def test_an_empty_list_of_weights_is_refused():
    with pytest.raises(ConfigError, match="weights is empty"):
        LinearScalarisation(weights={})


def test_random_weights_lie_on_the_simplex_and_come_from_the_part_s_own_generator(shown):
    part, objectives = RandomWeights(), shown(torch.eye(3))
    state, outside = part.generator.get_state(), torch.get_rng_state()

    first, second = part.weigh(objectives), part.weigh(objectives)

    assert float(first.sum()) == pytest.approx(1)
    assert float(first.min()) > 0
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), outside)
    part.generator.set_state(state)
    assert torch.equal(part.weigh(objectives), first)
