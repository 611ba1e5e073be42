"""RL with prior data, and with interventions: they reach the goal, SAC alone does not."""

import shutil

import pytest

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SHORT = [
    "phases.rl.steps=4",
    "phases.rl.every.evaluation=2",
    "phases.rl.every.checkpoint=1",
    "+phases.demonstrate.every.checkpoint=1",
    "checkpoint.keep=9",
    "collector.num_steps=7",
    "environment.max_steps=9",
    "sample.batch_size=16",
    "updates.times=3",
]
# Out of patience at once, so that a short run has interventions, some of which a step cuts in two.
HASTY = ["intervention.patience=2", "intervention.duration=3"]


def plan(*words):
    config = compose_config([*words])
    return config, plan_of(config)


def play(directory, *words):
    launch(*plan(*words, f"directory={directory}"))
    return directory


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hil_serl") / "run"
    return play(directory, "recipe=hil_serl", *HASTY, *SHORT)


@pytest.mark.parametrize("step", [2, 4])
@pytest.mark.slow
def test_a_run_continued_after_any_step_is_bit_identical(bits, short, tmp_path, step):
    shutil.copytree(short, tmp_path / "run")

    kept = f"resume={tmp_path}/run/checkpoints/step-{step:08d}"

    again = play(tmp_path / "run", "recipe=hil_serl", *HASTY, *SHORT, kept)
    assert bits(again) == bits(short)


def test_without_interventions_it_is_rlpd_to_the_bit(bits, short, tmp_path):
    rlpd = bits(play(tmp_path / "rlpd", "recipe=rlpd", *SHORT))

    none = play(tmp_path / "none", "recipe=hil_serl", "intervention=none", *SHORT)

    assert bits(none) == rlpd
    assert bits(short) != rlpd


def test_an_intervened_step_is_in_both_replays_with_the_action_that_was_taken(short, metrics):
    tensors = open_checkpoint(short).tensors()
    own, shown = (
        {key: tensors[f"state/{node}:.rows.{key}"] for key in ("observation", "action")}
        for node in ("replay", "demonstrations")
    )
    over = tensors["state/replay:.rows.intervened"][:, 0]

    # 4 copies x 7 steps x 4; before the interventions 5 x 20 steps of the guide.
    assert len(own["action"]) == 112
    assert 0 < int(over.sum()) < 112
    for key in own:
        assert own[key][over].equal(shown[key][100:])
    shares = [row["intervention/share"] for row in metrics(short) if "intervention/share" in row]
    assert sum(shares) * 28 == pytest.approx(int(over.sum()))


def test_no_node_has_weights_that_nobody_trains():
    made = Builder(plan("recipe=hil_serl", "directory=x")[1], seed=0).all()
    trained = {id(weight) for weight in made["learner"].trained}

    assert {id(weight) for weight in made["actor"].parameters()} <= trained


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["rlpd", "hil_serl"])
def test_the_goal_is_reached(recipe, tmp_path, metrics, at_work):
    rows = metrics(play(tmp_path, f"recipe={recipe}"))

    at_work(recipe, rows)


@pytest.mark.slow
def test_without_demonstrations_it_is_not(tmp_path, metrics):
    rows = metrics(play(tmp_path, "recipe=rlpd", "replay@sample=sample", "phases.rl.steps=12"))

    assert max(row.get("evaluation/success", 0) for row in rows) == 0
