"""A run says the same whichever engine computes it."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

SMALL = [
    # Half of all answers are right, so that there is something to learn in every step.
    "reward=regex",
    "reward.pattern='^[0-4]'",
    "phases.warm_start.steps=6",
    "phases.rl.steps=3",
    "prompts.batch_size=4",
    "rollout.group_size=4",
    "evaluation.num_prompts=8",
    "demonstrations.batch_size=16",
    "learner.num_minibatches=2",
    # Less than a minibatch: gradients come from several forward passes.
    "learner.micro_batch_tokens=96",
]
KINDS = {
    "plain": [],
    "critic": ["advantage=gae", "value=critic"],
    "head": ["advantage=gae", "value=head"],
    "adapters": ["adapter=lora", "reference=adapter_off"],
}


def play(directory, *overrides):
    """Numbers that were logged, and answers."""
    config = compose_config(["recipe=grpo", f"directory={directory}", *SMALL, *overrides])
    launch(config, plan_of(config))
    rows = [
        {name: v for name, v in row.items() if name != "phase" and not name.startswith("time/")}
        for row in read_lines(directory / "metrics.jsonl")
    ]
    return rows, [row["response"] for row in read_lines(directory / "samples.jsonl")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_has_the_same_metrics_and_answers_in_both_forward_passes(tmp_path, kind):
    ours, answers = play(tmp_path / "ours", "engine.forward=packed", *KINDS[kind])
    theirs, others = play(tmp_path / "theirs", "engine=transformers", *KINDS[kind])

    assert len(answers) == 16
    assert answers == others
    assert len(ours) == len(theirs) == 9
    for left, right in zip(ours, theirs, strict=True):
        assert left.keys() == right.keys()
        for name in right:
            # Sums in another order differ by 1e-7 of what is summed, and twelve steps of Adam,
            # which divides by the size of a gradient, pass that on: 1e-6 was seen.
            assert left[name] == pytest.approx(right[name], rel=1e-5, abs=1e-5), name
