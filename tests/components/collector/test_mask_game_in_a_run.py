"""The game of hiding spans, with everything around it, for some steps."""

import json
import math
from functools import partial

import pytest
import torch

from components.advantage.group import GroupMean
from components.collector.mask_game import MaskGame
from components.filter import ZeroVarianceMask
from components.learner.gradient import Learner
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.weight.rows import EqualRoleWeight
from components.old_log_probs import RecomputedLogProbs
from components.reward.mask_game import MaskGameReward
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigErrors
from rlcomp.files.json_lines import read_lines
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.run.launch import launch
from rlcomp.testing import make_batch, tiny_policy

CAT = "the cat sat on the mat."
DOG = "a dog ran to his den."
LETTERS = "abcdefghijklmnopqrstuvwxyz .<>[]{}\\/"
# What the first mask hides is found by one of two, what the second does by both; the third is none.
ANSWERS = {
    f"{CAT}<mask>": [r"\mask{cat}", r"\mask{sat}"],
    f"{DOG}<mask>": [r"\mask{dog}", r"\mask{cow}"],
    "the [mask] sat on the mat.<think>": [r"</think>\boxed{cat}", r"</think>\boxed{dog}"],
    "the cat [mask] on the mat.<think>": [r"</think>\boxed{sat}"],
    "a [mask] ran to his den.<think>": [r"</think>\boxed{cat}"],
}

make_policy = partial(tiny_policy, LETTERS, context_length=64)


def played(policy: LanguageModel):
    """One batch, with its advantages."""
    game = MaskGame(policy=policy, num_masks=2, group_size=2, max_new_tokens=20)
    batch = game(make_batch(answer=[CAT, DOG]))
    batch = MaskGameReward(tokenizer=policy.tokenizer)(batch)
    return GroupMean()(batch)


def learner(policy: LanguageModel, micro_batch_tokens: int | None = None) -> Learner:
    loss = PolicyLoss(
        ratio=TokenRatio(),
        trust_region=Clip(clip_low=0.2, clip_high=0.28),
        reduction=TokenMean(),
        weight={"equal_roles": EqualRoleWeight()},
    )
    return Learner(
        model=policy,
        losses={"policy": loss},
        optimizer=partial(torch.optim.SGD, lr=0.1),
        micro_batch_tokens=micro_batch_tokens,
    )


def weights(policy: LanguageModel) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in policy.model.parameters()])


def learnt(scripted, micro_batch_tokens=None):
    policy = make_policy()
    handle = scripted(policy, ANSWERS)
    batch = played(policy)
    handle.remove()
    with recording() as ledger:
        learner(policy, micro_batch_tokens)(RecomputedLogProbs(policy=policy)(batch))
    return policy, ledger.means()


def test_both_levels_earn_what_the_paper_says(scripted):
    policy = make_policy()
    scripted(policy, ANSWERS)

    batch = played(policy)

    # "cat" is found by 1 of 2, "sat" by 2 of 2, "dog" by none, and "cow" is not there.
    assert batch["reward"].tolist() == [0.5, 0.0, 0.0, 0.0, *[1, 0], *[1, 1], *[0, 0]]
    assert batch["advantage"].amax(1).tolist() == [0.25, *[0] * 3, *[0.5, 0], *[0] * 4]
    assert batch["advantage"].amin(1).tolist() == [0, -0.25, *[0] * 2, *[0, -0.5], *[0] * 4]


def test_a_step_of_the_learner_moves_finite_weights(scripted):
    policy, means = learnt(scripted)

    assert bool(weights(policy).isfinite().all())
    assert bool((weights(policy) != weights(make_policy())).any())
    assert math.isfinite(means["loss/policy"])
    assert means["learner/grad_norm"] > 0


def test_micro_batches_change_nothing(scripted):
    whole, _ = learnt(scripted)
    pieces, _ = learnt(scripted, micro_batch_tokens=64)

    torch.testing.assert_close(weights(pieces), weights(whole), atol=1e-6, rtol=0)


def test_where_no_mask_can_be_used_nothing_is_learnt_and_nothing_breaks(scripted):
    policy = make_policy()
    handle = scripted(policy, {f"{CAT}<mask>": ["no"], f"{DOG}<mask>": ["no"]})
    batch = ZeroVarianceMask()(played(policy))
    handle.remove()

    learner(policy)(RecomputedLogProbs(policy=policy)(batch))

    assert torch.equal(weights(policy), weights(make_policy()))


TINY = [
    "collector@rollout=mask_game",
    "rollout.num_masks=4",
    "rollout.group_size=4",
    "rollout.max_new_tokens=20",
    "reward=mask_game",
    "loss/weight=equal_roles",
    "filter=zero_variance",
    "kl=none",
    "task=file",
    "task.demonstration_field=demonstration",
    "task.held_out=0",
    f"tokenizer.characters='{LETTERS}'",
    "context_length=64",
    "max_new_tokens=20",
    "phases.warm_start.steps=100",
    "~evaluation",
    "~phases.warm_start.every",
    "~phases.rl.every.evaluation",
    "phases.rl.steps=3",
    "phases.rl.every.checkpoint=1",
    "prompts.batch_size=2",
    "demonstrations.batch_size=2",
    "model.hidden_size=32",
    "model.intermediate_size=32",
    "learner.num_minibatches=1",
    "checkpoint.keep=9",
]


def play(folder, name, *overrides):
    """A run whose warm start shows both roles what to write."""
    rows = [
        {"question": f"{CAT}<mask>", "demonstration": r"\mask{cat}"},
        {"question": "the [mask] sat on the mat.<think>", "demonstration": r"</think>\boxed{cat}"},
    ]
    lines = [json.dumps(row | {"answer": CAT}) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    given = [f"directory={folder / name}", f"task.path={folder / 'rows.jsonl'}"]
    config = compose_config([*given, *TINY, *overrides])
    launch(config, plan_of(config))
    metrics = read_lines(folder / name / "metrics.jsonl")
    return [
        {key: value for key, value in row.items() if not key.startswith("time/")}
        for row in metrics
        if row["phase"] == "rl"
    ]


@pytest.mark.slow
def test_a_run_plays_the_game_and_is_resumed_exactly(tmp_path):
    whole = play(tmp_path, "whole")

    first = tmp_path / "whole" / "checkpoints" / "step-00000101"
    resumed = play(tmp_path, "resumed", f"resume={first}")

    assert resumed == whole[1:]
    # There is something to learn: over 10 runs (10 seeds, 3 engines) the share of usable masks was
    # .25 to .88 in a step of 8, and in each of the 30 steps some answers were right and some wrong.
    # Without the warm start (its learning rate 0) no mask could be used in any step.
    assert any(row["mask_game/valid_fraction"] > 0 for row in whole)
    assert any(0 < row.get("mask_game/accuracy", 0) < 1 for row in whole)


def test_a_reward_that_does_not_pay_the_generator_is_refused():
    with pytest.raises(
        ConfigErrors, match=r"'answers_group_id' of rollout .* is read by no later stage"
    ):
        plan_of(compose_config(["directory=x", *TINY, "task.path=x", "reward=exact_match"]))
