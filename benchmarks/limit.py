"""Compare a step with the peak of one core: ``python benchmarks/limit.py [REPEATS] [WORKLOAD]``.

The limit is the time that the linear layers' arithmetic would take at the rate of torch's fastest
float32 matrix product (the model's layers, 1024 rows, both libraries of torch). The arithmetic is
on every distinct prompt once and on every answer once. Attention, norms and sampling count as
nothing. With a matrix unit (``bf16x6``) the limit is lower; one more row has the update's share of
that limit.
"""

import argparse
import time

import torch
from measure import by_turns, emit, row
from parity import check_gradients, check_log_probs, grpo_loss, judged, update
from torch import nn
from workloads import ROLLOUTS, build, sampled

from rlcomp.engine.native import bf16x6

GOALS = {"update": 0.75, "rollout": 0.40}  # least share of the limit
ROWS = 1024  # of the products that measure the peak


def onednn(x, weight):
    """Compute torch's float32 product by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


def split(x, weight):
    """Compute a float32 product by six bfloat16 products."""
    return bf16x6.product(x, weight.t())


def torch_kernels():
    """Return the float32 products of torch."""
    return [torch.nn.functional.linear, *[onednn] * torch.backends.mkldnn.is_available()]


@torch.no_grad()
def peak_rate(model, kernels, repeats=5):
    """Return the most floating-point operations a second, over the model's linear layers."""
    rate = 0.0
    for weight in {m.weight.shape: m.weight for m in linears(model)}.values():
        x = torch.randn(ROWS, weight.shape[1])
        for kernel in kernels:
            kernel(x, weight)
            rate = max(rate, *(_rate(kernel, x, weight) for _ in range(repeats)))
    return rate


def _rate(kernel, x, weight, times=3):
    start = time.process_time()
    for _ in range(times):
        kernel(x, weight)
    return times * 2 * len(x) * weight.numel() / (time.process_time() - start)


def linears(model):
    """Return the linear layers of a model, the output head among them."""
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


def forward_operations(model, batch, texts, tokenizer):
    """Count the floating-point operations of the linear layers in one forward pass."""
    answers = int(batch["response_mask"].sum())
    prompts = sum(len(tokenizer(text)["input_ids"]) for text in texts)
    head = model.get_output_embeddings().weight.numel()
    layers = sum(module.weight.numel() for module in linears(model)) - head
    return 2 * (layers * (prompts + answers) + head * answers)


def main(repeats, chosen):
    """Measure the update and the rollout of a workload."""
    torch.set_num_threads(1)
    workload = ROLLOUTS[chosen]
    tokenizer, policy, texts = build(workload)
    batch, loss = judged(sampled(policy, texts, workload, 0)), grpo_loss()

    def step(_):
        policy.zero_grad()
        update(policy, loss, batch)
        return 1

    def rollout(_):
        sampled(policy, texts, workload, 0)
        return 1

    before = peak_rate(policy.model, torch_kernels())
    timings = by_turns({"update": step, "rollout": rollout}, 1, repeats)
    rate = max(before, peak_rate(policy.model, torch_kernels()))
    forward = forward_operations(policy.model, batch, texts, tokenizer)
    operations = {"update": 3 * forward, "rollout": forward}
    parity = {
        "update": [check_gradients(policy, batch)],
        "rollout": [check_log_probs(policy, batch, batch["rollout_log_probs"])],
    }
    rows = []
    for what, goal in GOALS.items():
        limit = operations[what] / rate
        facts = {"limit_seconds": limit, "gflops": rate / 1e9, "parity": parity[what]}
        seconds, spread = timings[what].per_call, timings[what].spread
        share = limit / seconds
        name = f"share of the GEMM limit, {what} {chosen}"
        rows.append(row(name, share, goal=goal, unit="%", ours=seconds, spread=spread, **facts))
    if bf16x6.why_missing_bf16x6() is None:
        rate = peak_rate(policy.model, [split])
        share = operations["update"] / rate / timings["update"].per_call
        facts = {
            "gflops": rate / 1e9,
            "parity": parity["update"],
            "ours": timings["update"].per_call,
        }
        spread = timings["update"].spread
        name = f"share of the limit of BF16x6, update {chosen}"
        rows.append(row(name, share, goal=None, unit="%", spread=spread, **facts))
    emit(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repeats", type=int, nargs="?", default=5)
    parser.add_argument("workload", choices=ROLLOUTS, nargs="?", default="M")
    arguments = parser.parse_args()
    main(arguments.repeats, arguments.workload)
