"""What jobs are called in a tracker."""

import sys

import pytest
from hydra.core.global_hydra import GlobalHydra

# Settings of what ~phases.rl leaves without a use are warned of.
pytestmark = pytest.mark.filterwarnings("ignore:.*it changes nothing")

TINY = ["phases.warm_start.steps=1", "~phases.rl", "tracker=wandb"]


@pytest.fixture
def labelled(monkeypatch, tmp_path, rlcomp):
    """Runs a command line and gives the labels that its jobs would have in W&B."""
    from rlcomp.run import launch

    made = []
    monkeypatch.setattr(launch, "launch", lambda config, *_: made.append(dict(config.tracker)))

    def run(*words):
        assert rlcomp(*words, *TINY, f"directory={tmp_path / 'night'}") == 0
        return made

    return run


def told(job):
    return job["group"], job["job_type"], list(job["tags"])


def test_a_single_run_is_called_by_recipe_options_and_seed(labelled):
    (found,) = labelled("recipe=grpo", "advantage=leave_one_out", "learner.epochs=2", "seed=3")

    assert found["run_name"] == "grpo advantage=leave_one_out seed=3"
    assert told(found) == (None, None, ["recipe=grpo", "advantage=leave_one_out"])


@pytest.mark.filterwarnings("ignore:evaluation and more record their metrics")
def test_a_recipe_that_is_not_named_is_a_tag_all_the_same(labelled):
    (found,) = labelled("+evaluator@more=accuracy")

    assert found["run_name"] == "grpo evaluator@more=accuracy"
    assert list(found["tags"]) == ["recipe=grpo", "evaluator@more=accuracy"]


def test_job_names_have_differences_and_tags_have_methods(labelled):
    found = labelled("-m", "advantage=group_mean,leave_one_out", "learner.epochs=2", "seed=0,1")

    assert [job["run_name"] for job in found] == [
        "advantage=group_mean seed=0",
        "advantage=group_mean seed=1",
        "advantage=leave_one_out seed=0",
        "advantage=leave_one_out seed=1",
    ]
    tags = ["recipe=grpo", "advantage=leave_one_out"]
    assert told(found[3]) == ("night", "advantage", tags)


def test_numbers_that_are_varied_are_in_the_name_and_no_tag(labelled):
    found = labelled("-m", "learner.epochs=1,2")

    assert [job["run_name"] for job in found] == ["learner.epochs=1", "learner.epochs=2"]
    assert told(found[0]) == ("night", "learner.epochs", ["recipe=grpo"])


def test_a_sweep_over_seeds_is_labelled_so(labelled):
    found = labelled("-m", "seed=0,1")

    assert [job["run_name"] for job in found] == ["seed=0", "seed=1"]
    assert told(found[0]) == ("night", "seed", ["recipe=grpo"])


def test_a_name_of_the_users_stays(labelled):
    (found,) = labelled("tracker.run_name=mine", "tracker.tags=[a]")

    assert (found["run_name"], list(found["tags"])) == ("mine", ["a"])


def test_a_sweep_written_in_an_experiment_labels_its_jobs(labelled, tmp_path):
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    (tmp_path / "own" / "experiment" / "rates.yaml").write_text(
        "# @package _global_\nhydra: {sweeper: {params: {sft_learner.optimizer.lr: '0.1,0.2'}}}\n"
    )

    found = labelled("-m", "-cd", str(tmp_path / "own"), "experiment=rates")

    names = ["sft_learner.optimizer.lr=0.1", "sft_learner.optimizer.lr=0.2"]
    assert [job["run_name"] for job in found] == names
    assert told(found[0]) == ("night", "sft_learner.optimizer.lr", ["recipe=grpo"])


def test_labels_do_not_hang_on_the_command_line_of_the_process(labelled, monkeypatch):
    """A launcher may run jobs in processes of its own."""
    from rlcomp.cli import run as cli

    labels = cli.labels

    def elsewhere(hydra_config):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["worker"])
            return labels(hydra_config)

    monkeypatch.setattr(cli, "labels", elsewhere)

    assert labelled("-m", "seed=0,1")[0]["run_name"] == "seed=0"
    GlobalHydra.instance().clear()
