"""Checks for overrides that change nothing."""

import functools
import warnings

import pytest
from omegaconf import OmegaConf

from rlcomp.config.checks.overrides import check_added, check_unread, unread
from rlcomp.config.compose import compose_config, compose_with_choices
from rlcomp.config.resolve import plan_of
from rlcomp.errors import RlcompWarning

CLIP = "loss.trust_region.clip_high=0.28"
ONE = "learner.num_minibatches=1"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["~phases.warm_start", "sft_learner.optimizer.lr=1e-5"], "no phase .* uses sft_learner;"),
        (
            ["phases.warm_start.steps=0", "demonstrations.batch_size=8"],
            "uses demonstrations; leave",
        ),
        ([CLIP, ONE], "every ratio is 1; set learner.num_minibatches=4, or learner.epochs=2$"),
        (["loss/trust_region=dual_clip", ONE], "^loss/trust_region=dual_clip: .* every ratio is 1"),
        (["loss/ratio=none", CLIP], "with loss/ratio=none every ratio is 1; add loss/ratio=token$"),
    ],
)
def test_a_setting_that_changes_nothing_is_told(words, told):
    with pytest.warns(RlcompWarning, match=told):
        plan_of(compose_config(words), words)


@pytest.mark.parametrize(
    "words",
    [
        [CLIP],
        [ONE, "learner.epochs=2", CLIP],
        [ONE, "collector@rollout=delayed", CLIP],
        [ONE, "loss/trust_region=none"],
        ["recipe=reinforce", "sft_learner.optimizer.lr=1e-5", "evaluation.num_prompts=8"],
        ["cluster=local", "cluster.workers=2", "cluster.timeout=60"],
        ["parallel=shard", "parallel.timeout=60"],
        ["recipe=agent", "player.max_turns=3", "checkpoint.keep=2", "seed=1"],
    ],
)
def test_a_setting_that_counts_is_not(words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan_of(compose_config(words), words)


composed = functools.cache(lambda *words: compose_with_choices(words, []))


def test_a_number_of_what_was_left_out_is_refused_with_the_option_that_has_it():
    words = ["kl=none", "kl_controller.kl_coef=0.1"]
    config, choices = composed(*words)

    (finding,) = check_unread(config, words, choices)
    assert str(finding).startswith(
        "kl_controller.kl_coef=0.1: nothing in this run reads it: kl=none has no kl_controller; "
        "kl=in_loss has it"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("kl_controller.kl_coef=0.1",),
        ("recipe=dapo", "learner.optimizer.lr=1e-3", "phases.rl.steps=3", "++prompts.batch_size=4"),
        ("recipe=ppo", "value_learner.optimizer.lr=1e-3"),
        ("learner.optimizer.betas=[0.9,0.9]", "loss.trust_region.clip_high=0.3"),
        ("kl=none",),
    ],
)
def test_what_a_part_takes_is_read(words):
    assert unread(composed(*words)[0], list(words)) == []


@pytest.mark.parametrize(
    ("value", "word", "read"),
    [
        ("${mine.width}", "mine.width=3", True),
        ("${eval:'${mine.width} * 2'}", "mine.width=3", True),
        ("${mine}", "++mine.width=3", True),
        (4, "++mine.width=3", False),
        (4, "+mine.width=3", True),
        (4, "mine.width=3", False),
        (4, "task.size=3", True),
        (4, "task.nosuch=3", True),  # told as an argument that it does not take
        (4, "tracker.project=x", True),  # told as such
        (4, "hydra.sweep.dir=x", True),
        (4, "~mine.width", True),
        (4, "loss@mine.loss=grpo", True),
        (4, "mine.inner.height=3", False),
        (4, "mine.part.height=3", True),
        (4, "seed=3", True),
    ],
)
def test_a_value_below_no_part_is_read_where_something_refers_to_it(value, word, read):
    mine = {"width": 3, "inner": {"height": 3}, "part": {"_target_": "a.B", "height": 3}}
    config = OmegaConf.create(
        {"seed": 3, "mine": mine, "task": {"_target_": "a.B", "size": value}, "tracker": {}}
    )

    assert unread(config, [word]) == ([] if read else [word])


def test_a_reference_in_another_word_reads_it():
    config = OmegaConf.create({"mine": {"width": 3}})

    assert unread(config, ["mine.width=3", "directory=runs/${mine.width}"]) == []


def added(config, *words):
    return [str(finding) for finding in check_added(config, words)]


@pytest.mark.parametrize(
    ("value", "used"),
    [
        ("${width}", True),
        ("${eval:'${width} * 2'}", True),
        ("width", False),
        ("${other.width}", True),
    ],
)
def test_an_added_value_that_nothing_refers_to_is_refused(value, used):
    config = OmegaConf.create({"seed": 0, "width": 4, "task": {"size": value}})

    messages = [] if used else ["width is added, but nothing in this config refers to it"]
    assert [error.partition(" (known")[0] for error in added(config, "+width=4")] == messages
    assert added(config) == []
    assert added(config, "+width=4", "directory=${width}") == []


def test_values_are_added_at_the_root_by_one_or_two_plus_signs():
    config = OmegaConf.create({name: 1 for name in "abefgi"} | {"c": {"d": 1}})
    words = ["+a=1", "++b=1", "+c.d=1", "+a=2", "e=1", "~f", "+g@h=1", "+i/j=1"]

    assert [message[0] for message in added(config, *words)] == ["a", "b", "c"]


def test_an_added_name_of_another_library_gets_ours_and_a_node_may_be_added():
    config = OmegaConf.create(
        {
            "num_generations": 8,
            "task": {"_target_": "a.B"},
            "optim": {"lr": 1},
            "gruop_size": 3,
            "group_size": 4,
        }
    )

    names = ["num_generations", "task", "evaluator", "optim.lr", "gruop_size"]
    word, inner, mistyped = added(config, *(f"+{name}=1" for name in names))
    assert word == (
        "num_generations is added, but nothing in this config refers to it; here it is group_size"
    )
    assert inner.endswith("refers to it; here it is learner.optimizer.lr")
    assert mistyped.partition(" (known")[0] == (
        "gruop_size is added, but nothing in this config refers to it; did you mean 'group_size'?"
    )
