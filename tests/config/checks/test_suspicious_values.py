"""Warnings of legal but suspicious values."""

import warnings

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigErrors, RlcompWarning

LOW, HIGH = "loss.trust_region.clip_low", "loss.trust_region.clip_high"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["recipe=dapo", f"{HIGH}=1.28"], rf"held in \[0.8, 2.28\]; .*{LOW}=0.2 {HIGH}=0.28$"),
        (["loss/trust_region=dual_clip", f"{LOW}=0.9"], rf"\[0.1, 1.2\]; .*{LOW}=0.1 {HIGH}=0.2$"),
    ],
)
def test_bounds_of_a_ratio_where_distances_are_asked_for(words, told):
    with pytest.warns(RlcompWarning, match=told):
        plan_of(compose_config(words))


def test_a_pair_of_ratios_is_refused():
    told = rf"held in \[0.2, 2.2\]; for .* set {LOW}=0.2 {HIGH}=0.2$"

    with pytest.raises(ConfigErrors, match=told):
        plan_of(compose_config([f"{LOW}=0.8", f"{HIGH}=1.2"]))


@pytest.mark.parametrize("words", [[], ["loss=cispo"], [f"{LOW}=0.4", f"{HIGH}=0.9"]])
def test_distances_and_weights_are_no_doubt(words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan_of(compose_config(words))


@pytest.mark.parametrize(
    "weight",
    ["tis", "tis_normalised", "tis_sequence", "mis", "mis_sequence", "geometric", "divergence"],
)
def test_weights_of_log_probs_that_are_a_copy(weight):
    told = rf"loss.weight.{weight} compares .* changes nothing: set old_log_probs=recomputed$"

    with pytest.warns(RlcompWarning, match=told):
        plan_of(compose_config([f"loss/weight={weight}"]))


def test_a_comparison_with_a_copy_in_place_of_a_measurement():
    with pytest.warns(RlcompWarning, match=r"^mismatch compares .* set old_log_probs=recomputed$"):
        plan_of(compose_config(["mismatch=recomputed"]))


@pytest.mark.parametrize(
    "words",
    [["old_log_probs=recomputed", "loss/weight=tis"], ["loss/weight=[off_policy_mask,overlong]"]],
)
def test_weights_of_other_log_probs_are_no_doubt(words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan_of(compose_config(words))
