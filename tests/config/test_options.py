"""The options of a folder of configs: which have a setting, a node or a key, and how often."""

import pytest

from rlcomp.config import options as module
from rlcomp.config.declarations import Declaration
from rlcomp.config.options import (
    choice_keys,
    count_choices,
    groups_with,
    options_of,
    options_reading,
    options_writing,
    recipes_with,
    usual_option,
    with_path,
)
from rlcomp.errors import ConfigError

FILES = {
    "config": "defaults:\n  - recipe: grpo\n  - kl: none\n",
    "recipe/grpo": (
        "# @package _global_\ndefaults:\n  - /advantage: mean\n  - /collector@rollout: group\n"
        "  - /value: head\n  - /schedule@learner.schedule: flat\nsize: 3\n"
    ),
    "recipe/sft": "# @package _global_\ndefaults:\n  - /tokenizer: bytes\n  - /value: head\n",
    "recipe/a": "# @package _global_\ndefaults:\n  - override /advantage: gae\n  - /value: other\n",
    "recipe/bc": "# @package _global_\ndefaults:\n  - /loss@value: head\n",
    "recipe/d": "# @package _global_\ndefaults:\n  - /advantage: gae\n  - /advantage@next: gae\n",
    "advantage/mean": "_target_: parts.Mean\nclip: 1\n",
    "advantage/gae": "  _target_: parts.Gae\nclip_low: 1\n",
    "collector/group": "_target_: parts.Group\nsize: 1\n",
    "collector/gone": "_target_: gone.Group\nclip: 1\n",
    "value/head": "defaults:\n  - /schedule@schedule: flat\n_target_: parts.Head\n",
    "value/other": "_target_: parts.Head\n",
    "loss/ratio/token": "_target_: parts.Ratio\n",
}
PARTS = {
    "parts.Mean": Declaration("parts.Mean", reads=("reward",), writes=("advantage",)),
    "parts.Gae": Declaration(
        "parts.Gae", reads=("reward", "value"), optional=("mask",), writes=("advantage",)
    ),
    "parts.Group": Declaration(
        "parts.Group", optional=("advantage",), writes=("tokens", "advantage"), fresh=True
    ),
    "parts.Head": Declaration("parts.Head", reads=("tokens",), writes=("value",)),
    "parts.Ratio": Declaration("parts.Ratio", reads=("advantage",), writes=("ratio",)),
}


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = (tmp_path / name).with_suffix(".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def declare(target):
        if target in PARTS:
            return PARTS[target]
        raise ConfigError("it is not installed")

    monkeypatch.setattr(module, "config_directory", lambda: tmp_path)
    monkeypatch.setattr("rlcomp.config.declarations.read_declaration", declare)
    module._all_options.cache_clear()
    yield tmp_path
    module._all_options.cache_clear()


def test_an_option_of_a_later_place_stands_in_front(directory, tmp_path):
    own = tmp_path / "own"
    (own / "advantage").mkdir(parents=True)
    (own / "advantage" / "mean.yaml").write_text("")

    found = options_of("advantage", [directory, own])

    assert found == {
        "gae": directory / "advantage" / "gae.yaml",
        "mean": own / "advantage" / "mean.yaml",
    }


def test_the_recipes_with_a_node_are_named_the_plainest_first():
    assert recipes_with("advantage") == ["d", "grpo"]
    assert recipes_with("advantage", "value", "parts.Head") == ["grpo", "d"]
    assert recipes_with("value") == ["a", "bc", "sft", "grpo"]
    assert recipes_with("value", "advantage", "parts.Mean") == ["grpo", "a", "bc", "sft"]
    assert recipes_with("gone") == []


def test_groups_with_a_setting_are_named_once_and_recipes_are_none():
    assert groups_with("clip") == ["advantage", "collector"]
    assert groups_with("size") == ["collector"]
    assert groups_with("low") == []


def test_options_that_write_a_key_have_what_they_read():
    assert options_writing("advantage") == ["advantage=gae", "advantage=mean"]
    assert options_writing("advantage", ["reward"]) == ["advantage=mean"]
    assert options_writing("advantage", ["reward", "value"]) == ["advantage=gae", "advantage=mean"]
    assert options_writing("tokens", []) == ["collector@rollout=group"]
    assert options_writing("ratio") == ["loss/ratio=token"]
    assert options_writing("gone") == []


def test_options_that_read_a_key_may_do_without_it():
    assert options_reading("reward", "advantage") == ["advantage=gae", "advantage=mean"]
    assert options_reading("mask", "advantage") == ["advantage=gae"]
    assert options_reading("advantage", "collector") == ["collector@rollout=group"]
    assert options_reading("reward", "value") == []


def test_a_group_is_written_where_the_first_recipe_has_it():
    assert with_path("collector") == "collector@rollout"
    assert with_path("advantage") == "advantage"


def test_a_group_is_chosen_as_most_configs_have_it():
    assert choice_keys("advantage") == ["advantage", "advantage@next"]
    assert choice_keys("collector") == ["collector@rollout"]
    assert choice_keys("kl") == ["kl"]
    assert choice_keys("schedule") == ["schedule@learner.schedule", "schedule@value.schedule"]
    assert choice_keys("gone") == ["+gone"]
    assert choice_keys("loss/ratio") == ["loss/ratio"]


def test_the_usual_option_is_that_of_the_first_that_has_one():
    assert usual_option("kl") == "none"
    assert usual_option("advantage") == "mean"
    assert usual_option("collector@rollout") == "group"
    assert usual_option("tokenizer") == "bytes"
    assert usual_option("gone") is None


def test_choices_are_counted_over_all_options():
    assert count_choices("advantage", "gae") == 2
    assert count_choices("advantage", "mean") == 1
    assert count_choices("value", "head") == 2
    assert count_choices("value", "he") == 0
