from math import log

import pytest
import torch
from tensordict import TensorDict

from components.loss.trust_region.divergence import DPPO
from rlcomp.errors import ConfigError
from rlcomp.functional.divergence import binary_kl, binary_total_variation
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")
OLD = [[0.01, 0.5, 0.5, 0.9], [0.9, 0.6, 0.5, NAN]]
NEW = [[0.10, 0.7, 0.3, 0.6], [0.6, 0.2, 0.9, NAN]]
ADVANTAGE = [[1.0, 1.0, 1.0, 0.5], [-1.0, -2.0, 0.0, NAN]]


def batch():
    """Ratios 10 1.4 0.6 0.67 with A > 0, 0.67 0.33 with A < 0, and 1.8 with A = 0."""
    old, new = torch.tensor(OLD).log(), torch.tensor(NEW).log()
    return make_batch(
        response_mask=~torch.tensor(OLD).isnan(),
        log_probs=new,
        old_log_probs=old,
        ratio=(new - old).exp().requires_grad_(),
        advantage=ADVANTAGE,
    )


def test_a_bound_that_no_total_variation_reaches_is_refused():
    with pytest.raises(ConfigError, match=r"delta is 1, .*at most 1, .*divergence=kl"):
        DPPO(delta=1.0)
    DPPO(divergence="kl", delta=2.0)


def test_a_rare_token_stays_however_large_its_ratio_and_a_frequent_one_leaves():
    rows = batch()

    surrogate = DPPO(delta=0.25)(rows)["surrogate"]
    surrogate.sum().backward()

    # |p - p_old|: 0.09 0.2 0.2 0.3, and 0.3 0.4 0.4; of those above 0.25 the first goes against A,
    # and of A = 0 there is nothing.
    want = torch.tensor([[10, 1.4, 0.6, 1 / 3], [0, 0, 0, 0]])
    torch.testing.assert_close(surrogate.detach(), want)
    assert rows["ratio"].grad.tolist() == [[1, 1, 1, 0.5], [0, 0, 0, 0]]


def test_the_side_that_moves_with_the_advantage_is_masked_and_counted():
    with recording() as ledger:
        surrogate = DPPO(delta=0.15)(batch())["surrogate"].detach()

    torch.testing.assert_close(surrogate, torch.tensor([[10, 0, 0.6, 1 / 3], [0, 0, 0, 0]]))
    # 0.2 upwards of A > 0; 0.3 and 0.4 downwards of A < 0.
    assert ledger.means() == pytest.approx(
        {
            "trust_region/clip_fraction_high": 1 / 7,
            "trust_region/clip_fraction_low": 2 / 7,
            "trust_region/divergence": (0.09 + 0.2 + 0.2 + 0.3 + 0.3 + 0.4 + 0.4) / 7,
        }
    )


@pytest.mark.parametrize(("after", "advantage", "want"), [(0.75, 1.0, 1.5), (0.25, -2.0, -1.0)])
def test_a_divergence_of_delta_is_allowed(after, advantage, want):
    # 1/2 goes up where A > 0 or down where A < 0, by what the bound allows to the last digit.
    old, new = torch.tensor([[0.5]]).log(), torch.tensor([[after]]).log()
    entries = {
        "response_mask": torch.tensor([[True]]),
        "log_probs": new,
        "old_log_probs": old,
        "ratio": torch.tensor([[2 * after]]),
        "advantage": torch.tensor([[advantage]]),
    }
    delta = binary_total_variation(old, new).item()

    with recording() as ledger:
        result = DPPO(delta=delta)(TensorDict(entries, batch_size=[1]))

    assert delta == pytest.approx(0.25)
    assert result["surrogate"].item() == want
    assert ledger.means()["trust_region/clip_fraction_high"] == 0
    assert ledger.means()["trust_region/clip_fraction_low"] == 0


def test_the_kl_of_this_token_or_another():
    def kl(old, new):
        return old * log(old / new) + (1 - old) * log((1 - old) / (1 - new))

    # 0.071 0.087 0.087 0.226 0.226 0.335 0.511: at 0.08 the first stays, whose ratio is large.
    moves = [(0.01, 0.1), (0.5, 0.7), (0.5, 0.3), (0.9, 0.6), (0.9, 0.6), (0.6, 0.2), (0.5, 0.9)]
    with recording() as ledger:
        surrogate = DPPO(divergence="kl", delta=0.08)(batch())["surrogate"].detach()

    torch.testing.assert_close(surrogate, torch.tensor([[10, 0, 0.6, 1 / 3], [0, 0, 0, 0]]))
    assert ledger.means()["trust_region/divergence"] == pytest.approx(
        sum(kl(*move) for move in moves) / 7
    )


def test_a_binary_divergence_is_below_that_of_the_whole_distributions():
    draw = torch.Generator().manual_seed(0)
    old, new = torch.randn(2, 50, 7, generator=draw, dtype=torch.float64).log_softmax(-1)
    variation = (old.exp() - new.exp()).abs().sum(1, keepdim=True) / 2
    kl = (old.exp() * (old - new)).sum(1, keepdim=True)

    assert bool((binary_total_variation(old, new) <= variation + 1e-12).all())
    assert bool((binary_kl(old, new) <= kl + 1e-12).all())
    assert bool((binary_kl(old, new) >= -1e-12).all())


def test_the_kl_of_certain_tokens_is_finite():
    certain, rare = torch.zeros(1, 1), torch.full((1, 1), -200.0)

    assert binary_kl(certain, certain).item() == 0
    # About log(1 / 1e-7), where the log ends.
    assert binary_kl(certain, rare).item() == pytest.approx(16.118, abs=0.2)
    assert binary_kl(rare, certain).item() == pytest.approx(16.118, abs=0.2)
