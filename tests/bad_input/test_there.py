"""Folders, files and parts that are not there: what there is instead, and no far-fetched guess."""

import pytest


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("line", "part", "never"),
    [
        (["-cd", "misfut"], "-cd misfut: there is no such folder; did you mean misfit?", "Hydra"),
        (
            ["task=file", "task.path=data/train.jsonl"],
            "of a similar name; set another path, such as one of empty.jsonl, malformed.jsonl",
            "mean",
        ),
        (["task=file", "task.path=rovs.jsonl"], "did you mean 'rows.jsonl'?", "Traceback"),
        (
            ["reference=adapter_off"],
            "adapter=none the policy has none: add adapter=lora, or take reference=frozen\n",
            "Loading",
        ),
        (
            ["base=misfit/checkpoint-5"],
            "there is no such folder, and misfit is a model itself: set base=misfit\n",
            "hub",
        ),
        (
            ["--advantage", "group_mean", "leave_one_out"],
            "the whole line: rlcomp -m advantage=group_mean,leave_one_out",
            "no such",
        ),
    ],
)
def test_what_is_there_is_named(told, line, part, never):
    code, message, _ = told(*line)

    assert code == 2
    assert never not in message
    assert part in message


def test_a_target_without_its_module_names_file_and_module(tmp_path, monkeypatch, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "brev.py").write_text("class PerRow:\n    pass\n")
    (tmp_path / "mine" / "advantage").mkdir(parents=True)
    (tmp_path / "mine" / "advantage" / "short.yaml").write_text("_target_: PerRow\n")

    code, message, _ = told("-cd", "mine", "advantage=short")

    assert code == 2
    assert message == (
        "rlcomp: mine/advantage/short.yaml: _target_ is 'PerRow': must be package.module.Name; "
        "write _target_: brev.PerRow\n"
    )


def test_adapters_are_switched_off_where_there_are_some():
    from rlcomp.config.compose import compose_config
    from rlcomp.config.resolve import plan_of

    plan_of(compose_config(["reference=adapter_off", "adapter=lora"]))
