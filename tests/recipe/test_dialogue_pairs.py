"""A reward model of the pairs of HH: its split, and a run of a few steps."""

import pytest

from components.task.labels import PreferenceTask
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

FILE = "prefs/hh_harmless_300.jsonl.gz"


def test_of_held_out_pairs_of_hh_the_shorter_answer_is_mostly_the_chosen_one(shared_data):
    task = PreferenceTask(path=str(shared_data / FILE), held_out=0.3)
    held_out = [one for one in map(task.example, range(300)) if one.is_held_out(0.3)]

    lead = [len(one.columns["rejected"]) - len(one.demonstration) for one in held_out]

    # As docs/how_to/reward_models.md says: .567 of 90.
    assert len(lead) == 90
    assert sum(gap > 0 for gap in lead) + sum(gap == 0 for gap in lead) / 2 == 51


@pytest.mark.slow
def test_a_reward_model_of_hh_is_trained_and_measured(shared_data, tmp_path):
    steps = "reward_model: {steps: 2, every: {held_out: 2, checkpoint: 2}}"
    config = compose_config(
        [
            "recipe=reward_model",
            "experiment=dialogue_pairs",
            f"task.path={shared_data / FILE}",
            "pairs.batch_size=6",
            "demonstrations.batch_size=6",
            "held_out.num_pairs=8",
            f"phases={{warm_start: {{steps: 1}}, {steps}}}",
            f"directory={tmp_path}",
        ]
    )
    launch(config, plan_of(config))

    last = read_lines(tmp_path / "metrics.jsonl")[-1]
    assert 0 <= last["held_out/accuracy"] <= 1
    assert last["held_out/nll"] != pytest.approx(0.6931, abs=1e-5)  # that of a model of no change
