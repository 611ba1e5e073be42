import os

import pytest

from rlcomp.errors import ConfigError
from rlcomp.report.groups import find_baseline, group_runs
from rlcomp.report.runs import find_runs

ROWS = [{"m": 0.5}]


@pytest.fixture
def four(make_run, tmp_path):
    """Two learning rates x two seeds; the first is the config's own."""
    for number, (lr, seed) in enumerate([(0.1, 0), (0.1, 1), (0.2, 0), (0.2, 1)]):
        own = [f"lr={lr}"] if lr == 0.2 else []
        make_run(str(number), ROWS, seed=seed, overrides=["size=7", *own], lr=lr, size=7)
    return group_runs(find_runs([str(tmp_path)]))


def test_runs_that_differ_in_their_seed_are_one_group(four):
    assert [[run.seed for run in group.finished] for group in four] == [["0", "1"], ["0", "1"]]


def test_group_names_have_only_differences(four):
    assert [group.name for group in four] == ["lr=0.1", "lr=0.2"]
    assert [group.differences for group in four] == [{"lr": "0.1"}, {"lr": "0.2"}]


def test_a_choice_is_called_by_its_option(make_run, tmp_path):
    for recipe, part in (("grpo", "A"), ("other", "B")):
        own = [f"recipe={recipe}"] if recipe == "other" else []
        make_run(recipe, ROWS, overrides=own, choices={"recipe": recipe}, loss={"_target_": part})

    names = [group.name for group in group_runs(find_runs([str(tmp_path)]))]

    assert names == ["recipe=grpo", "recipe=other"]


def test_groups_with_equal_command_lines_are_named_by_their_configs(make_run, tmp_path):
    for lr in (1, 2):
        make_run(str(lr), ROWS, lr=lr)

    assert [g.name for g in group_runs(find_runs([str(tmp_path)]))] == ["lr=1", "lr=2"]


def test_trackers_and_how_to_resume_make_no_group_but_a_start_does(make_run, tmp_path):
    make_run("a", ROWS, seed=0, tracker={"project": "x"}, resume="never")
    make_run("b", ROWS, seed=1)
    make_run("c", ROWS, seed=0, resume="runs/old")

    sizes = [len(group.runs) for group in group_runs(find_runs([str(tmp_path)]))]

    assert sizes == [2, 1]


def test_the_same_config_and_seed_count_once_the_newest(make_run, tmp_path):
    for age, name in enumerate(("new", "old")):
        os.utime(make_run(name, ROWS) / "metrics.jsonl", (100 - age, 100 - age))

    (group,) = group_runs(find_runs([str(tmp_path)]))

    assert {run.directory.name: run.state for run in group.runs} == {
        "new": "finished",
        "old": "repeated",
    }


def test_runs_by_hand_are_groups_of_their_own(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text('{"total": 1, "m": 0.5}\n')

    names = [group.name for group in group_runs(find_runs([str(tmp_path)]))]

    assert names == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_the_baseline_is_the_first_group_or_the_one_that_is_named(four):
    assert find_baseline(four, None) is four[0]
    assert find_baseline(four, "lr=0.2") is four[1]
    assert find_baseline(four, "lr=0.2 size=7") is four[1]


@pytest.mark.parametrize(("wanted", "fault"), [("lr=0.3", "no group"), ("size=7", "2 groups")])
def test_a_baseline_that_is_not_one_group_is_refused(four, wanted, fault):
    with pytest.raises(ConfigError, match=f"--baseline is '{wanted}' and names {fault}"):
        find_baseline(four, wanted)
