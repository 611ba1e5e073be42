import pytest

from rlcomp.errors import ConfigErrors, UserError


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["M", "task=file", "task.path=test.jsonl", "reward=last_number"],
            "the whole line: rlcomp-evaluate M suite=jsonl jsonl.task.path=test.jsonl "
            "reward@jsonl.reward=last_number",
        ),
        (
            ["--model", "hf", "--model_args", "pretrained=M,dtype=float32", "--tasks", "gsm8k"],
            "the whole line: rlcomp-evaluate M suite=gsm8k data=FOLDER",
        ),
        (
            ["--model=M", "--tasks=gsm8k_cot,ifeval", "--num_fewshot", "5"],
            "the whole line: rlcomp-evaluate M 'suite=[gsm8k,ifeval]' data=FOLDER",
        ),
        (
            ["M", "suite=gsm8k", "--apply_chat_template"],
            "the whole line: rlcomp-evaluate M suite=gsm8k prompt=chat",
        ),
    ],
)
def test_words_of_other_programs_get_the_whole_line(words, told):
    from rlcomp.cli.evaluate_words import check_words

    with pytest.raises(UserError) as error:
        check_words(words)
    assert str(error.value).splitlines()[-1] == told


def test_words_that_are_taken_pass():
    from rlcomp.cli.evaluate_words import check_words

    check_words(["M", "suite=jsonl", "jsonl.task.path=a", "task.x=1", "--out", "x", "seed=1"])


def test_a_file_of_problems_of_ones_own(tmp_path):
    from rlcomp.cli.evaluate import read_words

    file = tmp_path / "test.jsonl"
    file.touch()
    assert read_words(["suite=jsonl", f"data={file}"]).overrides == [
        "+suite=[jsonl]",
        f"jsonl.task.path={file}",
    ]
    assert read_words(["suite=jsonl", "data=folder"]).overrides[1] == "data=folder"
    with pytest.raises(UserError, match=r"your own are suite=jsonl jsonl.task.path=FILE"):
        read_words(["limit=3"])


def test_every_model_is_looked_at_before_one_is_asked(tmp_path, monkeypatch):
    from rlcomp.run.suites import check_all_available

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    for name in ("model", "adapter"):
        (tmp_path / name).mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")

    check_all_available(["model"])
    with pytest.raises(
        ConfigErrors, match=r"^adapter: it holds an adapter .* write adapter_merged "
    ):
        check_all_available(["model", "adapter"])
    with pytest.raises(ConfigErrors, match=r"^model/checkpoint-5: there is no .*: write model$"):
        check_all_available(["model", "model/checkpoint-5"])
    with pytest.raises(ConfigErrors, match=r"^nothere: the hub cannot .* or write FOLDER$"):
        check_all_available(["model", "nothere"])
    (tmp_path / "adapter" / "README.md").write_text("# A model trained with rlcomp\n")
    with pytest.raises(
        ConfigErrors, match=r"write RUN; or .* --merge writes .* then write adapter_merged$"
    ):
        check_all_available(["adapter"])


def test_a_run_is_audited_by_its_reward_and_task(tmp_path, monkeypatch):
    from rlcomp.cli.audit import check_words
    from rlcomp.files import run_record

    (tmp_path / "run.yaml").touch()
    seen = run_record.RunRecord(
        config=None,
        overrides=["seed=1", "reward=numeric", "reward.absolute=0.1", "learner.epochs=2"],
        choices={"reward": "numeric", "task": "sorting"},
        environment={},
    )
    monkeypatch.setattr(run_record, "read_run_record", lambda directory: seen)
    with pytest.raises(UserError, match=r"line: rlcomp-audit reward=numeric reward.absolute=0.1 t"):
        check_words([str(tmp_path)])


def test_a_sweep_is_not_written_into_a_run(tmp_path):
    from rlcomp.cli.overrides import check_sweep_directory

    check_sweep_directory([f"directory={tmp_path}", "seed=0,1"])
    (tmp_path / "metrics.jsonl").touch()
    with pytest.raises(UserError, match=f"directory={tmp_path}_sweep$"):
        check_sweep_directory(["seed=0,1", f"directory={tmp_path}/"])
