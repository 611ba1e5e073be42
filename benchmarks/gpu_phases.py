"""The phases of ``gpu.py``: each is a process of its own, which prints its rows in JSON."""

import argparse
import importlib.util
import json
import os
import platform
import warnings
from importlib import metadata

import torch
from gpu_models import (
    DEVICE,
    PRECISIONS,
    engine_of,
    model_on_device,
    peak_gib,
    policy_of,
    prompts_of,
    rows_of,
    seconds,
    weights_of,
    workload_of,
)
from gpu_peers import generate, train, update_by_trl
from measure import gate, row
from parity import grpo_loss, judged, plain_log_probs, update
from workloads import tokenizer_of

from rlcomp.engine.minibatch import micro_batches
from rlcomp.engine.packing import pack

# Limits of the difference of log-probs, in nats (the largest difference in float32, else the mean
# difference), and of the relative difference of gradients in norm.
GATES = {"float32": 1e-4, "tf32": 5e-3, "bfloat16": 2e-2, "compiled": 2e-2}
# Goals: share of the copy rate while decoding, and of the bfloat16 product rate in an update.
BANDWIDTH, PEAK = 0.5, 0.4
# Prompts of an update, some 32 thousand packed tokens; tokens of a forward and backward pass.
PROMPTS, MICRO = 14, {"tiny": 2**13, "0.5B": 2**14, "1.5B": 2**13}
# Whole steps; the first one is not measured.
STEPS, PEER_STEPS = 3, 2


def device(sizes, _):
    """Yield the row of the device: its versions, and the rates that shares are relative to."""
    size, megabytes = (128, 1) if sizes == ["tiny"] else (8192, 2048)
    rates = {
        "bfloat16": product_rate(size, torch.bfloat16, "highest"),
        "tf32": product_rate(size, torch.float32, "high"),
        "float32": product_rate(size, torch.float32, "highest"),
    }
    copied = copy_rate(megabytes)
    figures = {f"{name} product": f"{rate / 1e12:.3g} TFLOP/s" for name, rate in rates.items()}
    figures |= {"copy, read and written": f"{copied / 1e9:.4g} GB/s", **versions()}
    name = torch.cuda.get_device_name() if DEVICE.type == "cuda" else platform.machine()
    peaks = {"bfloat16": rates["bfloat16"], "copy": copied}
    value = rates["bfloat16"] / 1e12
    yield row(f"device: {name}", value, goal=None, unit="TFLOP/s", figures=figures, peaks=peaks)


def product_rate(size, dtype, precision, times=10):
    """Return the floating-point operations a second of square products of random matrices."""
    torch.set_float32_matmul_precision(precision)
    a, b = (torch.randn(size, size, device=DEVICE, dtype=dtype) for _ in range(2))
    a @ b
    spent = min(seconds(lambda: [a @ b for _ in range(times)]) for _ in range(3))
    torch.set_float32_matmul_precision("highest")
    return times * 2 * size**3 / spent


def copy_rate(megabytes, times=10):
    """Return the bytes read and written a second by a copy."""
    source = torch.randn(megabytes * 2**18, device=DEVICE)
    target = torch.empty_like(source)
    target.copy_(source)
    spent = min(seconds(lambda: [target.copy_(source) for _ in range(times)]) for _ in range(3))
    return times * 2 * source.nbytes / spent


def versions():
    """Return the versions of the packages in use."""
    version_of = {"python": platform.python_version(), "CUDA": torch.version.cuda or "none"}
    for name in ("torch", "transformers", "tensordict", "trl", "vllm"):
        is_installed = importlib.util.find_spec(name) is not None
        version_of[name] = metadata.version(name) if is_installed else "absent"
    return version_of


def parity(sizes, _):
    """Yield rows that compare log-probs and gradients with a padded pass of transformers."""
    short = {"prompts": 4, "group_size": 4, "shortest": 32, "longest": 64}
    for size in ["tiny", *(size for size in sizes[:1] if size != "tiny")]:
        workload = workload_of(size, **short, max_new_tokens=64, mean=32)
        tokenizer = tokenizer_of(workload.size)
        model = model_on_device(workload, tokenizer)
        for precision in PRECISIONS:
            name = f"parity {size} {precision}"
            engine = engine_of(precision)
            if engine is None:
                yield unsupported(name)
                continue
            policy = policy_of(model, tokenizer, engine)
            yield parity_row(name, policy, sampled(policy, workload, tokenizer), GATES[precision])


def parity_row(name, policy, rollout, limit):
    """Return the row of log-probs (sampled, scored) and the gradient of GRPO's loss."""
    batch, loss, strict = judged(rollout), grpo_loss(), limit <= 1e-4
    with torch.no_grad():
        plain, scored = plain_log_probs(policy.model, batch), policy.log_probs(batch)
    difference_of = {}
    for source, log_probs in (("sampled", batch["rollout_log_probs"]), ("read", scored)):
        differences = (log_probs - plain)[batch["response_mask"]].abs()
        difference_of[source] = float(differences.max() if strict else differences.mean())
    # With these old log-probs the ratio is 1 on both sides: only the passes can differ.
    batch["old_log_probs"] = plain
    ours = gradient_of(policy, lambda rows: update(policy, loss, rows), batch)
    theirs = gradient_of(policy, lambda rows: plain_update(policy, loss, rows), batch)
    gradients = float((ours - theirs).norm() / theirs.norm())
    gates = [gate(f"{source} log-probs", value, limit) for source, value in difference_of.items()]
    gates.append(gate("gradients", gradients, limit))
    return row(name, max(difference_of.values()), goal=None, unit="nats", parity=gates)


def gradient_of(policy, step, batch):
    """Return all gradients as one vector."""
    policy.zero_grad()
    step(batch.copy())
    gradient = torch.cat([p.grad.flatten() for p in policy.model.parameters()])
    policy.zero_grad()
    return gradient


def plain_update(policy, loss, rows):
    """Run forward and backward by transformers on padded rows."""
    with torch.enable_grad():
        rows["log_probs"] = plain_log_probs(policy.model, rows)
        loss(rows)["loss"].backward()


def sampled(policy, workload, tokenizer, seed=0, **changes):
    """Sample a rollout by rlcomp."""
    arguments = {"group_size": workload.group_size, "max_new_tokens": workload.max_new_tokens}
    generator = torch.Generator().manual_seed(seed)
    return policy.generate(
        prompts_of(workload, tokenizer), **(arguments | changes), generator=generator
    )


def rollout(sizes, peaks):
    """Yield the rows of sampling, beside transformers' generate."""
    for size in sizes:
        workload = workload_of(size)
        tokenizer = tokenizer_of(workload.size)
        model = model_on_device(workload, tokenizer)
        # The peer runs in half precision, as a server runs a model.
        spent, tokens, steps = generate(model, workload, prompts_of(workload, tokenizer))
        text = f"{tokens / spent:.0f} tokens/s, {1e3 * spent / steps:.2f} ms a step in bfloat16"
        peers = {"transformers generate": text, "vllm": note_without("vllm")}
        for precision in ("bfloat16", "float32"):
            name = f"rollout {size} {precision}"
            engine = engine_of(precision)
            if engine is None:
                yield unsupported(name)
                continue
            policy = policy_of(model, tokenizer, engine)
            width = 2 if precision == "bfloat16" else 4
            yield rollout_row(name, policy, workload, tokenizer, peaks, width, peers)


def rollout_row(name, policy, workload, tokenizer, peaks, width, peers):
    """Return the row of a rollout: the share of the copy rate at which weights and cache are read.

    ``width`` is the number of bytes of a weight.
    """
    sampled(policy, workload, tokenizer, max_new_tokens=4)
    peak_gib(reset=True)
    rollouts = []
    spent = seconds(lambda: rollouts.append(sampled(policy, workload, tokenizer)))
    lengths = rollouts[0]["response_mask"].sum(1).cpu()
    tokens, steps = int(lengths.sum()), int(lengths.max())
    read = least_bytes(policy.model, workload, lengths, width)
    figures = {
        "tokens/s": f"{tokens / spent:.0f}",
        "ms a step": f"{1e3 * spent / steps:.2f}",
        "GB/s": f"{read / spent / 1e9:.0f}",
        "host syncs a step": syncs_a_step(policy, workload, tokenizer),
        "peak GiB": cell(peak_gib()),
    }
    share = read / spent / peaks["copy"] if "copy" in peaks else 0.0
    facts = {"ours": spent, "work": tokens, "figures": figures, "peers": peers}
    return row(name, share, goal=BANDWIDTH, unit="%", **facts)


def least_bytes(model, workload, lengths, width):
    """Return the bytes that decoding must read.

    All matrices in each step; in each step also the cached keys and values of each answer that has
    not ended, and of its group's prompt once.
    """
    layers, head = weights_of(model)
    steps, config = int(lengths.max()), model.config
    size = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    groups = lengths.view(-1, workload.group_size).amax(1).double()
    prompts = float(groups.sum()) * workload.longest
    answers = float((lengths.double() * (lengths - 1) / 2).sum())
    return width * (steps * (layers + head) + size * (prompts + answers))


def syncs_a_step(policy, workload, tokenizer):
    """Return how often a decode step waits for the device, counted by torch's debug mode."""
    if DEVICE.type != "cuda":
        return "-"
    counts, most = [], workload.max_new_tokens
    # The difference of two lengths leaves out the waits that a rollout has only once.
    few, many = min(16, most // 2), min(48, most)
    for max_new_tokens in (few, many):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            sampled(policy, workload, tokenizer, max_new_tokens=max_new_tokens)
            torch.cuda.set_sync_debug_mode("default")
        counts.append(sum("synchronizing" in str(warning.message) for warning in caught))
    return f"{(counts[1] - counts[0]) / (many - few):.2f}"


def updates(sizes, peaks):
    """Yield the rows of forward and backward of GRPO's loss over packed tokens."""
    for size in sizes:
        workload = workload_of(size, prompts=PROMPTS)
        tokenizer = tokenizer_of(workload.size)
        model = model_on_device(workload, tokenizer)
        batch = judged(rows_of(workload, tokenizer))
        peers = {"trl": update_by_trl(model, tokenizer, workload, batch)}
        for precision in ("compiled", "bfloat16", "tf32", "float32"):
            name = f"update {size} {precision}"
            engine = engine_of(precision)
            if engine is None:
                yield unsupported(name)
                continue
            policy = policy_of(model, tokenizer, engine)
            yield update_row(name, policy, batch, MICRO[size], peaks, peers)


def update_row(name, policy, batch, micro, peaks, peers):
    """Return the row of an update: the linear layers' arithmetic as a share of the product rate."""
    loss = grpo_loss()
    parts = list(micro_batches(batch, micro, 1, packed=True))

    def step(batches):
        policy.zero_grad()
        for part in batches:
            update(policy, loss, part)

    step(parts[:1] + parts[-1:])  # warms up; the last micro-batch may be smaller
    peak_gib(reset=True)
    spent = seconds(lambda: step(parts))
    tokens = sum(len(pack(part)[0].ids) for part in parts)
    answers = int(batch["response_mask"].sum())
    layers, head = weights_of(policy.model)
    # A weight takes 2 operations a token forward, and 4 backward.
    rate = 6 * (layers * tokens + head * answers) / spent
    figures = {
        "packed tokens": tokens,
        "tokens/s": f"{tokens / spent:.0f}",
        "answer tokens/s": f"{answers / spent:.0f}",
        "TFLOP/s": f"{rate / 1e12:.4g}",
        "peak GiB": cell(peak_gib()),
        "kernels": f"{kernels_of(lambda: step(parts[:1]))} for a micro-batch of {micro}",
    }
    policy.zero_grad()
    share = rate / peaks["bfloat16"] if "bfloat16" in peaks else 0.0
    return row(name, share, goal=PEAK, unit="%", ours=spent, figures=figures, peers=peers)


def kernels_of(call):
    """Count the kernels of one forward and backward pass."""
    if DEVICE.type != "cuda":
        return "-"
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        seconds(call)
    events = profiled.profiler.kineto_results.events()
    started = sum(event.device_type() == torch.autograd.DeviceType.CUDA for event in events)
    return str(started)


def step(sizes, _):
    """Yield the rows of whole GRPO steps: sampling, reward, advantage, loss, backward, AdamW.

    TRL comes last, because it is slow and the phase has a deadline.
    """
    for size in sizes:
        workload = workload_of(size, prompts=16)
        tokenizer = tokenizer_of(workload.size)
        yield step_row(f"GRPO step {size} compiled", size, workload, tokenizer)
    for size in sizes:
        workload = workload_of(size, prompts=16)
        tokenizer = tokenizer_of(workload.size)
        yield train(f"GRPO step {size}, trl", model_on_device, workload, tokenizer, PEER_STEPS)


def step_row(name, size, workload, tokenizer):
    """Return the row of our GRPO steps: answer tokens a second."""
    from gpu_steps import steps_of

    engine = engine_of("compiled")
    if engine is None:
        return unsupported(name)
    policy = policy_of(model_on_device(workload, tokenizer), tokenizer, engine)
    peak_gib(reset=True)
    spent, tokens = steps_of(policy, tokenizer, workload, STEPS, MICRO[size])
    figures = {"s": f"{spent:.2f}", "peak GiB": cell(peak_gib())}
    facts = {"ours": spent, "work": tokens, "figures": figures}
    return row(name, tokens / spent, goal=None, unit="tokens/s", **facts)


def cell(number):
    """Return a number for a cell of a table; a dash for None."""
    return "-" if number is None else f"{number:.1f}"


def unsupported(name):
    """Return the row of a precision that this version does not support."""
    return {"row": name, "met": None, "note": "not supported"}


def note_without(name):
    """Return the note on a peer that this script does not run."""
    is_installed = importlib.util.find_spec(name) is not None
    return "not measured by this script" if is_installed else "not installed"


PHASES = {
    "device": device,
    "parity": parity,
    "rollout": rollout,
    "update": updates,
    "step": step,
}


def main(phase, peaks, sizes):
    """Print the rows to stdout, and everything else to stderr."""
    rows = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if DEVICE.type == "cpu" and sizes != ["tiny"]:
        raise SystemExit("gpu.py measures a GPU, and torch sees none; --quick runs on a CPU")
    for entry in PHASES[phase](sizes, peaks):
        print(json.dumps(entry), file=rows, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phase", choices=PHASES)
    parser.add_argument("peaks", type=json.loads)
    parser.add_argument("sizes", nargs="+")
    arguments = parser.parse_args()
    main(arguments.phase, arguments.peaks, arguments.sizes)
