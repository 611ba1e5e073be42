"""Composition of configs, and choices of a command line."""

import functools

import pytest
from omegaconf import OmegaConf

from rlcomp.config.compose import command_line, compose_config, compose_with_choices
from rlcomp.config.resolve import compose_or_explain
from rlcomp.errors import ConfigError


@pytest.fixture
def own(tmp_path):
    (tmp_path / "advantage").mkdir()
    (tmp_path / "advantage" / "mine.yaml").write_text("_target_: my.Mine\n")
    return str(tmp_path)


def test_a_config_has_a_directory_unless_one_is_named():
    config = compose_config(["seed=7"])

    assert config.seed == 7
    assert config.directory == "runs/..."
    assert "hydra" not in config
    assert compose_config(["directory=here"]).directory == "here"


def test_options_of_ones_own_folder_are_there_and_choices_come_beside(own):
    config, choices = compose_with_choices(["advantage=mine"], [own])

    assert config.advantage == {"_target_": "my.Mine"}
    assert (choices["advantage"], choices["recipe"]) == ("mine", "grpo")
    assert OmegaConf.select(compose_config(["advantage=mine"], [own]), "advantage._target_") == (
        "my.Mine"
    )


def test_a_folder_that_is_not_there_is_refused(own):
    for gone in (f"{own}/gone", f"{own}/advantage/mine.yaml"):
        with pytest.raises(ConfigError, match=f"--config-dir is {gone}: there is no such"):
            compose_config([], [own, gone])


line = functools.cache(lambda *words: command_line(words, []))


@pytest.mark.parametrize(
    ("words", "name", "told"),
    [
        (("kl=none",), "kl_controller", "kl=none has no kl_controller; kl=in_loss has it (or "),
        (("recipe=dapo",), "kl_controller", "kl=none has no kl_controller; kl=in_loss has it"),
        (("kl=none",), "loss@learner.losses.kl", "kl=none has no learner.losses.kl; kl=in_loss "),
        (("recipe=sft",), "advantage", "recipe=sft has no advantage; recipe=grpo has it"),
        (("recipe=sft",), "group_size", "recipe=sft has no group_size; recipe=grpo has it"),
        ((), "value_learner", "value=none has no value_learner; value=critic has it"),
        (
            ("recipe=sft",),
            "value_learner",
            "recipe=sft has no value; recipe=grpo has it, and value=critic has value_learner",
        ),
    ],
)
def test_the_choice_that_lacks_something_is_named_with_one_that_has_it(words, name, told):
    assert str(line(*words).lacks(name)).startswith(told)


@pytest.mark.parametrize("name", ["advantage", "kl", "kl_controller", "group_size", "no_such"])
def test_what_is_there_or_nowhere_is_lacking_in_no_choice(name):
    assert line().lacks(name) is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "kl=none kl_controller=adaptive",
            "kl_controller=adaptive: kl=none has no kl_controller; ",
        ),
        ("recipe=sft advantage=gae", "advantage=gae: recipe=sft has no advantage; recipe=grpo has"),
        (
            "optimizer=sgd",
            "optimizer=sgd: optimizer has another path in this line; write "
            "optimizer@learner.optimizer=sgd or optimizer@sft_learner.optimizer=sgd",
        ),
        (
            "recipe=sft prompts.batch_size=8",
            "prompts.batch_size is not in the config with recipe=sft; here it is "
            "demonstrations.batch_size=8\nthe whole line: rlcomp recipe=sft "
            "demonstrations.batch_size=8",
        ),
        (
            "recipe=sft phases.rl.steps=1",
            "phases.rl.steps is not in the config with recipe=sft; here it is "
            "phases.warm_start.steps=1\nthe whole line: rlcomp recipe=sft "
            "phases.warm_start.steps=1",
        ),
        (
            "recipe=sft learning_rate=1e-5",
            "learning_rate is not in the config; here it is sft_learner.optimizer.lr=1e-5\nthe",
        ),
        (
            "kl=none beta=0.1",
            "beta is not in the config; here it is kl_controller.kl_coef=0.1, but kl=none has no ",
        ),
        (
            "recipe=trpo evaluation.shifts={short:{half_length:0.05}}",
            "evaluation.shifts is not in the config; it is a setting of "
            "evaluator@evaluation=shifted",
        ),
        (
            "recipe=sac learner.optimizer.lr={actor:1e-3}",
            "learner.optimizer.lr.actor is not in the config; did you mean 'actor_network'? "
            "(known: actor_network, log_alpha, qvalue_network)",
        ),
        (
            "recipe=offline_to_online offline=bc phases.online.steps=3",
            "phases.online.steps is not in the config: by offline=bc, phases.online is null, so "
            "that there is no such phase; leave phases.online.steps out, or choose another option",
        ),
        ("phases.rl.step=3", "phases.rl.step is not in the config; did you mean 'steps'?"),
        ("trainer.foo=3", "trainer.foo is not in the config, and rlcomp has no known equivalent"),
    ],
)
def test_a_line_is_told_what_it_can_write(words, told):
    with pytest.raises(ConfigError) as refused:
        compose_or_explain(words.split())
    assert str(refused.value).startswith(told)


def test_of_recipes_one_is_named_and_of_options_up_to_three():
    assert (
        line("recipe=sft").lacks("advantage") == "recipe=sft has no advantage; recipe=grpo has it"
    )
    kl = line("kl=none").lacks("kl_controller")
    assert kl == "kl=none has no kl_controller; kl=in_loss has it (or in_reward, in_loss_full)"
