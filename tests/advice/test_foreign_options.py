"""Options of other libraries: each is told by what exists here."""

import ast
import functools
import importlib.util
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rlcomp.advice.foreign_options import OUR_NAMES, TABLE, our_name, our_option
from rlcomp.advice.translation import translate
from rlcomp.config.compose import compose_config
from rlcomp.config.options import config_directory

OPTIONS = [here for group in TABLE["options"].values() for here in group.values()]

# In a remedy: group=option, a.path.to.a.setting (with the value it takes), a setting at the root.
CHOICE = re.compile(r"(?<![\w.])([a-z_/]+(?:@[a-z_.]+)?)=([a-z0-9_]+)\b")
PATH = re.compile(r"(?!rlcomp)(?<![\w./@=])[a-z_]+(?:\.[a-z_]+)+(?!\w*['(:,]? _)")
FULL_KEYS = re.compile(r"^[a-z_]+(?= \(|$)")
SAID = {
    OUR_NAMES[word]
    for word in ("logging_steps", "trust_remote_code", "val_kwargs.top_p", "entity", "nnodes")
}
REMEDIES = sorted({*OUR_NAMES.values(), *OPTIONS, *TABLE["whole"].values()} - SAID)
# What has the same name here, or is a word of anything.
OURS = {"seed", "debug", "project"}
composed = functools.cache(lambda *words: compose_config(list(words)))


def has(config, path):
    """Whether a config has a setting, if only with ``???``."""
    parent, _, last = path.rpartition(".")
    return last in [*((OmegaConf.select(config, parent) or {}) if parent else config)]


def test_there_are_words_enough():
    assert len(OUR_NAMES) >= 100
    assert len(OPTIONS) >= 20


@pytest.mark.parametrize("remedy", REMEDIES)
def test_what_a_remedy_names_is_there(remedy):
    chosen = CHOICE.findall(remedy)
    configs = [
        composed(*(f"{group}={option}" for group, option in dict(order).items()))
        for order in (chosen, chosen[::-1])  # of two options of a group, each has its settings
    ]
    paths = [*PATH.findall(remedy), *FULL_KEYS.findall(remedy)]

    for group, option in chosen:
        folder = config_directory() / group.partition("@")[0]
        assert (folder / f"{option}.yaml").is_file(), f"{group}={option}"
    for path in paths:
        assert any(has(config, path) for config in configs), path
    assert chosen or paths or "base=DIR" in remedy or remedy.startswith("nothing to set")


@pytest.mark.parametrize(
    ("package", "file", "name"),
    [
        ("transformers", "training_args.py", "TrainingArguments"),
        ("trl", "trainer/grpo_config.py", "GRPOConfig"),
        ("trl", "trainer/dpo_config.py", "DPOConfig"),
        ("trl", "trainer/sft_config.py", "SFTConfig"),
    ],
)
def test_every_setting_of_their_trainers_has_an_answer(package, file, name):
    spec = importlib.util.find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed")
    tree = ast.parse((Path(spec.origin).parent / file).read_text())
    (cls,) = (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)
    fields = {one.target.id for one in cls.body if isinstance(one, ast.AnnAssign)}
    private = {one for one in fields if one.startswith("_")}

    assert len(fields) > 10
    assert {one for one in fields - private - OURS if not our_name(one)} == set()


@pytest.mark.parametrize(
    ("key", "here"),
    [
        ("num_generations", "group_size"),
        ("--num-generations", "group_size"),
        ("+beta", "kl_controller.kl_coef"),
        ("algorithm.kl_ctrl.kl_coef", "kl_controller.kl_coef"),
        ("actor_rollout_ref.actor.optim.lr", "learner.optimizer.lr"),
        ("critic.optim.lr", "value_learner.optimizer.lr (recipe=ppo)"),
        (
            "actor_rollout_ref.rollout.gpu_memory_utilization",
            "nothing to set: answers are sampled in the run's own process; leave it out",
        ),
        ("trainer.n_gpus_per_node", OUR_NAMES["num_processes"]),
        ("group_size", None),
        ("numgenerations", None),
    ],
)
def test_a_word_is_known_by_its_last_part(key, here):
    assert our_name(key) == here


def test_a_path_of_a_model_is_told_whole():
    told = "base={0} (a folder, a run, or a name on the Hugging Face hub)"

    assert our_option("model/a", "b") == told.format("a/b")
    assert our_option("model", "Qwen3.5") == told.format("Qwen3.5")
    assert our_option("model", "tny") is None
    assert our_option("advantage", "RLOO") == "advantage=leave_one_out"
    assert our_option("reward/a", "b") is None
    assert our_option("environment", "Pong-v5") == "environment.name=Pong-v5 (of gymnasium)"
    assert our_option("environment", "carpole") is None


@pytest.mark.parametrize(
    ("key", "value", "ours"),
    [
        ("rollout_batch_size", "64", "prompts.batch_size=64"),
        ("trainer.max_steps", "9", "phases.rl.steps=9"),
        ("lora_rank", "8", "adapter=lora adapter.rank=8"),
        ("eps_clip", "0.2", "loss.trust_region.clip_low=0.2 loss.trust_region.clip_high=0.2"),
        ("model_name_or_path", "a/b", "base=a/b"),
        ("train_files", "a.jsonl", "task=file task.path=a.jsonl"),
        ("dataset_name", "a/b", "task=hub task.name=a/b"),
        ("run_name", "x", "tracker=wandb tracker.run_name=x"),
        ("loss_agg_mode", "seq-mean-token-mean", "loss/reduction=sequence_mean"),
        ("loss_type", "DAPO", "loss=dapo"),
        ("lr_scheduler_type", "linear", "schedule@learner.schedule=linear"),
        ("use_kl_loss", "True", "kl=in_loss"),
        ("kl_loss_type", "low_var_kl", "learner.losses.kl.estimator=k3"),
        ("actor.kl_loss_type", "mse", "learner.losses.kl.estimator=k2"),
        ("bf16", "true", "engine=bfloat16"),
        ("loss_type", "nobodys", None),
        ("learning_rate", "[1]", None),
        ("top_k", "-1", None),
        ("warmup_steps", "10", None),  # a share here
        ("ppo_mini_batch_size", "64", None),
    ],
)
def test_a_setting_comes_with_its_value_where_that_means_the_same(key, value, ours):
    assert translate(key, value) == ours
    if ours:
        composed(*ours.split())
