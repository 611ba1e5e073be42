import warnings

import pytest

from rlcomp.config.compose import compose_config
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
