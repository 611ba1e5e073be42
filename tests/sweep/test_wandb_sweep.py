"""A sweep line for ``wandb sweep``: the commands that W&B's agent makes of it compose."""

import itertools
import subprocess
import sys

import pytest
import yaml

from rlcomp.errors import ConfigError
from rlcomp.sweep.wandb_sweep import wandb_sweep

LINE = ["-m", "recipe=grpo,dapo", "seed=0,1,2", "phases.rl.steps=4", "~phases.warm_start"]


def commands(sweep):
    """As W&B's agent makes them of a grid, by its own functions."""
    utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    axes = sweep["parameters"]
    for values in itertools.product(*(axis["values"] for axis in axes.values())):
        args = {key: {"value": value} for key, value in zip(axes, values, strict=True)}
        given = utils.create_sweep_command_args({"args": args})
        macros = {**given, "env": ["/usr/bin/env"], "program": [sweep["program"]]}
        words = []
        for word in utils.create_sweep_command(sweep["command"]):
            macro = word.startswith("${") and word.endswith("}")
            words += macros[word[2:-1]] if macro else [word]
        yield words


def test_a_grid_has_its_values_and_a_command_that_leaves_them_open():
    assert wandb_sweep(LINE) == {
        "program": "rlcomp",
        "method": "grid",
        "parameters": {"recipe": {"values": ["grpo", "dapo"]}, "seed": {"values": [0, 1, 2]}},
        "command": [
            "${env}",
            "${program}",
            "phases.rl.steps=4",
            "~phases.warm_start=null",
            "tracker=wandb",
            "directory=runs/wandb/${oc.env:WANDB_RUN_ID}",
            "${args_no_hyphens}",
        ],
    }


def test_every_command_of_an_agent_composes(monkeypatch):
    from rlcomp.config.compose import compose_config
    from rlcomp.config.resolve import plan_of

    monkeypatch.setenv("WANDB_RUN_ID", "abc1")
    found = list(commands(wandb_sweep([*LINE, "directory=runs/night", "sft_learner.epochs=1,2"])))

    assert len(found) == 12
    env, program, *words = found[0]
    assert (env, program) == ("/usr/bin/env", "rlcomp")
    assert words[-3:] == ["recipe=grpo", "seed=0", "sft_learner.epochs=1"]
    for _, _, *words in found[:: len(found) - 1]:
        config = compose_config(words)
        assert config.directory == "runs/night/abc1"
        assert config.phases.rl.steps == 4
        plan_of(config)
    assert (config.seed, config.sft_learner.epochs) == (2, 2)


def test_ranges_are_searched_for_the_metric_of_the_sweeper():
    lr = "learner.optimizer.lr=tag(log,interval(1e-4,1e-2))"
    more = ["group_size=int(interval(2,8))", "x=interval(0,1)", "n=tag(log,int(interval(1,64)))"]
    words = ["hydra/sweeper=optuna", "hydra.sweeper.metric=rollout/truncated"]

    found = wandb_sweep([lr, *more, "loss=grpo,policy", *words, "hydra.sweeper.n_trials=20"])

    assert found["method"] == "bayes"
    assert found["metric"] == {"name": "rollout/truncated", "goal": "minimize"}
    assert found["run_cap"] == 20
    assert found["parameters"] == {
        "learner.optimizer.lr": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-2},
        "group_size": {"distribution": "int_uniform", "min": 2, "max": 8},
        "x": {"distribution": "uniform", "min": 0.0, "max": 1.0},
        "n": {"distribution": "q_log_uniform_values", "q": 1, "min": 1, "max": 64},
        "loss": {"values": ["grpo", "policy"]},
    }
    assert found["command"][2:] == [
        "tracker=wandb",
        "directory=runs/wandb/${oc.env:WANDB_RUN_ID}",
        "${args_no_hyphens}",
    ]
    assert wandb_sweep([lr])["metric"] == {"name": "evaluation/sampled", "goal": "maximize"}
    assert "run_cap" not in wandb_sweep([lr])


def test_values_are_numbers_where_they_are_and_else_as_they_were_written():
    found = wandb_sweep(["a=1e-4,2", "+b=true,null", "c=[1,2],[3]", "d='x y',z"])

    assert {key: one["values"] for key, one in found["parameters"].items()} == {
        "a": [1e-4, 2],
        "+b": ["True", "null"],
        "c": ["[1,2]", "[3]"],
        "d": ["'x y'", "z"],
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["seed=0"], "nothing has several values: list them, recipe=grpo,dapo"),
        (
            ["x=interval(0,1)", "hydra.sweeper.metric=rollout/length"],
            "hydra.sweeper.metric is 'rollout/length', a metric without a better direction",
        ),
    ],
)
def test_a_line_without_a_sweep_is_refused(words, said):
    with pytest.raises(ConfigError) as told:
        wandb_sweep(words)
    assert str(told.value).startswith(said)


@pytest.mark.parametrize(("words", "code"), [(["seed=0,1"], 0), (["seed=0"], 2)])
def test_the_module_prints_the_yaml_or_the_mistake(words, code):
    program = [sys.executable, "-m", "rlcomp.sweep.wandb_sweep", *words]

    done = subprocess.run(program, capture_output=True, text=True)

    assert done.returncode == code
    if code == 0:
        assert yaml.safe_load(done.stdout) == wandb_sweep(words)
        assert list(yaml.safe_load(done.stdout)) == ["program", "method", "parameters", "command"]
    else:
        assert (done.stdout, done.stderr[:27]) == ("", "rlcomp: nothing has several")
