"""Groups of equal rewards: ``python benchmarks/dead_groups.py [M] [REPEATS]``.

The learner's forward and backward of GRPO's loss without KL, where half of the groups have
advantage 0. The learner skips their rows. The peer is the same learner with a loss that claims a
gradient of its own, so that it reads every row.
"""

import argparse
from functools import partial

import torch
from measure import against, by_turns, emit, gate, largest
from parity import grpo_loss, judged
from workloads import ROLLOUTS, build, sampled

from components.learner.gradient import Learner

GOALS = {"S": 1.8, "M": 1.8}


def half_dead(batch, group_size):
    """Return the rollout with an advantage in every other group only."""
    groups = torch.arange(batch.shape[0]) // group_size
    dead = (groups % 2 == 0)[:, None]
    return batch.set("advantage", batch["advantage"].masked_fill(dead, 0.0))


def gradient_call(policy, batch, every_row):
    """Return a function that computes the gradient of an optimiser step, of every row if asked."""
    loss = grpo_loss()
    loss.ratio.has_own_gradient = every_row
    learner = Learner(model=policy, losses={"policy": loss}, optimizer=partial(torch.optim.SGD))

    def call(_):
        policy.zero_grad()
        learner.differentiate(batch.copy())
        return 1

    return call


def gradients(policy, call):
    """Return the gradients that a call leaves in ``.grad``."""
    call(0)
    return [p.grad.clone() for p in policy.model.parameters()]


def main(name, repeats):
    """Measure the update of a workload."""
    torch.set_num_threads(1)
    workload = ROLLOUTS[name]
    _, policy, texts = build(workload)
    batch = half_dead(judged(sampled(policy, texts, workload, 0)), workload.group_size)
    ours, plain = (gradient_call(policy, batch, every_row) for every_row in (False, True))
    pairs = zip(gradients(policy, ours), gradients(policy, plain), strict=True)
    difference = largest(float((a - b).norm() / b.norm()) for a, b in pairs)
    timings = by_turns({"rlcomp": ours, "every row": plain}, 1, repeats)
    label = f"update {name}, half of the groups without an advantage"
    parity = [gate("gradients", difference, 1e-6)]
    emit([against(label, timings, "every row", goal=GOALS.get(name), parity=parity)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=ROLLOUTS, nargs="?", default="M")
    parser.add_argument("repeats", type=int, nargs="?", default=5)
    arguments = parser.parse_args()
    main(arguments.workload, arguments.repeats)
