"""Words of a command line, without a run: rows of whole command lines are in bad_input."""

from pathlib import Path

import pytest

from rlcomp.cli.overrides import check_options, check_overrides
from rlcomp.errors import ConfigError, UserError

CONF = [Path(__file__).resolve().parents[2] / "conf"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--model", "runs/base"], "here it is base=runs/base$"),
        (["--tokenizer=a/b"], "here it is base=a/b$"),
        (["--model", "tiny"], "here it is model=tiny$"),
        (["--lr", "3"], "--lr: settings are written without dashes; here it is .*optimizer.lr=3$"),
        (["--lr=3", "4"], "--lr=3: .* here it is learner.optimizer.lr=3$"),
        (["--lr", "--beta"], "here it is learner.optimizer.lr=VALUE$"),
        (["--lr"], "here it is learner.optimizer.lr=VALUE$"),
        (["--recipe", "grpo"], "here it is recipe=grpo$"),
        (["--seed", "1"], "here it is seed=1$"),
        (["--schedule@x", "1"], "here it is schedule@x$"),
        (["--ppo_mini_batch_size=64"], r"num_minibatches \(how many there are, not their size\)$"),
        (["--lr_find", "3"], "--lr_find: there is no such setting, .* rlcomp --help"),
    ],
)
def test_an_option_with_dashes_is_told_as_it_is_written_here(words, told):
    with pytest.raises(UserError, match=f"(?m){told}"):
        check_options(["recipe=grpo", *words], [w for w in words if w.startswith("-")], CONF)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--learning_rate", "1e-6", "--num_generations=8", "--use_peft", "recipe=rloo"],
            [
                "optimizer.lr=1e-6",
                "group_size=8",
                "adapter=lora",
                "line: rlcomp learner.optimizer.lr=1e-6 group_size=8 adapter=lora recipe=rloo",
            ],
        ),
        (  # beside the same without dashes
            ["--lora_r", "8", "actor.rollout.n=4"],
            [
                "it is adapter=lora adapter.rank=8",
                "rollout.n is not in the config; here it is",
                "line: rlcomp adapter=lora adapter.rank=8 group_size=4",
            ],
        ),
        (  # of a sweep, whose values are not tried
            ["-m", "--learning_rate=1e-6,1e-5", "--max_steps", "9"],
            ["here it is learner.optimizer.lr", "phases.rl.steps=9"],
        ),
        (["--learning_rate", "1e-6", "--lr_find=3", "a=1"], ["lr=1e-6", "no such setting"]),
        (["--lr=1e-6", "-m"], ["lr=1e-6", "line: rlcomp learner.optimizer.lr=1e-6 -m"]),
    ],
)
def test_all_such_options_are_told_and_the_line_that_they_make(words, told):
    unknown = [word for word in words if word.startswith("--")]

    with pytest.raises(UserError) as raised:
        check_options(words, [*unknown, *(["recipe=rloo"] if "recipe=rloo" in words else [])], CONF)

    lines = str(raised.value).splitlines()
    assert [part in line for part, line in zip(told, lines, strict=True)] == [True] * len(told)


def test_a_command_line_without_such_options_is_taken():
    assert check_options(["-m", "seed=1"], [], CONF) is None


def test_sweeps_with_values_are_taken_and_without_are_refused():
    assert (
        check_overrides(["seed=range(0,2)", "loss=dapo,grpo", "seed=interval(0,1)"], CONF) is None
    )
    with pytest.raises(UserError, match=r"^seed=range\(2,2\): the sweep has no values$"):
        check_overrides(["seed=range(2,2)"], CONF)
    with pytest.raises(ConfigError, match="the sweep has 1,000,000 jobs"):
        check_overrides(["seed=shuffle(range(0,1000000))"], CONF)
