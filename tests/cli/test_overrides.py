"""Words of a command line, without a run: rows of whole command lines are in bad_input."""

from pathlib import Path

import pytest

from rlcomp.cli.overrides import added, check_options, check_overrides
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
        check_overrides(
            ["seed=range(0,2)", "loss=dapo,grpo", "seed=interval(0,1)"], CONF, sweep=True
        )
        is None
    )
    with pytest.raises(UserError, match=r"^seed=range\(2,2\): the sweep has no values$"):
        check_overrides(["seed=range(2,2)"], CONF, sweep=True)
    with pytest.raises(ConfigError, match="the sweep has 1,000,000 jobs"):
        check_overrides(["seed=shuffle(range(0,1000000))"], CONF, sweep=True)


def test_several_values_are_a_sweep_and_nothing_else():
    with pytest.raises(UserError, match=r"^\+a.b=1,2: .*rlcomp -m .*; .* \+a.b=\[\.\.\.\]$"):
        check_overrides(["+a.b=1,2"], CONF, sweep=False)
    assert check_overrides(["+a.b=[1,2]"], CONF, sweep=False) is None


def test_what_is_added_at_the_root_is_found_however_it_is_written():
    words = ["+a=1", "++b=1", "+c.d=1", "+a=2", "e=1", "~f", "+g@h=1", "+i/j=1"]

    assert added(words) == ["a", "b", "c"]
