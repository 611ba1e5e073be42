"""Options on a command line: several where one counts, and options set as if they were values."""

from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from rlcomp.config import choices as module
from rlcomp.config.choices import check_choices, repeated_choices
from rlcomp.errors import ConfigErrors

FILES = {
    "kl/none": "",
    "kl/fixed": "_target_: a\n",
    "kl/other": "_target_: b\n",
    "kl/inner": "kl:\n  _target_: b\n",
    "kl/also": "kl:\n  _target_: c\n",
    "kl/based": "defaults:\n  - fixed\n  - _self_\n",
    "kl/self": "defaults:\n  - self\n_target_: a\n",
    "kl/chooses": "defaults:\n  - /loss: x\n",
    "kl/chooses_too": "defaults:\n  - override /loss: y\n",
    "loss/trust_region/clip": "_target_: a\n",
    "schedule/cosine": "_target_: a\n",
    "schedule/linear": "_target_: a\n",
    "reward/boxed": "_target_: a\n",
    "reward/format": "_target_: a\nlongest: ???\npath: ???\nother: 1\n",
    "advantage/gae": "_target_: a\n",
}
DEEP = {"first": {"schedule": {"steps": 1}}}
CONFIG = {
    "agent": DEEP,
    "learner": {"schedule": {"steps": 1}, "lr": 1},
    "kl": {"_target_": "a"},
    "seed": 0,
}
PLACES = {"schedule@learner.schedule": "linear", "kl": "none", "seed_of": "x"}
PLACES["schedule@agent.first.schedule"] = "linear"


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = (tmp_path / name).with_suffix(".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(module, "config_directory", lambda: tmp_path)
    seen = []

    def command_line(words, directories):
        seen.append(words)
        return SimpleNamespace(choices=PLACES, config=OmegaConf.create(CONFIG))

    monkeypatch.setattr(module, "command_line", command_line)
    return seen


def faults(*words):
    try:
        check_choices(words, [])
    except ConfigErrors as errors:
        return str(errors)
    return ""


@pytest.mark.parametrize(
    ("word", "refused"),
    [
        ("kl=[fixed,other]", True),
        ("kl=[fixed , other]", True),
        ("kl=[fixed,none]", False),  # nothing is taken twice
        ("kl=[inner,also]", True),
        ("kl=[inner,fixed]", False),
        ("kl=[based,fixed]", True),
        ("kl=[self,other]", True),
        ("kl=[chooses,chooses_too]", True),
        ("kl=[fixed,gone]", False),
        ("kl@learner.kl=[fixed,other]", True),
        ("kl=[fixed]", False),
        ("kl=fixed", False),
        ("gone=[fixed,other]", False),
    ],
)
def test_of_options_that_take_one_another_s_place_one_is_chosen(word, refused):
    told = faults(word)

    assert bool(told) is refused
    if refused:
        key, _, names = word.partition("=")
        first, second = (name.strip() for name in names.strip("[]").split(","))
        assert f"{key}={first}" in told
        assert f"-m {key}={first},{second}" in told


def test_a_sweep_of_a_line_that_sweeps_has_one_flag():
    told = faults("-m", "kl=[fixed,other]", "seed=1,2")

    assert told.count("-m") == 1
    assert "seed=1,2" in told


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("learner.schedule=cosine", "schedule@learner.schedule=cosine"),
        ("learner.schedule=cosine,linear", "schedule@learner.schedule=cosine,linear"),
        ("learner/schedule=cosine", "schedule@learner.schedule=cosine"),
        ("learner.shedule=cosine", "schedule@learner.schedule=cosine"),
        ("learner.schedule=cosin", "schedule@learner.schedule=OPTION"),
        ("agent.first.schedule=cosin", "schedule@agent.first.schedule=OPTION"),
        ("agent.schedule.first=cosin", ""),
        ("learner.shedule=cosin", ""),
        ("learner.schedule=null", ""),
        ("learner.lr=cosine", ""),
        ("learner.lr=1", ""),
        ("other.schedule=cosine", ""),
        ("schedule=cosine", ""),
    ],
)
def test_an_option_that_is_set_at_the_path_of_its_part_is_chosen_by_its_group(
    word, meant, directory
):
    told = faults(word, "seed=1")

    assert meant in told
    assert bool(told) is bool(meant)
    for words in directory:  # composed without the word itself
        assert words == ["seed=1"]


def test_a_setting_below_a_path_of_a_class_stands_beside_it():
    told = faults("reward.function=mine.Judge", "reward.function.depth=3", "seed=1")

    assert "reward.function={_target_: mine.Judge, depth: 3}" in told
    assert "seed=1" in told
    assert "reward.function=mine.Judge " not in told.partition("whole line")[2]
    for words in (
        ("reward.function=mine.Judge", "reward.other=3"),
        ("reward.function=boxed", "reward.function.depth=3"),
        ("reward.function=3.5", "reward.function.depth=3"),
    ):
        assert not faults(*words)


def test_several_rewards_are_weighed_with_what_they_need():
    told = faults("reward=[boxed,format]", "seed=1")

    for part in (
        "reward=weighted_sum",
        "+reward@reward.parts.boxed=boxed",
        "+reward@reward.parts.format=format",
        "{boxed: 1.0, format: 1.0}",
        "reward.correct_by=boxed",
        "FORMAT_PATH",
        "${max_new_tokens}",
        "seed=1",
    ):
        assert part in told
    assert "other" not in told
    assert not faults("reward=[boxed]")
    assert "weighted_sum" not in faults("reward=[boxed,gone]")


@pytest.mark.parametrize(
    ("weights", "shown"),
    [("[0.25,2]", "{boxed: 0.25, format: 2}"), ("[1]", "{boxed: 1.0, format: 1.0}")],
)
def test_weights_that_fit_are_taken_over(weights, shown):
    told = faults("reward=[boxed,format]", f"reward.weights={weights}", "reward.correct_by=format")

    assert shown in told
    assert "reward.correct_by=format" in told
    assert told.partition("line")[2].count("reward.weights=") == 1


def test_rewards_that_have_names_keep_them():
    told = faults("reward.parts={a: boxed, b: format}")

    assert "+reward@reward.parts.a=boxed" in told
    assert "+reward@reward.parts.b=format" in told
    assert "reward.correct_by=a" in told
    assert "B_PATH" in told


def test_a_choice_that_stands_twice_is_told_and_a_setting_is_not():
    assert repeated_choices(["kl=fixed", "seed=1", "seed=2"]) == []
    assert repeated_choices(["kl=fixed", "kl=fixed"]) == []
    assert repeated_choices(["kl=fixed", "kl@learner.kl=other"]) == []
    assert repeated_choices(["kl=fixed,other", "kl=none"]) == []
    (told,) = repeated_choices(["kl=fixed", "kl=other", "kl=fixed", "kl=none"])
    assert "kl=none" in told
    assert "-m kl=fixed,other,none" in told
    (told,) = repeated_choices(["kl@a.b=fixed", "kl@a.b=other"])
    assert "kl@a.b=fixed,other" in told
    (told,) = repeated_choices(["kl=fixed", "kl=other"], "rlcomp-describe")
    assert "kl=fixed --against kl=other" in told
    assert "-m" not in told
