"""A rollout in another process, from the pickled plan: no ambient state."""

import multiprocessing
import pickle

import pytest
import torch

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.metrics import merge, recording
from rlcomp.run.stages import empty_batch, run_stages

STAGES = ("prompts", "rollout", "reward")


def rolled_out(pickled: bytes, weights: dict[str, torch.Tensor]):
    """Build from the plan, take the weights over, roll out once."""
    torch.set_num_threads(1)
    builder = Builder(pickle.loads(pickled), seed=3)
    builder.all()
    builder.built["policy"].load_state_dict(weights)
    with recording(progress=0.5) as ledger, torch.no_grad():
        batch = run_stages([builder.built[name] for name in STAGES], empty_batch())
    return batch.to_dict(), ledger


@pytest.mark.slow
def test_a_child_gives_the_same_tokens_metrics_and_versions():
    tiny = ["prompts.batch_size=3", "group_size=2", "model.hidden_size=16"]
    plan = pickle.dumps(plan_of(compose_config(["recipe=grpo", "seed=3", *tiny])))
    builder = Builder(pickle.loads(plan), seed=3)
    policy = builder.build(builder.plan.nodes["policy"])
    for _ in range(4):  # four updates: rollouts are of version 4
        policy.updated()
    weights = {name: tensor.clone() for name, tensor in policy.state_dict().items()}

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        batch, ledger = pool.apply(rolled_out, (plan, weights))
    expected, own = rolled_out(plan, weights)

    assert batch.keys() == expected.keys()
    assert torch.equal(batch["tokens"], expected["tokens"])
    assert torch.equal(batch["rollout_log_probs"], expected["rollout_log_probs"])
    mask = batch["response_mask"]
    assert batch["policy_version"][mask].unique().tolist() == [4]
    with recording() as merged:
        merge(ledger)
    assert merged.means() == own.means()
    assert merged.means()["rollout/tokens"] == mask.sum()
