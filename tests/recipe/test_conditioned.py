"""Small real runs of policies that are told a preference."""

import pytest
import torch

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import RlcompError
from rlcomp.run.launch import launch

pytest.importorskip("moocore")

TINY = [
    "recipe=conditioned",
    "reward.pattern='^.?[0-4]'",
    "phases.warm_start.every.evaluation=null",
]
TEXT = [*TINY, "model.hidden_size=16", "model.intermediate_size=16"]
EMBEDDING = [
    *TINY,
    "conditioning=embedding",
    "tokenizer=character_preference",
    "model=tiny_conditioned",
    "model.model.hidden_size=16",
    "model.model.intermediate_size=16",
]


@pytest.mark.slow
@pytest.mark.parametrize("words", [TEXT, EMBEDDING], ids=["text_prefix", "embedding"])
def test_a_run_continued_in_the_middle_is_bit_identical(play, bits, continued, tmp_path, words):
    whole = play(tmp_path / "whole", *words)

    again = continued(whole, tmp_path / "again", 4, *words)

    assert bits(again) == bits(whole)


def test_objectives_are_weighed_by_what_the_policy_was_told(play, metrics, tmp_path):
    rows = metrics(play(tmp_path / "run", *TEXT))

    for row in rows[-3:]:
        told = [row[f"preference/{name}"] for name in ("correctness", "brevity")]
        used = [row[f"pareto/advantage/weight/{name}"] for name in ("correctness", "brevity")]
        # Preferences are float32.
        assert used == pytest.approx(told, abs=1e-6)
        assert sum(told) == pytest.approx(1)


def test_a_linear_embedding_is_trained_in_both_phases(play, tmp_path):
    run = play(tmp_path / "run", *EMBEDDING)

    name = "model.model:model.embed_tokens.preference_map"
    maps = [
        open_checkpoint(run / "checkpoints" / f"step-0000000{step}").tensors()[name]
        for step in (1, 2, 5)
    ]
    assert not torch.equal(maps[0], maps[1])
    assert not torch.equal(maps[1], maps[2])


def test_a_third_objective_is_preferred_like_the_others(play, metrics, tmp_path):
    rows = metrics(play(tmp_path / "run", *TEXT, "+objective=format"))

    assert "preference/format" in rows[-1]
    assert "evaluation/return/format@0:0:1" in rows[-1]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["conditioning=embedding"], "use tokenizer=character_preference model=tiny_conditioned"),
        (
            [*EMBEDDING, "+objective=format"],
            r"over 2 objectives, .* 3 .*tokenizer.num_objectives=3",
        ),
    ],
)
def test_preferences_that_do_not_fit_are_refused_before_the_run(play, tmp_path, overrides, words):
    with pytest.raises(RlcompError, match=words):
        play(tmp_path / "run", *overrides)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_a_third_objective_has_a_token_for_each_preference(play, metrics, tmp_path):
    more = ["+objective=format", "tokenizer.num_objectives=3"]

    rows = metrics(play(tmp_path / "run", *EMBEDDING, *more))

    assert "evaluation/return/format@0:0:1" in rows[-1]


# Two objectives that no answer meets both of, each met by about half of what the warm start leaves:
# only who reads the preference gains. Eight CPU seconds. At twice the learning rate, with half of
# the steps and prompts, two of nine runs gave up one objective for good before they had read it.
OPPOSED = (
    "recipe=conditioned",
    "+objective=format",
    "~objectives.parts.brevity",
    "reward=regex",
    "reward.pattern='^[01]'",
    "objectives.parts.format.pattern='^[2-9]'",
    "phases.warm_start.steps=40",
    "phases.warm_start.every.evaluation=null",
    "phases.rl.steps=60",
    "phases.rl.every.evaluation=60",
    "prompts.batch_size=64",
    "group_size=8",
    "learner.optimizer.lr=5e-4",
)


@pytest.mark.slow
def test_asking_for_more_of_an_objective_gives_more(metrics, tmp_path):
    config = compose_config([*OPPOSED, f"directory={tmp_path}"])
    launch(config, plan_of(config))

    last = metrics(tmp_path)[-1]
    correctness = [last[f"evaluation/return/correctness@{asked}"] for asked in ("1:0", "0:1")]
    form = [last[f"evaluation/return/format@{asked}"] for asked in ("0:1", "1:0")]
    # Over 10 runs (8 seeds, 2 engines) both gaps were .95 to 1. With a fixed weight for each
    # objective both are 0.
    assert correctness[0] > correctness[1] + 0.5
    assert form[0] > form[1] + 0.5
