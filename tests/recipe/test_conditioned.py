"""Small real runs of policies that are told a preference."""

import json
import shutil

import pytest
import torch

from rlcomp.describe import compose_config
from rlcomp.errors import RlcompError
from rlcomp.io.checkpoint import open_checkpoint
from rlcomp.run.launch import launch
from rlcomp.run.resolve import plan_of

pytest.importorskip("moocore")

TINY = [
    "recipe=conditioned",
    # Half of all answers are right, so that there is something to learn in every step.
    "reward=regex",
    "reward.pattern='^.?[0-4]'",
    "phases.warm_start.steps=2",
    "phases.rl.steps=3",
    "prompts.batch_size=4",
    "rollout.group_size=4",
    "evaluation.num_prompts=8",
    "demonstrations.batch_size=8",
    "learner.num_minibatches=2",
    "checkpoint.keep=9",
    "phases.warm_start.every.evaluation=null",
    "phases.warm_start.every.checkpoint=1",
    "phases.rl.every.checkpoint=1",
]
TEXT = ["model.hidden_size=16", "model.intermediate_size=16"]
EMBEDDING = [
    "conditioning=embedding",
    "tokenizer=character_preference",
    "model=tiny_conditioned",
    "model.model.hidden_size=16",
    "model.model.intermediate_size=16",
]


def play(directory, *overrides):
    config = compose_config([*TINY, *overrides, f"directory={directory}"])
    launch(config, plan_of(config))
    return directory


def metrics(directory):
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


def tensors(directory):
    return open_checkpoint(directory / "checkpoints" / "step-00000005").tensors()


@pytest.mark.parametrize("words", [TEXT, EMBEDDING], ids=["text_prefix", "embedding"])
def test_a_run_continued_in_the_middle_is_bit_identical(tmp_path, words):
    whole = play(tmp_path / "whole", *words)
    shutil.copytree(whole, tmp_path / "again")
    start = tmp_path / "again" / "checkpoints" / "step-00000004"

    again = play(tmp_path / "again", *words, f"resume={start}")

    assert metrics(again) == metrics(whole)
    found, expected = tensors(again), tensors(whole)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_objectives_are_weighed_by_what_the_policy_was_told(tmp_path):
    rows = metrics(play(tmp_path / "run", *TEXT))

    for row in rows[-3:]:
        told = [row[f"preference/{name}"] for name in ("correctness", "brevity")]
        used = [row[f"pareto/advantage/weight/{name}"] for name in ("correctness", "brevity")]
        # Preferences are float32.
        assert used == pytest.approx(told, abs=1e-6)
        assert sum(told) == pytest.approx(1)


def test_a_linear_embedding_is_trained_in_both_phases(tmp_path):
    run = play(tmp_path / "run", *EMBEDDING)

    name = "model.model:model.embed_tokens.preference_map"
    maps = [
        open_checkpoint(run / "checkpoints" / f"step-0000000{step}").tensors()[name]
        for step in (1, 2, 5)
    ]
    assert not torch.equal(maps[0], maps[1])
    assert not torch.equal(maps[1], maps[2])


def test_a_third_objective_is_preferred_like_the_others(tmp_path):
    rows = metrics(play(tmp_path / "run", *TEXT, "+objective=format"))

    assert "preference/format" in rows[-1]
    assert "evaluation/return/format@0:0:1" in rows[-1]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["conditioning=embedding"], "use tokenizer=character_preference model=tiny_conditioned"),
        ([*EMBEDDING, "+objective=format"], r"of 2 objectives, .* 3 .*tokenizer.num_objectives=3"),
    ],
)
def test_preferences_that_do_not_fit_are_refused_before_the_run(tmp_path, overrides, words):
    with pytest.raises(RlcompError, match=words):
        play(tmp_path / "run", *overrides)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_a_third_objective_has_a_token_for_each_preference(tmp_path):
    more = ["+objective=format", "tokenizer.num_objectives=3"]

    rows = metrics(play(tmp_path / "run", *EMBEDDING, *more))

    assert "evaluation/return/format@0:0:1" in rows[-1]


@pytest.mark.slow
def test_asking_for_more_of_an_objective_gives_more(tmp_path):
    config = compose_config(
        [
            "recipe=conditioned",
            "phases.rl.steps=120",
            "phases.rl.every.evaluation=120",
            "phases.warm_start.every.evaluation=null",
            f"directory={tmp_path}",
        ]
    )
    launch(config, plan_of(config))

    last = metrics(tmp_path)[-1]
    for name in ("correctness", "brevity"):
        assert last[f"evaluation/response/{name}"] > 0.5
    assert last["evaluation/return/brevity@0:1"] > last["evaluation/return/brevity@1:0"] + 0.2
    assert last["evaluation/return/correctness@1:0"] > 0.5
