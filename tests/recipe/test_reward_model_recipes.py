"""Reward models in a small form: sorting four digits; trained, exported, and used by RL."""

import pytest
import torch

from components.reward.reward_model import LearnedReward
from rlcomp.checkpoint.reader import list_checkpoints, open_checkpoint
from rlcomp.cli.export import export
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigError
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

SMALL = (
    "task.length=4",
    "demonstrations.batch_size=64",
    "evaluation.num_prompts=64",
)


def planned(*words):
    config = compose_config([*SMALL, *words])
    return config, plan_of(config)


def launched(directory, *words):
    """The metrics of a run: a row a step."""
    launch(*planned(*words, f"directory={directory}"))
    return read_lines(directory / "metrics.jsonl")


@pytest.mark.no_cover
@pytest.mark.slow
def test_a_reward_model_tells_right_from_wrong_and_becomes_a_folder(tmp_path, at_work):
    few = ("phases.warm_start.steps=50", "phases.reward_model.steps=40", "pairs.batch_size=64")

    at_work(
        "reward_model",
        launched(tmp_path / "run", "recipe=reward_model", "task.position=3", *few),
    )

    assert (tmp_path / "run" / "reliability.png").is_file()
    export(run=tmp_path / "run", directory=tmp_path / "folder", scorer=True)
    reward = LearnedReward(path=str(tmp_path / "folder"))
    _, plan = planned("recipe=grpo", "reward=learned", f"reward.path={tmp_path / 'folder'}")
    assert plan.nodes["reward"].target.endswith("LearnedReward")
    assert reward.model.config.num_labels == 1


@pytest.mark.no_cover
@pytest.mark.slow
def test_rl_gains_by_a_reward_model_which_it_leaves_as_it_is(tmp_path, at_work):
    words = ("demonstrations.batch_size=128", "phases.warm_start.steps=150")
    words += ("phases.reward_model.steps=80", "phases.reward_model.every.checkpoint=80")
    words += ("phases.rl.steps=20", "phases.rl.every={evaluation: 20, checkpoint: 20}")

    at_work("instruct_gpt", launched(tmp_path, "recipe=instruct_gpt", *words))

    ended, trained = list_checkpoints(tmp_path / "checkpoints")[:2]
    assert trained.name == "step-00000230"
    before, after = open_checkpoint(trained).tensors(), open_checkpoint(ended).tensors()
    scorer = [name for name in before if name.startswith("scorer")]
    assert len(scorer) > 10
    assert all(torch.equal(before[name], after[name]) for name in scorer)


@pytest.mark.no_cover
@pytest.mark.slow
def test_what_a_judge_owes_to_the_order_is_not_learnt(tmp_path, at_work):
    words = ("demonstrations.batch_size=128", "phases.warm_start.steps=150")
    words += ("phases.reward_model.steps=60", "phases.rl.steps=15")
    words += ("phases.rl.every={evaluation: 15}", "~phases.reward_model.every")

    at_work("rlaif", launched(tmp_path, "recipe=rlaif", *words))


def test_a_reward_model_that_no_phase_trains_is_refused():
    message = r"phases\.rl: reward \(ScorerReward\) needs scorer, but no .*phases\.rl\.after="
    with pytest.raises(ConfigError, match=message):
        planned("recipe=instruct_gpt", "phases.reward_model=null", "phases.rl.after=warm_start")


def test_an_ensemble_is_four_reward_models_with_a_learner_each():
    _, plan = planned("recipe=instruct_gpt", "experiment=reward_ensemble")

    scorers = ["scorer", "scorer_b", "scorer_c", "scorer_d"]
    learners = ("scorer_learner", "learner_b", "learner_c", "learner_d")
    assert [plan.nodes[name].arguments["model"].path for name in learners] == scorers
    assert [each.path for each in plan.nodes["reward"].arguments["scorers"]] == scorers
    stages = [each.path for each in plan.phases["reward_model"].stages]
    assert stages[-4:] == [*learners]


@pytest.mark.no_cover
@pytest.mark.slow
def test_an_implicit_reward_model_learns_of_outcomes_and_pays_tokens(tmp_path):
    words = ("demonstrations.batch_size=128", "phases.warm_start.steps=60", "group_size=8")
    words += ("prompts.batch_size=32", "phases.outcomes.steps=30", "~phases.outcomes.every")
    words += ("phases.rl.steps=10", "phases.rl.every={evaluation: 10}")

    rows = launched(tmp_path, "recipe=grpo", "experiment=prime", *words)

    told = {phase: [row for row in rows if row["phase"] == phase] for phase in ("outcomes", "rl")}
    assert told["outcomes"][-1]["implicit_reward/accuracy"] > 0.8
    # At first it orders what it has not seen; the policy then learns what it overrates.
    assert told["rl"][0]["implicit_reward/auc"] > 0.8
    assert all(row["implicit_reward/token"] > 0.01 for row in told["rl"])
    assert all(row["advantage/process"] > 0 for row in told["rl"])
