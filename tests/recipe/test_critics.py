"""Critics in whole runs: a model of its own or a head on the policy, with and without a warm-up."""

import pytest
import torch

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.errors import ConfigErrors

TINY = [
    "recipe=grpo",
    "advantage=gae",
    "phases.warm_start.steps=3",
    "phases.rl.steps=4",
    "rollout.group_size=2",
    "model.hidden_size=16",
    "model.intermediate_size=16",
]
WARMED_UP = [
    *TINY,
    "value=critic",
    "value_warm_up=phase",
    "phases.value_warm_up.steps=2",
    "phases.value_warm_up.every.checkpoint=1",
]
KINDS = {"critic": WARMED_UP, "head": [*TINY, "value=head"]}


def tensors(directory, step):
    return open_checkpoint(directory / "checkpoints" / f"step-{step:08d}").tensors()


def under(prefix, found):
    return {name: tensor for name, tensor in found.items() if name.startswith(prefix)}


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


@pytest.fixture(scope="module")
def critic(play, tmp_path_factory):
    return play(tmp_path_factory.mktemp("critic") / "run", *KINDS["critic"])


@pytest.fixture(scope="module")
def head(play, tmp_path_factory):
    return play(tmp_path_factory.mktemp("head") / "run", *KINDS["head"])


# Steps 1 to 3 warm the policy up, with a critic 4 and 5 the critic, and then both learn.
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "step"), [("critic", 3), ("critic", 4), ("critic", 7)])
def test_a_run_with_a_critic_is_continued_bit_identically(
    bits, continued, tmp_path, critic, kind, step
):
    again = continued(critic, tmp_path / "run", step, *KINDS[kind])

    assert bits(again) == bits(critic)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "step"), [("head", 3), ("head", 5)])
def test_a_run_with_a_value_head_is_continued_bit_identically(
    bits, continued, tmp_path, head, kind, step
):
    again = continued(head, tmp_path / "run", step, *KINDS[kind])

    assert bits(again) == bits(head)


def test_a_checkpoint_holds_the_critic_once(critic):
    saved = tensors(critic, 9)

    own = {name.split(":")[1].split(".")[0] for name in under("critic:", saved)}
    assert own == {"backbone", "value_head", "started"}
    assert saved["critic:value_head.weight"].any()
    assert len([name for name in saved if "embed_tokens" in name and "state" not in name]) == 3


def test_a_checkpoint_holds_the_head_with_the_policy(head):
    saved = tensors(head, 7)

    assert saved["policy:value_head.weight"].any()
    assert saved["policy:value_head.bias"] != 0


def test_the_critic_warms_up_between_the_warm_start_and_the_policy_s_own_learning(metrics, critic):
    phases = [row["phase"] for row in metrics(critic)]

    assert phases == ["warm_start"] * 3 + ["value_warm_up"] * 2 + ["rl"] * 4


def test_in_the_warm_up_the_critic_learns_and_the_policy_does_not(critic):
    before, first, after = (tensors(critic, step) for step in (3, 4, 5))

    assert under("model:", before)
    assert same(under("model:", before), under("model:", after))
    assert not same(under("critic:value_head", first), under("critic:value_head", after))
    assert not same(under("model:", after), under("model:", tensors(critic, 6)))


def test_the_critic_starts_from_the_policy_after_its_warm_start(critic):
    found, before, after = (tensors(critic, step) for step in (1, 3, 4))
    name = "embed_tokens.weight"

    def distance(left, right):
        return (left[f"critic:backbone.{name}"] - right[f"model:model.{name}"]).abs().max()

    assert distance(found, before) > 1e-3
    # Between them is one step of Adam, in which the head is 0 and sends no gradient on.
    assert distance(after, before) == 0


def test_both_learners_have_their_losses_recorded(metrics, critic, head):
    for row in (metrics(critic)[-1], metrics(head)[-1]):
        assert row["loss/value"] > 0
        assert "loss/policy" in row
        assert "value/clip_fraction" in row


def test_a_supervised_warm_start_does_not_see_the_head(play, tmp_path, head):
    plain = play(tmp_path / "run", *TINY, "advantage=group_mean", "phases.rl.steps=0")

    assert same(under("model.", tensors(plain, 3)), under("model.", tensors(head, 3)))


def test_more_micro_batches_change_no_number(play, metrics, tmp_path, head):
    split = play(tmp_path / "run", *KINDS["head"], "learner.micro_batch_tokens=40")

    for row, other in zip(metrics(head)[3:], metrics(split)[3:], strict=True):
        for name in ("loss/value", "value/mean", "value/clip_fraction"):
            # The sums are taken in another order.
            assert row[name] == pytest.approx(other[name], abs=1e-5)


def test_a_critic_that_nobody_asks_is_refused(play, tmp_path):
    with pytest.raises(ConfigErrors, match="returns"):
        play(tmp_path / "run", *TINY, "value=critic", "advantage=group_mean")


def test_a_critic_of_another_size_starts_from_weights_of_its_own(play, tmp_path):
    larger = [
        *TINY,
        "value=critic",
        "+model@critic.model=tiny",
        "critic.model.hidden_size=32",
        "phases.rl.steps=1",
    ]

    saved = tensors(play(tmp_path / "run", *larger), 4)

    assert len(saved["critic:value_head.weight"]) == 32
    assert saved["critic:backbone.norm.weight"].shape == (32,)


# Sorting four digits, 9 CPU seconds each.
SMALL = (
    "task.length=4",
    "phases.warm_start.steps=50",
    "phases.rl.steps=30",
    "phases.rl.every.evaluation=30",
    "demonstrations.batch_size=64",
    "prompts.batch_size=32",
    "rollout.group_size=8",
    "advantage=gae",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["critic", "head"])
def test_a_policy_learns_with_a_critic(metrics, rlcomp, tmp_path, kind):
    assert rlcomp("recipe=grpo", f"value={kind}", f"directory={tmp_path}", *SMALL) == 0

    before, after = (
        row["evaluation/sampled"] for row in metrics(tmp_path) if "evaluation/sampled" in row
    )
    # Over 10 runs, 5 with a critic and 5 with a head (5 seeds, 3 engines), accuracy rose by mean
    # .30, sd .011, least .29: .1 is 18 sd below. The two means differ by .015.
    assert after > before + 0.1
