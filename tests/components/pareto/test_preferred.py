import pytest
import torch

from components.pareto.scalarisation import PreferenceWeights
from rlcomp.errors import ConfigError
from rlcomp.pareto.aggregator import Objectives, weighed

ZEROS = torch.zeros(2, dtype=torch.float64)


def objectives(names=("right", "short"), preference=None):
    return Objectives(names, ZEROS, ZEROS, torch.eye(2, dtype=torch.float64), preference)


def test_every_row_gets_the_weights_it_prefers():
    preference = torch.tensor([[0.25, 0.75], [1.0, 0.0]])

    weights = weighed(PreferenceWeights(), objectives(preference=preference))

    assert weights.tolist() == [[0.25, 0.75], [1.0, 0.0]]
    assert weights.dtype == torch.float64


def test_without_preferences_the_missing_stage_is_named():
    with pytest.raises(ConfigError, match="conditioning=text_prefix"):
        PreferenceWeights().weigh(objectives())


def test_preferences_of_other_objectives_are_refused():
    with pytest.raises(
        ConfigError, match=r"3 weights, but there are 2 objectives \(right, short\)"
    ):
        PreferenceWeights().weigh(objectives(preference=torch.ones(1, 3) / 3))
