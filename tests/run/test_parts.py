"""Loops of one's own: the page's ten lines are the recipe, to the bit."""

import re
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

import rlcomp
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import CheckpointError, ConfigError, NumericalError
from rlcomp.run.launch import launch
from rlcomp.run.parts import Parts, build, load, save

PAGE = Path(__file__).parents[2] / "docs" / "kernel.md"
RECIPE = ["recipe=grpo", "kl=none", "learner.num_minibatches=1", "phases.warm_start.steps=0"]
SMALL = ["prompts.batch_size=2", "rollout.group_size=4", "model.hidden_size=16"]


def weights(parts):
    return {name: value.clone() for name, value in parts["policy"].model.named_parameters()}


@pytest.mark.slow
def test_the_ten_lines_of_the_page_are_the_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    mine: dict[str, object] = {}

    exec(compile(code, PAGE, "exec"), mine)

    shorter = ["reward=brevity", "reward.longest=8"]
    words = [
        *RECIPE,
        *shorter,
        "phases.rl.steps=3",
        "checkpoint.keep=1",
        "phases.rl.every={checkpoint: 3}",
    ]
    config = compose_config([*words, f"directory={tmp_path / 'run'}"])
    launch(config, plan_of(config))
    theirs = open_checkpoint(tmp_path / "run").tensors()
    ours = open_checkpoint(tmp_path / "runs" / "mine").tensors()
    trained = [name for name in ours if name.startswith(("model:", "policy:", "learner"))]
    assert len(trained) > 20
    for name in trained:
        # The page counts its updates as the recipe does.
        assert torch.equal(ours[name], theirs[name]), name
    fresh = build(*RECIPE)
    moved = [not torch.equal(weights(fresh)[n], w) for n, w in weights(mine["parts"]).items()]
    assert sum(moved) > 20


def one(parts):
    rows = parts["rollout"](parts["prompts"](TensorDict()))
    n = len(rows)
    rows["reward"], rows["reward_valid"] = torch.arange(n) / n, torch.ones(n).bool()
    rows["old_log_probs"] = parts["policy"].score(rows)
    return parts["advantage"](rows)


def test_what_is_saved_goes_on_to_the_bit(tmp_path):
    parts = build(*RECIPE, *SMALL)
    parts["learner"].accumulate(one(parts))
    parts["learner"].step(progress=0.25)
    place = save(parts, tmp_path / "saved", step=1)

    def another(parts):
        parts["learner"].accumulate(one(parts))
        norm = parts["learner"].step(progress=0.5)
        return norm, weights(parts)

    norm, after = another(parts)
    fresh = build(*RECIPE, *SMALL)
    assert load(fresh, place) == load(fresh, tmp_path / "saved") == 1
    assert open_checkpoint(place).restore(fresh)["phase"] == 0  # the first, as there is no other
    again, same = another(fresh)

    assert norm == again > 0
    assert all(torch.equal(after[name], same[name]) for name in after)
    assert place.name == "step-00000001"
    with pytest.raises(CheckpointError, match="of another run"):
        load(build(*RECIPE, *SMALL, "model.num_hidden_layers=1"), place)


def test_gradients_add_up_and_a_step_clears_them():
    parts = build(*RECIPE, *SMALL, "learner.max_grad_norm=null")
    learner, rows = parts["learner"], one(parts)
    learner.accumulate(rows)
    once = {name: p.grad.clone() for name, p in parts["policy"].model.named_parameters()}

    losses = learner.accumulate(rows)

    assert set(losses) == {"policy"}
    for name, p in parts["policy"].model.named_parameters():
        torch.testing.assert_close(p.grad, 2 * once[name])
    norm = torch.stack([g.square().sum() for g in once.values()]).sum().sqrt()
    assert learner.step(progress=0.5) == pytest.approx(2 * float(norm), rel=1e-5)
    assert parts["policy"].version == 1
    assert all(p.grad is None for p in parts["policy"].model.parameters())


def test_a_gradient_that_is_not_finite_changes_nothing():
    parts = build(*RECIPE, *SMALL)
    learner = parts["learner"]
    learner.accumulate(one(parts))
    learner.trained[3].grad[0] = float("nan")
    before = weights(parts)

    with pytest.raises(NumericalError, match="gradient"):
        learner.step(progress=0.5)

    assert all(torch.equal(before[name], value) for name, value in weights(parts).items())
    assert parts["policy"].version == 0
    learner.accumulate(one(parts))
    assert learner.step(progress=0.5) > 0, "the gradient that was refused is gone"


@pytest.mark.parametrize("progress", [None, 0.0, -0.1, 1.01, float("nan")])
def test_a_step_without_its_place_in_the_phase_is_refused(progress):
    parts = build(*RECIPE, *SMALL)

    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        parts["learner"].step(progress=progress)


def test_the_learning_rate_is_that_of_the_progress():
    parts = build(*RECIPE, *SMALL, "learner.optimizer.lr=1e-3")
    learner, rows = parts["learner"], one(parts)
    found = []
    for progress in (0.5, 1.0):
        learner.accumulate(rows)
        learner.step(progress=progress)
        found.append(learner.optimizer.param_groups[0]["lr"])

    # Linear from 1 at the end of the warm-up (1/15) to .1 at the end.
    warm = 1 / 15
    assert found[0] == pytest.approx(1e-3 * (1 - 0.9 * (0.5 - warm) / (1 - warm)), rel=2e-3)
    assert found[1] == pytest.approx(1e-4)


def test_scores_are_log_probs_without_a_graph():
    parts = build(*RECIPE, *SMALL)
    rows = parts["rollout"](parts["prompts"](TensorDict()))

    scored = parts["policy"].score(rows)

    assert not scored.requires_grad
    torch.testing.assert_close(scored, rows["rollout_log_probs"], atol=1e-5, rtol=0)
    assert rlcomp.build is build


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("recipe=gppo", r"^recipe=gppo: there is no such option; did you mean 'ppo'\? \(known"),
        (
            "learning_rate=3",
            r"^learning_rate is not in the config; here it is learner.optimizer.lr=3\nthe whole",
        ),
        ("learner.epoch=3", r"^learner.epoch is not in the config; did you mean 'epochs'\?"),
        ("rlcomp", "^rlcomp: cannot be read"),
        ("seed=1,2", r"^seed=1,2: several values are a sweep, rlcomp -m seed=1,2\n"),
        ("recipe=null", r"^recipe=grpo seed=1 recipe=null: ValueError: Config group override"),
        ("++learning_rate=3", "^learning_rate is added, but nothing in this config refers to it"),
        (
            3,
            r"^build: overrides are texts.* line: build\('recipe=grpo', 'seed=1', '3",
        ),
        ({"kl": "none"}, r"build\('recipe=grpo', 'seed=1', 'kl=none'\)$"),
        (["kl=none"], r"build\('recipe=grpo', 'seed=1', 'kl=none'\)$"),
    ],
)
def test_what_cannot_be_composed_is_told_in_our_words(word, told):
    with pytest.raises(ConfigError, match=told):
        build("recipe=grpo", "seed=1", word)


def test_names_are_those_of_the_recipe_that_was_chosen():
    with pytest.raises(ConfigError, match=r"^value_learner.epoch is .*did you mean 'epochs'\?"):
        build("recipe=ppo", "value_learner.epoch=3")


def test_settings_are_no_keywords():
    told = r"build\('recipe=dapo', 'kl=none', 'trust=false', 'seed=1'\)$"

    with pytest.raises(ConfigError, match=told):
        build(recipe="dapo", kl="none", trust=False, seed=1)


def test_a_yaml_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "bad.yaml").write_text("a: [")

    with pytest.raises(ConfigError, match=r"experiment/bad\.yaml: while parsing"):
        build("experiment=bad", config_dirs=[str(tmp_path)])


def test_a_yaml_without_its_first_line_is_refused(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "plain.yaml").write_text("seed: 3")

    with pytest.raises(ConfigError, match=r"plain\.yaml: put at its top\n?.*# @package _global_"):
        build("experiment=plain", config_dirs=[str(tmp_path)])


def test_parts_are_items_and_do_nothing_by_themselves():
    with pytest.raises(
        AttributeError, match=r"Parts have no 'train': .* the command line's, rlcomp"
    ):
        build(*RECIPE, *SMALL).train()


def test_a_learner_without_the_advantage_says_which_stage_writes_it():
    parts = build(*RECIPE, *SMALL)
    rows = one(parts).exclude("advantage", "old_log_probs")

    with pytest.raises(ConfigError, match=r"^Learner reads ") as told:
        parts["learner"].accumulate(rows)
    assert "'advantage' [B, T] (float: A_t: advantage, detached; stage 'adv" in str(told.value)
    assert "and 'old_log_probs' [B, T] (float: " in str(told.value)
    assert "stage 'old_log_probs' writes it), the batch has [" in str(told.value)


def test_a_part_that_is_not_there_is_told_the_nearest():
    with pytest.raises(KeyError, match=r"no part 'polcy'; did you mean 'policy'\?"):
        Parts(policy=1, learner=2)["polcy"]
