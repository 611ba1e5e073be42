from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from tensordict import TensorDict

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import SequenceMean, TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.weight.importance import SelfNormalisedWeight
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch

CONF = Path(__file__).resolve().parents[3] / "conf" / "loss"
NAMED = sorted(f.stem for f in CONF.glob("*.yaml") if "trust_region" in f.read_text())


def loss(reduction=None) -> PolicyLoss:
    return PolicyLoss(
        ratio=TokenRatio(),
        trust_region=Clip(clip_low=0.2, clip_high=0.2),
        reduction=reduction or TokenMean(),
    )


def batch(advantage: float) -> TensorDict:
    return make_batch(
        response_mask=[[False, True, True, True]],
        log_probs=torch.tensor([[9.0, -1.0, -2.0, -0.5]], requires_grad=True),
        old_log_probs=[[9.0, -1.2, -1.5, -0.5]],
        advantage=[[9.0, advantage, advantage, advantage]],
    )


@pytest.mark.parametrize(
    ("advantage", "value", "gradient"),
    [
        # Ratios 1.2214028, 0.6065307, 1 within [0.8, 1.2]: see test_surrogate.
        (1.0, -0.9355102, [0, 0, -0.2021769, -0.3333333]),
        (-1.0, 1.0071343, [0, 0.4071343, 0, 0.3333333]),
    ],
)
def test_three_tokens_by_hand(advantage, value, gradient):
    rows = batch(advantage)

    result = loss()(rows)["loss"]
    result.backward()

    assert result.item() == pytest.approx(value, abs=1e-6)
    torch.testing.assert_close(rows["log_probs"].grad[0], torch.tensor(gradient))


def test_the_parts_leave_nothing_in_the_batch():
    rows = batch(1.0)

    loss()(rows)

    assert set(rows.keys()) == {"response_mask", "log_probs", "old_log_probs", "advantage"}


def test_the_reduction_weighs_the_tokens():
    mask = torch.tensor([[True, True], [True, False]])
    rows = make_batch(
        response_mask=mask,
        log_probs=torch.zeros(2, 2),
        old_log_probs=torch.zeros(2, 2),
        advantage=[[1.0, 2.0], [6.0, 0.0]],
    )

    assert loss(TokenMean())(rows)["loss"].item() == pytest.approx(-3.0)  # (1 + 2 + 6) / 3
    # (1.5 + 6) / 2
    assert loss(SequenceMean())(rows)["loss"].item() == pytest.approx(-3.75)


def test_two_parts_that_prepare_the_same_key_are_refused():
    parts = {"ratio": TokenRatio(), "trust_region": Clip(), "reduction": TokenMean()}
    weight = {"token": SelfNormalisedWeight(), "sequence": SelfNormalisedWeight(level="sequence")}

    with pytest.raises(ConfigError, match=r"weight\.token and weight\.sequence both prepare 'wei"):
        PolicyLoss(**parts, weight=weight)


def test_no_gradient_reaches_the_advantage():
    rows = batch(1.0)
    rows["advantage"].requires_grad_()

    loss()(rows)["loss"].backward()

    assert rows["advantage"].grad is None


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("region", ["clip", "sapo"])
def test_a_trust_region_chosen_for_a_named_loss_is_that_trust_region(name, region):
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        chosen = compose(name, overrides=[f"trust_region={region}"]).trust_region

    assert chosen == OmegaConf.load(CONF / "trust_region" / f"{region}.yaml")


def test_the_clip_ranges_of_luspo_and_the_share_of_bapo_at_half_stand_in_their_trust_regions():
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        luspo, bapo = compose("luspo").trust_region, compose("bapo_half").trust_region

    assert (luspo.clip_low, luspo.clip_high) == (0.002, 0.0025)  # arXiv:2602.05261, section 5.1
    assert bapo.share == 0.5
    assert {"luspo", "bapo_half"} <= set(NAMED)
