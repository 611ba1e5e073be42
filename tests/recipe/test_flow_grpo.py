"""Flow-GRPO: the losses of tokens move a flow to the rewarded mode; a shuffled reward does not."""

import shutil

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SHORT = [
    "recipe=flow_grpo",
    "phases.fit.steps=1",
    "phases.fit.every={}",
    "phases.rl.steps=2",
    "phases.rl.every={evaluation: 2, checkpoint: 1}",
    "checkpoint.keep=9",
    "group_size=8",
    "evaluation.num_samples=20",
]


def play(directory, *words):
    config = compose_config([*words, f"directory={directory}"])
    launch(config, plan_of(config))
    return directory


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return play(tmp_path_factory.mktemp("flow") / "run", *SHORT)


def test_a_run_continued_after_a_step_is_bit_identical(bits, short, tmp_path):
    shutil.copytree(short, tmp_path / "run")

    kept = f"resume={tmp_path}/run/checkpoints/step-{2:08d}"

    assert bits(play(tmp_path / "run", *SHORT, kept)) == bits(short)


def test_the_first_ratio_of_a_batch_is_one_and_the_flow_moves(short, metrics):
    last = metrics(short)[-1]

    assert last["ratio/mean"] == pytest.approx(1.0, abs=0.05)
    assert last["learner/grad_norm"] > 0
    assert last["learner/tokens"] == 2 * 8 * 10  # two epochs of eight samples of ten steps


@pytest.mark.parametrize(
    "words",
    [
        ["loss=gspo", "kl=none"],
        ["loss=cispo", "advantage=leave_one_out", "kl=in_reward"],
        ["loss=dapo", "old_log_probs=recomputed", "reference=refreshed", "kl=in_loss_k2"],
        ["loss=clip_cov", "+entropy_bonus=fixed"],
    ],
    ids=lambda words: words[0],
)
def test_losses_advantages_and_kl_of_tokens_serve_for_steps(words, tmp_path, metrics):
    rows = metrics(play(tmp_path, *SHORT, "phases.rl.every={}", *words))

    assert rows[-1]["learner/grad_norm"] > 0
    assert rows[-1]["learner/non_finite"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_samples_come_to_the_rewarded_mode(tmp_path, metrics, at_work, seed):
    rows = metrics(play(tmp_path, "recipe=flow_grpo", f"seed={seed}"))

    shares = [row["evaluation/in_mode"] for row in rows if "evaluation/in_mode" in row]
    assert shares[0] <= 0.2  # one of eight modes
    assert shares[-1] >= 0.95
    at_work("flow_grpo", rows)


@pytest.mark.slow
def test_with_shuffled_rewards_they_do_not(tmp_path, metrics):
    words = ["recipe=flow_grpo", "shaping=shuffled", "phases.fit.steps=400", "phases.rl.steps=30"]
    rows = metrics(play(tmp_path, *words, "phases.fit.every={evaluation: 400}"))

    shares = [row["evaluation/in_mode"] for row in rows if "evaluation/in_mode" in row]
    assert max(shares) <= 0.3
