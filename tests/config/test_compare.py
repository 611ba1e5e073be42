"""Two configs, value by value."""

from omegaconf import OmegaConf

from rlcomp.config.compare import config_differences, flatten

CONFIG = {
    "seed": 0,
    "loss": {"_target_": "a.b.Clip", "low": 0.2, "inner": {"_target_": "c.Mean"}},
    "sizes": [1, {"a": 2}],
    "same": "${seed}",
    "none": None,
    "empty": {},
}


def test_every_value_has_its_path_and_a_part_its_class():
    assert flatten(OmegaConf.create(CONFIG)) == {
        "seed": "0",
        "loss": "Clip",
        "loss.low": "0.2",
        "loss.inner": "Mean",
        "sizes": "[1, {'a': 2}]",
        "same": "${seed}",
        "none": "None",
    }


def test_what_differs_or_is_absent_is_told_with_both_values():
    other = {**CONFIG, "seed": 1, "loss": {"_target_": "x.Clip", "high": 0.3}}
    del other["same"]

    assert config_differences(OmegaConf.create(CONFIG), OmegaConf.create(other)) == {
        "seed": ("0", "1"),
        "loss.low": ("0.2", "-"),
        "loss.inner": ("Mean", "-"),
        "same": ("${seed}", "-"),
        "loss.high": ("-", "0.3"),
    }
    assert config_differences(OmegaConf.create(CONFIG), OmegaConf.create(CONFIG)) == {}
