"""Remedies that fit the choices of a command line."""

import functools

import pytest

from rlcomp.advice.similar_settings import equivalent, fit
from rlcomp.config.compose import command_line

line = functools.cache(lambda *words: command_line(words, []))


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("prompts.batch_size", "demonstrations.batch_size"),
        ("learner.optimizer.lr", "sft_learner.optimizer.lr"),
        ("phases.rl.steps", "phases.warm_start.steps"),
        ("phases.rl.every.checkpoint", "phases.warm_start.every.checkpoint"),
        ("sft_learner.optimizer.lr", "sft_learner.optimizer.lr"),
        ("context_length", "context_length"),
        ("group_size", None),
        ("phases", "phases"),
        ("advantage.gamma", None),
        ("gamma", None),
    ],
)
def test_what_imitates_has_the_same_settings_elsewhere(path, there):
    assert equivalent(line("recipe=sft"), path) == there


@pytest.mark.parametrize(
    ("word", "here"),
    [
        ("batch_size", "sample.batch_size"),
        ("buffer_size", "replay.capacity"),
        ("env", "environment.name"),
        ("env_id", "environment.name"),
        ("gamma", "loss.gamma"),
        ("num_envs", "environment.num_envs"),
        ("tau", "targets.updater.tau"),
    ],
)
def test_words_of_control_where_the_recipe_has_them(word, here):
    assert equivalent(line("recipe=sac"), word) == here
    assert equivalent(line("recipe=sft"), word) is None


def test_a_remedy_is_as_it_stands_or_in_the_words_of_the_line_or_none():
    assert fit(line(), "prompts.batch_size=8") == "prompts.batch_size=8"
    assert fit(line("recipe=sft"), "prompts.batch_size=8") == "demonstrations.batch_size=8"
    assert fit(line("recipe=sft"), "adapter=lora adapter.rank=4") == "adapter=lora adapter.rank=4"
    assert fit(line("recipe=sft"), "kl=in_loss") is None
    assert fit(line("kl=none"), "kl_controller.kl_coef=0.1") is None  # left over from the recipe
