"""Runs on a GPU: what stays on the CPU, and what does not, meets where it must."""

import pytest
import torch

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SMALL = ["model.hidden_size=16", "model.intermediate_size=16", "demonstrations.batch_size=8"]
SAMPLED = [*SMALL, "prompts.batch_size=4", "rollout.group_size=4", "evaluation.num_prompts=8"]

# Flash attention takes heads of 8 features.
WIDE = ["model.num_attention_heads=2", "model.num_key_value_heads=2"]


# Rollouts with a KL; given pairs, which no model has sampled; evaluators with sums of their own;
# half precision.
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    "words",
    [
        ["recipe=grpo", *SAMPLED],
        ["recipe=grpo", *SAMPLED, "engine=half", *WIDE],
        ["recipe=dpo", *SMALL],
        ["recipe=self_play"],
        ["recipe=nlrl"],
    ],
    ids=lambda words: " ".join(word for word in words if not word.startswith("model")),
)
def test_a_run_goes_through_on_a_gpu(words, tmp_path):
    config = compose_config([*words, "device=cuda", f"directory={tmp_path}"])
    for phase in filter(None, config.phases.values()):
        phase.steps = min(int(phase.steps), 2)

    launch(config, plan_of(config))

    assert (tmp_path / "metrics.jsonl").read_text().count("\n") > 0
