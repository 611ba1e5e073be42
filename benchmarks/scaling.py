"""Seconds per token as groups and batches grow: ``python benchmarks/scaling.py [REPEATS] [SIZE]``.

All answers are equally long, so that nothing but the size of the batch changes. A prompt is read
once for its whole group. So seconds per token may fall as groups grow, but must not rise from any
size to a larger one.
"""

import argparse
from dataclasses import replace

import torch
from measure import by_turns, emit, row
from parity import check_gradients, check_log_probs, grpo_loss, judged, update
from workloads import SIZES, Workload, build, sampled, texts_of

GOAL = 1.15  # largest ratio of seconds per token at a size to those at a smaller size


def axes(start):
    """Return the workloads along each axis, by name."""
    return {
        "group size": {f"2 x {size}": replace(start, group_size=size) for size in (4, 8, 16, 32)},
        "batch": {f"{n} x 8": replace(start, prompts=n, group_size=8) for n in (1, 2, 4, 8)},
    }


def scored_rows(policy, tokenizer, workload):
    """Return a rollout with random advantages: equal lengths would give 0."""
    batch = judged(sampled(policy, texts_of(workload, tokenizer), workload, 0))
    drawn = torch.randn(len(batch), 1, generator=torch.Generator().manual_seed(0))
    batch["advantage"] = torch.where(batch["response_mask"], drawn, 0.0)
    return batch


def rollout_call(policy, tokenizer, workload):
    """Return a function that samples a rollout and returns its number of tokens."""
    texts = texts_of(workload, tokenizer)
    return lambda draw: int(sampled(policy, texts, workload, draw)["response_mask"].sum())


def update_call(policy, tokenizer, workload):
    """Return a function that runs forward and backward and returns the response tokens."""
    batch = scored_rows(policy, tokenizer, workload)
    loss, tokens = grpo_loss(), int(batch["response_mask"].sum())

    def call(_):
        policy.zero_grad()
        update(policy, loss, batch)
        return tokens

    return call


def gates(what, policy, tokenizer, workload):
    """Compare log-probs or gradients of one size with the plain forward pass."""
    batch = scored_rows(policy, tokenizer, workload)
    if what == "update":
        return [check_gradients(policy, batch)]
    return [check_log_probs(policy, batch, batch["rollout_log_probs"])]


def highest_rise(values):
    """Return the largest ratio of a value to an earlier one; at least 1."""
    return max(b / a for place, a in enumerate(values) for b in values[place:])


def main(repeats, size):
    """Measure both axes."""
    torch.set_num_threads(1)
    # The mean is the limit: EOS is never drawn.
    start = Workload(size, 2, 4, 96, 128, 32, 32)
    tokenizer, policy, _ = build(start)
    rows = []
    for what, make in {"rollout": rollout_call, "update": update_call}.items():
        for axis, workloads in axes(start).items():
            calls = {name: make(policy, tokenizer, size) for name, size in workloads.items()}
            timings = by_turns(calls, 1, repeats)
            per_token = {name: timing.per_unit for name, timing in timings.items()}
            growth = highest_rise(list(per_token.values()))
            facts = {
                "parity": gates(what, policy, tokenizer, list(workloads.values())[-1]),
                "spread": max(timing.spread for timing in timings.values()),
                "microseconds_per_token": {n: 1e6 * s for n, s in per_token.items()},
            }
            rows.append(row(f"scaling, {what}, {axis}", growth, goal=GOAL, most=True, **facts))
            print(f"{what}, {axis}, microseconds per token: {facts['microseconds_per_token']}")
    emit(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repeats", type=int, nargs="?", default=3)
    parser.add_argument("size", choices=SIZES, nargs="?", default="M")
    arguments = parser.parse_args()
    main(arguments.repeats, arguments.size)
