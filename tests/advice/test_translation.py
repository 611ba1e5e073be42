"""A whole command line in words of this library."""

import functools

import pytest

from rlcomp.advice.translation import corrected_line, equivalent_setting, fit, in_our_words
from rlcomp.config.compose import command_line

HERE = "x is not in the config; here it is "
NOTHING = f"{HERE}nothing to set: leave it out"


def line(refused, *words, fit=lambda one: one, first="recipe=grpo"):
    return corrected_line([first, *refused, *words], refused, [], fit)


def test_what_has_another_unit_is_left_out_and_named_by_its_key():
    refused = {"num_generations=4": f"{HERE}group_size=4", "top_k=-1": f"{HERE}decoding.top_k"}

    assert line(refused, "seed=3") == [
        "the whole line without top_k: rlcomp recipe=grpo group_size=4 seed=3"
    ]


def test_what_is_nothing_here_is_left_out_without_a_word():
    refused = {"num_generations=4": f"{HERE}group_size=4", "lora_dropout=0.1": NOTHING}

    assert line(refused) == ["the whole line: rlcomp recipe=grpo group_size=4"]


def test_a_line_of_nothing_that_is_known_here_stays_with_its_other_words():
    assert line({"lora_dropout=0.1": NOTHING}) == ["the whole line: rlcomp recipe=grpo"]
    assert corrected_line(["lora_dropout=0.1"], {"lora_dropout=0.1": NOTHING}, [], str) == []
    two = {"lora_dropout=0.1": NOTHING, "dropout_of=1": NOTHING}
    assert corrected_line([*two], two, [], str) == []


@pytest.mark.parametrize(
    "refused",
    [
        {},
        {"colour=4": "colour is not in the config"},
        {"num_generations=4": f"{HERE}group_size=4", "colour=4": "colour is not in the config"},
    ],
)
def test_a_line_with_a_word_that_nobody_knows_is_not_written_anew(refused):
    assert line(refused) == []


def test_a_line_that_would_be_refused_again_is_not_offered():
    refused = {"num_generations=4": f"{HERE}group_size=4"}

    assert line(refused, first="recipe=nobodys") == []
    assert line(refused, "no.such=1") == []


def test_a_word_that_this_line_takes_otherwise_is_written_so():
    told = {"num_generations=4": f"{HERE}seed=4"}

    found = line(told, fit=lambda one: "seed=4" if one == "group_size=4" else one)

    assert found == ["the whole line: rlcomp recipe=grpo seed=4"]


choices = functools.cache(lambda *words: command_line(words, []))


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
    assert equivalent_setting(choices("recipe=sft"), path) == there


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
    assert equivalent_setting(choices("recipe=sac"), word) == here
    assert equivalent_setting(choices("recipe=sft"), word) is None


def test_a_remedy_is_as_it_stands_or_in_the_words_of_the_line_or_none():
    assert fit(choices(), "prompts.batch_size=8") == "prompts.batch_size=8"
    assert fit(choices("recipe=sft"), "prompts.batch_size=8") == "demonstrations.batch_size=8"
    assert (
        fit(choices("recipe=sft"), "adapter=lora adapter.rank=4") == "adapter=lora adapter.rank=4"
    )
    assert fit(choices("recipe=sft"), "kl=in_loss") is None
    assert fit(choices("kl=none"), "kl_controller.kl_coef=0.1") is None  # left over from the recipe


def test_the_loss_of_a_method_names_the_recipe_of_the_whole():
    message = in_our_words("loss_type", "dapo")

    assert message.startswith("loss=dapo ")
    assert message.endswith("recipe=dapo)")
    assert "recipe=" not in in_our_words("temperature", "warm")
