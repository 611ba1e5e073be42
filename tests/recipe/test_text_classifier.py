"""A classifier of moderation labels: trained, exported, and a reward of a run."""

import pytest

from rlcomp.cli.export import export
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch


def launched(*words):
    config = compose_config([*words])
    launch(config, plan_of(config))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*left out")
def test_labels_are_learnt_and_the_folder_is_a_reward(shared_data, tmp_path):
    launched(
        "recipe=text_classifier",
        f"task.path={shared_data / 'prefs' / 'moderation_multilabel.jsonl.gz'}",
        "task.labels=[H,V]",
        "task.longest=40",
        "phases.labels={steps: 6, every: {evaluation: 3, checkpoint: 6}}",
        f"directory={tmp_path / 'run'}",
    )
    rows = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows if "held_out/H/auc" in row] == [3, 6]
    assert rows[-1]["labels/nll"] < rows[0]["labels/nll"]

    export(run=tmp_path / "run", directory=tmp_path / "folder", scorer=True)
    launched(
        "recipe=grpo",
        "kl=none",
        "tokenizer=byte",
        "reward=learned",
        f"reward.path={tmp_path / 'folder'}",
        "reward.label=V",
        "phases={warm_start: {steps: 1}, rl: {steps: 1, every: {evaluation: 1}}}",
        f"directory={tmp_path / 'rl'}",
    )
    assert "reward/mean" in read_lines(tmp_path / "rl" / "metrics.jsonl")[-1]
