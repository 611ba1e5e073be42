"""Settings of a command line that would change nothing are refused; others never are."""

import functools

import pytest
from omegaconf import OmegaConf

from rlcomp.config.compose import compose_with_choices
from rlcomp.config.lint.unused_settings import check_unread, unread

composed = functools.cache(lambda *words: compose_with_choices(words, []))


def test_a_number_of_what_was_left_out_is_refused_with_the_option_that_has_it():
    words = ["kl=none", "kl_controller.kl_coef=0.1"]
    config, choices = composed(*words)

    (told,) = check_unread(config, words, choices)
    assert told.startswith(
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
