"""Configs composed outside the program, with folders of one's own."""

import pytest
from omegaconf import OmegaConf

from rlcomp.config.compose import compose_config, compose_with_choices
from rlcomp.errors import ConfigError


@pytest.fixture
def own(tmp_path):
    (tmp_path / "advantage").mkdir()
    (tmp_path / "advantage" / "mine.yaml").write_text("_target_: my.Mine\n")
    return str(tmp_path)


def test_a_config_has_a_directory_unless_one_is_named():
    config = compose_config(["seed=7"])

    assert config.seed == 7
    assert config.directory == "runs/..."
    assert "hydra" not in config
    assert compose_config(["directory=here"]).directory == "here"


def test_options_of_ones_own_folder_are_there_and_choices_come_beside(own):
    config, choices = compose_with_choices(["advantage=mine"], [own])

    assert config.advantage == {"_target_": "my.Mine"}
    assert (choices["advantage"], choices["recipe"]) == ("mine", "grpo")
    assert OmegaConf.select(compose_config(["advantage=mine"], [own]), "advantage._target_") == (
        "my.Mine"
    )


def test_a_folder_that_is_not_there_is_refused(own):
    for gone in (f"{own}/gone", f"{own}/advantage/mine.yaml"):
        with pytest.raises(ConfigError, match=f"--config-dir is {gone}: there is no such"):
            compose_config([], [own, gone])
