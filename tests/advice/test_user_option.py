"""A class, a file or a folder where the name of an option belongs."""

from types import SimpleNamespace

import pytest

from rlcomp.advice import user_option as module
from rlcomp.advice.user_option import misplaced_yaml, own_option

FILES = {
    "advantage/gae.yaml": "_target_: a.Gae\nlow: 1\n",
    "advantage/mean.yaml": "# Of a group.\n\n_target_: a.Mean\n",
    "advantage/norm.yaml": "_target_: a.Norm\n",
    "kl/fixed.yaml": "size: 1\n",
    "loss/ratio/token.yaml": "_target_: a.Token\n",
    "reward/boxed.yaml": "_target_: a.Boxed\n",
    "task/sorting.yaml": "_target_: a.Sorting\n",
    "model/tiny.yaml": "_target_: a.Tiny\n",
}


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    place = tmp_path / "conf"
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    monkeypatch.setattr(module, "config_directory", lambda: place)
    monkeypatch.setattr(module, "usual_option", {"advantage": "norm", "kl": "fixed"}.get)
    monkeypatch.chdir(tmp_path)
    return place


def told(word, directories=(), **choices):
    group, _, option = word.partition("=")
    line = SimpleNamespace(choices=choices) if choices else None
    return own_option(group, option, directories, line)


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("task=rows.jsonl", "task=file task.path=rows.jsonl"),
        ("task/data=rows.csv", "task=file task.path=data/rows.csv"),
        ("prompt=chat.jinja", "prompt=chat prompt.template=chat.jinja"),
        ("task/mine=rows", "task=hub task.name=mine/rows"),
        ("tokenizer/mine=bpe", "tokenizer=pretrained tokenizer.path=mine/bpe"),
        ("reference/mine=one", "reference=pretrained reference.path=mine/one"),
        ("model/mine=one", None),  # what base=DIR takes is told elsewhere
        ("advantage/mine=one", None),
        ("advantage=gone", None),
    ],
)
def test_files_and_names_on_the_hub_are_settings_of_an_option(word, instead):
    assert told(word) == instead


def test_a_folder_is_what_reads_it_and_of_a_task_none(tmp_path):
    (tmp_path / "here" / "model").mkdir(parents=True)

    assert told("model/here=model") == "base=here/model"
    assert told("model=here") == "base=here"
    assert told("tokenizer=here") == "tokenizer=pretrained tokenizer.path=here"
    assert told("task=here") is None
    assert told("advantage=here") is None


def test_a_yaml_that_lies_beside_its_group_is_told_with_its_place(tmp_path):
    own = tmp_path / "own"
    (own / "deep").mkdir(parents=True)
    (own / "deep" / "mine.yml").write_text("")

    found = told("advantage=mine", [str(own)])
    assert f"{own}/deep/mine.yml is in no group" in found
    assert f"move it to {own}/advantage/mine.yaml" in found
    assert misplaced_yaml("advantage", "other", [str(own)]) is None
    assert misplaced_yaml("advantage", "mine", []) is None
    (own / "deep" / "mine.yml").unlink()
    (own / "advantage").mkdir()
    (own / "advantage" / "mine.yaml").write_text("")
    assert misplaced_yaml("advantage", "mine", [str(own)]) is None


def test_a_class_takes_the_place_of_the_usual_option_without_settings():
    found = told("advantage=mine.parts.MyGAEPart")

    assert "advantage=norm advantage._target_=mine.parts.MyGAEPart" in found
    assert "FOLDER/advantage/my_gaepart.yaml" in found
    assert "'_target_: mine.parts.MyGAEPart'" in found
    assert found.endswith("advantage=my_gaepart")


def test_a_class_takes_the_place_of_the_first_option_that_has_no_settings_else_a_yaml(directory):
    (directory / "advantage" / "norm.yaml").write_text("_target_: a.Norm\nsize: 1\n")
    assert "advantage=mean advantage._target_=mine.Part" in told("advantage=mine.Part")

    found = told("kl=mine.Part")
    assert "kl._target_" not in found
    assert found.endswith("kl=part")


def test_a_class_is_chosen_where_its_group_stands_in_this_line():
    for choices, word in (
        ({"advantage@next": "gae"}, "advantage@next=norm next._target_=mine.Part"),
        ({"advantage@next": "gae", "advantage": "gae"}, "advantage=norm advantage._target_="),
        ({"kl": "fixed"}, "advantage=norm advantage._target_=mine.Part"),
    ):
        assert word in told("advantage=mine.Part", **choices)
    assert "loss/ratio=token loss.ratio._target_=mine.Part" in told("loss/ratio=mine.Part")


@pytest.mark.parametrize("word", ["reward=mine.Part", "gone=mine.Part", "advantage=3.Part"])
def test_what_is_no_class_or_has_another_way_is_left_to_others(word):
    assert told(word) is None
