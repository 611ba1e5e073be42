"""The recipes that are killed: each a run of a second, with a checkpoint after every step."""

import io
import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import components.task.text as text
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SHIPPED = Path(text.__file__).parent / "texts" / "the_tempest.txt"
SMALL = ("model.hidden_size=16", "model.intermediate_size=16", "model.num_hidden_layers=1")
# Half of all answers are right, so that there is something to learn in every step.
LEARNABLE = ("reward=regex", "reward.pattern='^[0-4]'")
SHORT = (
    "phases.warm_start.steps=1",
    "phases.warm_start.every={evaluation: null, checkpoint: 1}",
    "phases.rl.steps=3",
    "phases.rl.every={evaluation: 2, checkpoint: 1}",
    "evaluation.num_prompts=4",
    "demonstrations.batch_size=4",
    "prompts.batch_size=4",
    "group_size=4",
)
TINY = (*SHORT, *SMALL, *LEARNABLE)
PLATEAU = ("early_stop=plateau", "early_stop.patience=1", "early_stop.min_delta=2")
# A model that has learnt nothing is never right: there would be no group to learn from.
TEXT = (
    *SHORT,
    "dynamic_sampling=none",
    "prompts.batch_size=2",
    "group_size=2",
    "max_new_tokens=12",
    "base={base}/run",
    "task@corpus=text",
    "corpus.path={base}/short.txt",
)
CONTROL = (
    "phases.rl.steps=3",
    "phases.rl.every={evaluation: 2, checkpoint: 1}",
    "environment.num_envs=4",
    "collector.num_steps=8",
    "learner.epochs=2",
    "evaluation_environment.num_envs=2",
    "evaluation.max_steps=5",
)
OFF_POLICY = (
    "phases.rl.steps=3",
    "phases.rl.every={evaluation: 2, checkpoint: 1}",
    "environment.num_envs=4",
    "collector.num_steps=8",
    "sample.batch_size=16",
    "updates.times=2",
    "replay.capacity=100",
    "evaluation_environment.num_envs=2",
    "evaluation.max_steps=5",
)
RECIPES = {
    "SFT, then GRPO": ("recipe=grpo", *TINY),
    "PPO, critic, adaptive KL": (
        "recipe=ppo",
        "kl_controller=adaptive",
        *TINY,
        "phases.value_warm_up.steps=1",
    ),
    "DAPO, dynamic sampling, curriculum": ("recipe=dapo", "curriculum=pass_rate", *TINY),
    "delayed rollouts": ("recipe=grpo", "collector@rollout=delayed", *TINY),
    "refreshed reference": ("recipe=grpo", "reference=refreshed", "reference.period=2", *TINY),
    "early stop, best checkpoint": ("recipe=grpo", *PLATEAU, *TINY),
    "RPT": ("recipe=rpt", *TEXT, "note_rows.batch_size=4"),
    "mask game": ("recipe=pretrain_zero", *TEXT, "proposal_rows.batch_size=4"),
    "Pareto (PAMA)": ("recipe=pama", *TINY),
    "CartPole": ("recipe=control_ppo", *CONTROL),
    "SAC": (
        "recipe=sac",
        *OFF_POLICY,
        "phases.warm_up.steps=1",
        "+phases.warm_up.every={checkpoint: 1}",
    ),
    "TD3": ("recipe=td3", *OFF_POLICY, "phases.warm_up.steps=1"),
    "HER": ("recipe=her", *OFF_POLICY, "environment.max_steps=9"),
    "DAgger": (
        "recipe=dagger",
        "phases.dagger.steps=3",
        "phases.dagger.every={evaluation: 2, checkpoint: 1}",
        "+phases.demonstrate.every={checkpoint: 1}",
        "+phases.clone.every={checkpoint: 1}",
        "updates.times=2",
        "evaluation_environment.num_envs=2",
        "evaluation.horizons=[5]",
    ),
}
# gymnasium's environments cannot be rewound: such a run begins new episodes wherever it goes on.
NEW_EPISODES = ("CartPole",)
BASE = (
    "recipe=pretrain",
    *SMALL,
    "phases.pretraining.steps=2",
    "phases.pretraining.every={checkpoint: 2}",
    "demonstrations.batch_size=4",
)


def planned(words):
    """Config and plan of a run in ``run``, below whatever is the working directory."""
    config = compose_config([*words, "directory=run"])
    return config, plan_of(config)


def composed(name, base):
    """Config and plan of a recipe; ``base`` is where recipes of text find a model."""
    words = [word.replace("{base}", str(base)) for word in RECIPES[name]]
    if words != [*RECIPES[name]] and not base.is_dir():
        pretrain(base)
    job = planned(words)
    run_here(job)
    return job


def run_here(job):
    """Run a job in this process and forget it: what it imports, the forked ones need not."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            launch(*job)
        finally:
            os.chdir(before)


def pretrain(base: Path) -> None:
    """A model that has hardly read, and a text that is read in a moment."""
    base.mkdir(parents=True)
    (base / "short.txt").write_text(SHIPPED.read_text(encoding="utf-8")[:8_000])
    config = compose_config([*BASE, f"directory={base}/run"])
    with redirect_stdout(io.StringIO()):
        launch(config, plan_of(config))
