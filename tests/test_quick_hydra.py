"""The tests compose a config as Hydra does, in less time."""

from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import OmegaConf

from rlcomp.config.compose import compose_config


def flatten(value: Any) -> list[str]:
    """Return all keys and values in their order; ``==`` takes 1 for 1.0 and ignores the order."""
    if isinstance(value, dict):
        return [text for key in value for text in (repr(key), *flatten(value[key]))]
    if isinstance(value, list):
        return [str(len(value)), *(text for item in value for text in flatten(item))]
    return [repr(value)]


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("recipe=rpt", "base=somewhere", "adapter=lora"),
        ("recipe=sac",),
        ("recipe=dpo", "loss=kto", "+task@corpus=running_sum"),
        ("recipe=agent", "+environment@probe=tools"),
    ],
)
def test_the_quick_merge_gives_hydras_config(overrides, quick_hydra, monkeypatch):
    configs = []

    def merge_both_ways(self, defaults, repo):
        quick = quick_hydra.merge_quickly(self, defaults, repo)
        whole = quick_hydra.merge_copies(self, defaults, repo)
        for config in (quick, whole):
            configs.append(flatten(OmegaConf.to_container(config, resolve=False)))
        return merge(self, defaults=defaults, repo=repo)

    merge = ConfigLoaderImpl._compose_config_from_defaults_list
    monkeypatch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", merge_both_ways)
    compose_config(overrides)

    assert configs[0] == configs[1]
