"""Recipes of one's own that lack the lines at their top."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.user_yaml import check_own_yamls
from rlcomp.errors import ConfigError

STEPS = "phases:\n  rl:\n    steps: 3\n"
HEAD = "# Mine.\n# @package _global_\n"
FROM = "defaults:\n  - grpo\n  - _self_\n"


@pytest.fixture
def place(tmp_path):
    for group in ("recipe", "experiment"):
        (tmp_path / group).mkdir()
    for name, text in {
        "recipe/bare": STEPS,
        "recipe/apart": FROM + STEPS,
        "recipe/alone": HEAD + STEPS,
        "recipe/good": HEAD + FROM + STEPS,
        "recipe/own": HEAD + STEPS + "    stages: []\n",
        "experiment/bare": STEPS,
        "experiment/good": HEAD + STEPS,
    }.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("word", "lines"),
    [
        ("recipe=bare", "# @package _global_\ndefaults:\n  - grpo\n  - _self_"),
        ("recipe=alone", "# @package _global_\ndefaults:\n  - grpo\n  - _self_"),
        ("recipe=apart", "# @package _global_"),
        ("experiment=bare", "# @package _global_"),
    ],
)
def test_the_file_is_named_with_the_lines_that_belong_at_its_top(place, word, lines):
    file = place / f"{word.replace('=', '/')}.yaml"

    with pytest.raises(ConfigError) as told:
        compose_config([word, "phases.rl.steps=2"], [str(place)])

    assert str(told.value) == f"{file}: put at its top\n{lines}"


def test_each_of_a_sweep_is_looked_at(place):
    with pytest.raises(ConfigError, match=r"bare\.yaml: put at its top"):
        check_own_yamls(["-m", "recipe=good,bare"], [str(place)])


@pytest.mark.parametrize("word", ["recipe=good", "recipe=own", "experiment=good", "recipe=grpo"])
def test_whole_ones_are_taken(place, word):
    assert check_own_yamls([word, "advantage=gae"], [str(place)]) is None


@pytest.mark.parametrize("key", ["target", "_target", "class", "class_path", "cls"])
@pytest.mark.parametrize("word", ["advantage=mine", "+advantage@other=mine", "loss/weight=[mine]"])
def test_what_stands_for_the_target_elsewhere_is_named_with_its_file(tmp_path, key, word):
    for group in ("advantage", "loss/weight"):
        (tmp_path / group).mkdir(parents=True)
        (tmp_path / group / "mine.yaml").write_text(f"{key}: my_parts.Mine\n")

    with pytest.raises(
        ConfigError, match=rf"mine\.yaml: '{key}' has to be _target_; write _target"
    ):
        check_own_yamls([word], [str(tmp_path)])


@pytest.mark.parametrize(
    "text", ["_target_: a.B\nclass: c.D\n", "class: large\n", "class: 3\n", "[1]\n", "a: [\n"]
)
def test_a_part_with_its_target_and_what_names_none_are_let_be(tmp_path, text):
    (tmp_path / "advantage").mkdir()
    (tmp_path / "advantage" / "mine.yaml").write_text(text)

    check_own_yamls(["advantage=mine"], [str(tmp_path)])
