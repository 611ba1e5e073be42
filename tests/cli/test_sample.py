import sys

import pytest

from rlcomp.cli.sample import main
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

TINY = [
    "~phases.rl",
    "phases.warm_start.steps=40",
    "phases.warm_start.every.evaluation=null",
    "phases.warm_start.every.checkpoint=20",
    "task=addition",
    "task.digits=1",
    "demonstrations.batch_size=32",
    "model.hidden_size=32",
    "model.intermediate_size=32",
    "sft_learner.optimizer.lr=1e-2",
    "prompts.batch_size=2",
]


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sample") / "run"
    config = compose_config([f"directory={directory}", *TINY])
    launch(config, plan_of(config))
    return directory


@pytest.fixture
def ask(monkeypatch, capsys):
    def run(*words):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["rlcomp-sample", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
        printed = capsys.readouterr()
        return printed.out.splitlines(), printed.err, code

    return run


def test_a_checkpoint_answers_a_prompt(ask, run_directory):
    newest = run_directory / "checkpoints" / "step-00000040"

    (line,), _, code = ask(newest, "1+2=", "--temperature", "0")

    assert line.startswith("1+2=")
    # After 40 steps of warm start an answer is a number.
    assert line.removeprefix("1+2=").isdigit()
    assert code == 0


def test_a_runs_directory_answers_as_its_newest_checkpoint(ask, run_directory):
    newest = run_directory / "checkpoints" / "step-00000040"

    assert ask(run_directory, "3+4=", "--temperature", "0") == ask(
        newest, "3+4=", "--temperature", "0"
    )


def test_another_checkpoint_has_other_weights(run_directory):
    from pathlib import Path

    from rlcomp.cli.sample import sample

    common = {
        "prompts": ["1+1="] * 8,
        "n": 4,
        "temperature": None,
        "max_new_tokens": None,
        "seed": 0,
    }
    folder = Path(run_directory) / "checkpoints"

    assert sample(checkpoint=folder / "step-00000020", **common) != sample(
        checkpoint=folder / "step-00000040", **common
    )


def test_every_prompt_is_answered_n_times_in_order(ask, run_directory):
    lines, _, _ = ask(run_directory, "1+1=", "2+2=", "-n", "3")

    assert [line[:4] for line in lines] == ["1+1="] * 3 + ["2+2="] * 3


def test_the_same_seed_gives_the_same_answers(ask, run_directory):
    same = [ask(run_directory, "1+1=", "-n", "8", "--seed", "1")[0] for _ in range(2)]

    assert same[0] == same[1]
    assert ask(run_directory, "1+1=", "-n", "8", "--seed", "2")[0] != same[0]


def test_an_answer_can_be_kept_short(ask, run_directory):
    lines, _, _ = ask(
        run_directory, "1+1=", "-n", "8", "--temperature", "9", "--max-new-tokens", "1"
    )

    assert max(map(len, lines)) == len("1+1=") + 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["1+1=", "-n", "0"], "'0' must be an integer greater than 0"),
        (["1+1=", "--max-new-tokens", "x"], "'x' must be an integer greater than 0"),
        (["1+1=", "--temperature", "-1"], "temperature"),
        (["1é="], "has no token for 'é' in '1é='; it knows "),
        (["1" * 60], "context"),
    ],
)
def test_a_mistake_ends_with_2_and_says_which(ask, run_directory, words, told):
    _, error, code = ask(run_directory, *words)

    assert told in error
    assert code == 2


def test_a_place_without_a_checkpoint_ends_with_2(ask, tmp_path):
    _, error, code = ask(tmp_path, "1+1=")

    assert "no whole checkpoint there: name a run's directory" in error
    assert code == 2


def test_a_checkpoint_written_by_hand_says_what_to_do(ask, tmp_path):
    from rlcomp.checkpoint.writer import Checkpoint

    place = {"phase": 0, "step": 1, "total": 1, "trackers": {}}
    path = Checkpoint(directory=str(tmp_path), keep=1).save({}, place)

    _, error, code = ask(path, "1+1=")

    assert "has no config.yaml: build the policy and use restore()" in error
    assert code == 2


def test_a_run_without_a_language_model_cannot_be_asked(ask, tmp_path):
    from rlcomp.checkpoint.writer import Checkpoint

    config = "seed: 0\nkl: {_target_: rlcomp.run.stages.Nothing}\nphases: {}\n"
    place = {"phase": 0, "step": 1, "total": 1, "trackers": {}}
    path = Checkpoint(directory=str(tmp_path), keep=1, config=config).save({}, place)

    _, error, code = ask(path, "1+1=")

    assert "its run has no language model named 'policy'" in error
    assert code == 2


@pytest.mark.filterwarnings("always::rlcomp.errors.RlcompWarning")
def test_words_that_a_shell_has_split_are_told(ask, run_directory, monkeypatch):
    monkeypatch.setattr("rlcomp.cli.sample.sample", lambda **_: [["4"]] * 3)
    _, told, _ = ask(run_directory, "What", "is", "1")

    assert told.startswith("rlcomp: 3 prompts, 'What', 'is', '1'; one of several words has quotes:")
    assert told.splitlines()[0].endswith(" 'What is 1'")


def test_a_character_that_the_run_does_not_know_is_told_with_those_it_does(ask, run_directory):
    (run_directory / "samples.jsonl").write_text('{"prompt": "3*4="}\n')
    example = "'3*4='"
    _, told, code = ask(run_directory, "1+2=", "Why?")

    assert told.endswith(
        "rlcomp: the tokenizer has no token for 'W' in 'Why?'; it knows ' ()*+,-/0123456789:=>?': "
        f"ask as it was trained, rlcomp-sample {run_directory} {example}\n"
    )
    assert code == 2
    _, told, _ = ask(run_directory, "Why", "is")
    assert "one of several words has quotes" not in told
