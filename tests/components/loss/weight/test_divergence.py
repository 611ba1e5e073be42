import pytest

from components.loss.weight.importance import DivergenceFilter
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")


def batch():
    # rollout - old: 0.2, -0.4, no record | 0.1, 0.1, padding.
    return make_batch(
        response_mask=[[True, True, True], [True, True, False]],
        old_log_probs=[[-1.0, -1.0, -1.0], [-1.0, -1.0, NAN]],
        rollout_log_probs=[[-0.8, -1.4, NAN], [-0.9, -0.9, NAN]],
    )


@pytest.mark.parametrize(
    ("estimator", "aggregate", "high", "low", "kept"),
    [
        # k2 = d^2 / 2: 0.02, 0.08, 0 | 0.005, 0.005
        ("k2", "token", 0.03, None, [[1, 0, 1], [1, 1, 0]]),
        ("k2", "sum", 0.05, None, [[0, 0, 0], [1, 1, 0]]),
        ("k2", "mean", 0.034, None, [[1, 1, 1], [1, 1, 0]]),
        ("k2", "max", 0.05, None, [[0, 0, 0], [1, 1, 0]]),
        # k1 = d
        ("k1", "token", 0.15, -0.3, [[0, 0, 1], [1, 1, 0]]),
        # k3 = exp(-d) - 1 + d: 0.0187, 0.0918, 0 | 0.0048, 0.0048
        ("k3", "mean", 0.0368, None, [[0, 0, 0], [1, 1, 0]]),
        ("k3", "mean", 0.0369, None, [[1, 1, 1], [1, 1, 0]]),
    ],
)
def test_divergent_tokens_are_dropped(estimator, aggregate, high, low, kept):
    part = DivergenceFilter(estimator=estimator, aggregate=aggregate, high=high, low=low)

    assert part(batch())["token_weight"].tolist() == kept


def test_the_divergence_and_the_dropped_share_are_recorded():
    with recording() as ledger:
        DivergenceFilter(estimator="k2", aggregate="token", high=0.03)(batch())

    assert ledger.means() == {
        "weight/divergence": pytest.approx(0.022),  # (0.02 + 0.08 + 0 + 0.005 + 0.005) / 5
        "weight/dropped_divergence": pytest.approx(0.2),
    }


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(ConfigError, match=r"low is 0\.5, above high=0\.01"):
        DivergenceFilter(low=0.5)
