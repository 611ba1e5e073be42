"""Each option stands under its own name, so that several of them merge."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

CONF = Path(__file__).parents[4] / "conf"
OPTIONS = sorted(file.stem for file in (CONF / "loss" / "weight").glob("*.yaml"))


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "none"])
def test_each_weight_has_its_own_name(name):
    option = OmegaConf.load(CONF / "loss" / "weight" / f"{name}.yaml")

    assert list(option) == [name]


@pytest.mark.parametrize(
    ("chosen", "names"),
    [("none", []), ("tis", ["tis"]), ("[tis,off_policy_mask]", ["tis", "off_policy_mask"])],
)
def test_several_weights_are_chosen_in_one_list(chosen, names):
    overrides = ["recipe=grpo", f"loss/weight={chosen}", "directory=x"]
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF.resolve())):
        config = compose("config", overrides=overrides)

    assert list(config.loss.weight) == names
