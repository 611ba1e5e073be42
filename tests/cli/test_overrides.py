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
        (["--zero_stage", "3"], "--zero_stage: there is no such setting, .* rlcomp --help"),
    ],
)
def test_an_option_with_dashes_is_told_as_it_is_written_here(words, told):
    with pytest.raises(UserError, match=told):
        check_options(["recipe=grpo", *words], [w for w in words if w.startswith("-")], CONF)


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
