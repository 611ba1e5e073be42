"""Words that are no names here: classes, files and folders as options, words of others."""

import pytest

# Each composes a whole run, and more than one.
pytestmark = pytest.mark.slow


@pytest.fixture
def mine(place):
    """A folder of configs whose yaml lies in no group."""
    (place / "mine").mkdir(exist_ok=True)
    (place / "mine" / "per_row.yaml").write_text("_target_: brev.PerRow\n")
    return place


YAML = "FOLDER/advantage/per_row.yaml with the line '_target_: brev.PerRow', and -cd FOLDER advan"


@pytest.mark.usefixtures("no_model", "mine")
@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (["-cd", "mine", "advantage=per_row"], ["move it to mine/advantage/per_row.yaml\n"]),
        (
            ["advantage=brev.PerRow"],
            [" is advantage=batch_whitened advantage._target_=brev.PerRow; or ", YAML],
        ),
        (["advantage=brev:PerRow"], ["advantage._target_=brev.PerRow; or"]),
        (["loss=my.Mine"], ["FOLDER/loss/mine.yaml with", "-cd FOLDER loss=mine\n"]),
        (["task=my.Mine"], ["FOLDER/task/mine.yaml with", "-cd FOLDER task=mine\n"]),
        (["loss/trust_region=my.Mine"], ["loss/trust_region=none loss.trust_region._target_=my.M"]),
        (["tokenizer=own_model"], ["here: tokenizer=pretrained tokenizer.path=own_model\n"]),
        (["model=own_model"], ["here: base=own_model\n"]),
        (["tokenizer=a/b"], ["here: tokenizer=pretrained tokenizer.path=a/b\n"]),
        (["reference=own_model"], ["here: reference=pretrained reference.path=own_model\n"]),
        (["task=rows.jsonl"], ["here: task=file task.path=rows.jsonl\n"]),
        (["task=data/rows.parquet"], ["here: task=file task.path=data/rows.parquet\n"]),
        (["task=openai/gsm8k"], ["here: task=hub task.name=openai/gsm8k\n"]),
        (
            ["learner.lr_scheduler_type=cosine", "learner.warmup_ratio=0.03"],
            [
                "lr_scheduler_type is not in the config; here it is schedule@learner.schedule=cos",
                "the whole line: rlcomp schedule@learner.schedule=cosine learner.schedule.warm",
            ],
        ),
        (
            ["loss.loss_type=dr_grpo", "scale_rewards=false"],
            [
                "here it is loss=dr_grpo (the part alone; the whole method is recipe=dr_grpo)\n",
                "scale_rewards is not in the config; here it is advantage=group_mean\n",
                "the whole line: rlcomp loss=dr_grpo advantage=group_mean",
            ],
        ),
        (["resume_from_checkpoint=runs/a"], ["here it is resume=runs/a (auto"]),
        (["resume_from_checkpoint=true"], ["here it is resume=must (auto"]),
        (["evaluation.temperature=0.3"], ["here it is nothing to set: evaluations sample as"]),
    ],
)
def test_what_is_meant_is_named(told, place, line, parts):
    (place / "own_model").mkdir(exist_ok=True)

    code, message, _ = told(*line)

    assert code == 2
    for part in parts:
        assert part in message


def test_help_says_where_a_yaml_belongs(mine, monkeypatch):
    from rlcomp.cli.help import help_on
    from rlcomp.config.options import config_directory
    from rlcomp.errors import UserError

    monkeypatch.chdir(mine)
    with pytest.raises(UserError, match=r"mine/per_row.yaml is in .*/mine/advantage/per_row.yaml$"):
        help_on(["advantage=per_row"], iter([config_directory(), mine / "mine"]), 80)
