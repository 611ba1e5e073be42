"""Gradient checkpointing: ``python benchmarks/checkpointing.py [M] [REPEATS]``.

An update with ``engine.checkpointing=true`` is compared with an update without it: CPU seconds, and
the bytes that the forward pass keeps for the backward pass. The batch is a single micro-batch, and
both sides use rlcomp's own forward pass.
"""

import argparse
import copy
from dataclasses import replace

import torch
from measure import against, by_turns, emit, gate, largest, row
from parity import grpo_loss, judged, update
from workloads import ROLLOUTS, build, sampled

from rlcomp import LanguageModel


def kept_bytes(model, call):
    """Return the bytes beside the weights that autograd keeps for the backward pass."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    bytes_of = {}  # by storage: several tensors may share one

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            bytes_of[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        call(0)
    return sum(bytes_of.values())


def main(name, repeats):
    """Measure the update of a workload, with and without gradient checkpointing."""
    torch.set_num_threads(1)
    workload, loss = ROLLOUTS[name], grpo_loss()
    tokenizer, policy, texts = build(workload)
    batch = judged(sampled(policy, texts, workload, 0))
    checkpointed = LanguageModel(
        model=copy.deepcopy(policy.model),
        tokenizer=tokenizer,
        decoding=policy.decoding,
        engine=replace(policy.engine, checkpointing=True),
    )

    def update_call(trained):
        def call(_):
            trained.zero_grad()
            update(trained, loss, batch)
            return 1

        return call

    plain, less = (kept_bytes(p.model, update_call(p)) for p in (policy, checkpointed))
    pairs = zip(checkpointed.model.parameters(), policy.model.parameters(), strict=True)
    difference = largest(float((a.grad - b.grad).norm() / b.grad.norm()) for a, b in pairs)
    parity = [gate("gradients", difference, 1e-6)]
    calls = {"rlcomp": update_call(checkpointed), "plain": update_call(policy)}
    timings = by_turns(calls, 1, repeats)
    label = f"update {name}, checkpointing: kept {less / 2**20:.0f} MiB, plain {plain / 2**20:.0f}"
    emit(
        [
            against(
                f"update {name}, checkpointing: time", timings, "plain", goal=None, parity=parity
            ),
            row(label, less / plain, goal=0.5, most=True, parity=parity, bytes=less),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=ROLLOUTS, nargs="?", default="M")
    parser.add_argument("repeats", type=int, nargs="?", default=5)
    arguments = parser.parse_args()
    main(arguments.workload, arguments.repeats)
