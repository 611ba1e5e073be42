import math

import pytest
import torch

from rlcomp.errors import ConfigError
from rlcomp.functional.statistics import Estimate, clustered_mean, pool, z_score


def test_answers_are_averaged_in_their_cluster_first():
    # Cluster means 1/4, 1/2, 1/5: mean 19/60; sum of squares 31/600, over 3 * 2.
    values = torch.tensor([0.0, 0.5, 0.2, 0.0, 1.0])

    found = clustered_mean(values, torch.tensor([4, 4, 7, 9, 9]))

    assert found == pytest.approx(Estimate(19 / 60, 31 / 3600))


@pytest.mark.parametrize("cluster", [[], [5, 5]])
def test_one_prompt_has_no_variance(cluster):
    with pytest.raises(ConfigError, match=f"over {len(set(cluster))} prompts"):
        clustered_mean(torch.ones(len(cluster)), torch.tensor(cluster, dtype=torch.int64))


def test_the_mean_of_independent_estimates():
    assert pool([Estimate(1.0, 0.5), Estimate(4.0, 0.25)]) == Estimate(2.5, 0.1875)


@pytest.mark.parametrize(
    ("now", "before", "z"),
    [
        ((0.5, 0.09), (0.9, 0.16), -0.8),
        ((0.5, 0.0), (0.5, 0.0), 0.0),
        ((0.5, 0.0), (0.4, 0.0), math.inf),
        ((0.4, 0.0), (0.5, 0.0), -math.inf),
    ],
)
def test_z_is_the_difference_in_standard_deviations(now, before, z):
    assert z_score(Estimate(*now), Estimate(*before)) == pytest.approx(z)
