"""The phases of ``gpu.py``, one a process: prints each row, in JSON, as soon as it is known."""

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

# Nats: the largest difference in float32, the mean one otherwise. Of gradients, relative in norm.
GATES = {"float32": 1e-4, "tf32": 5e-3, "bfloat16": 2e-2, "compiled": 2e-2}
BANDWIDTH, PEAK = 0.5, 0.4
# Of an update: some 32 thousand packed tokens. And those of one forward and backward pass.
PROMPTS, MICRO = 14, {"tiny": 2**13, "0.5B": 2**14, "1.5B": 2**13}
# The first of them is not measured.
STEPS, PEER_STEPS = 3, 2


def device(sizes, _):
    """Versions, and the rates that everything else is a share of."""
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
    """Floating-point operations a second of square products of random matrices."""
    torch.set_float32_matmul_precision(precision)
    a, b = (torch.randn(size, size, device=DEVICE, dtype=dtype) for _ in range(2))
    a @ b
    spent = min(seconds(lambda: [a @ b for _ in range(times)]) for _ in range(3))
    torch.set_float32_matmul_precision("highest")
    return times * 2 * size**3 / spent


def copy_rate(megabytes, times=10):
    """Bytes read and written a second."""
    source = torch.randn(megabytes * 2**18, device=DEVICE)
    target = torch.empty_like(source)
    target.copy_(source)
    spent = min(seconds(lambda: [target.copy_(source) for _ in range(times)]) for _ in range(3))
    return times * 2 * source.nbytes / spent


def versions():
    """Return the versions of the packages in use."""
    found = {"python": platform.python_version(), "CUDA": torch.version.cuda or "none"}
    for name in ("torch", "transformers", "tensordict", "trl", "vllm"):
        there = importlib.util.find_spec(name) is not None
        found[name] = metadata.version(name) if there else "absent"
    return found


def parity(sizes, _):
    """Sampled log-probs and gradients beside a padded float32 pass of transformers."""
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
    """Log-probs of sampler and scorer, and the gradient of GRPO's loss, held against theirs."""
    batch, loss, strict = judged(rollout), grpo_loss(), limit <= 1e-4
    with torch.no_grad():
        plain, read = plain_log_probs(policy.model, batch), policy.log_probs(batch)
    apart = {}
    for what, found in (("sampled", batch["rollout_log_probs"]), ("read", read)):
        each = (found - plain)[batch["response_mask"]].abs()
        apart[what] = float(each.max() if strict else each.mean())
    # The first step's ratio is 1 on both sides: what the passes make of the gradient is compared.
    batch["old_log_probs"] = plain
    own = gradient_of(policy, lambda rows: update(policy, loss, rows), batch)
    theirs = gradient_of(policy, lambda rows: plain_update(policy, loss, rows), batch)
    gradients = float((own - theirs).norm() / theirs.norm())
    gates = [gate(f"{what} log-probs", value, limit) for what, value in apart.items()]
    gates.append(gate("gradients", gradients, limit))
    return row(name, max(apart.values()), goal=None, unit="nats", parity=gates)


def gradient_of(policy, step, batch):
    """Return all gradients as one vector."""
    policy.zero_grad()
    step(batch.copy())
    found = torch.cat([p.grad.flatten() for p in policy.model.parameters()])
    policy.zero_grad()
    return found


def plain_update(policy, loss, rows):
    """Forward and backward by transformers, padded."""
    with torch.enable_grad():
        rows["log_probs"] = plain_log_probs(policy.model, rows)
        loss(rows)["loss"].backward()


def sampled(policy, workload, tokenizer, seed=0, **changes):
    """A rollout by rlcomp."""
    arguments = {"group_size": workload.group_size, "max_new_tokens": workload.max_new_tokens}
    generator = torch.Generator().manual_seed(seed)
    return policy.generate(
        prompts_of(workload, tokenizer), **(arguments | changes), generator=generator
    )


def rollout(sizes, peaks):
    """Sampling against generate of transformers."""
    for size in sizes:
        workload = workload_of(size)
        tokenizer = tokenizer_of(workload.size)
        model = model_on_device(workload, tokenizer)
        # A model that serves is in half precision.
        spent, tokens, steps = generate(model, workload, prompts_of(workload, tokenizer))
        said = f"{tokens / spent:.0f} tokens/s, {1e3 * spent / steps:.2f} ms a step in bfloat16"
        peers = {"transformers generate": said, "vllm": without("vllm")}
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
    """Tokens a second, and the share of the copy rate at which weights and cache were read."""
    sampled(policy, workload, tokenizer, max_new_tokens=4)
    peak_gib(reset=True)
    found = []
    spent = seconds(lambda: found.append(sampled(policy, workload, tokenizer)))
    lengths = found[0]["response_mask"].sum(1).cpu()
    tokens, steps = int(lengths.sum()), int(lengths.max())
    read = least_bytes(policy.model, workload, lengths, width)
    figures = {
        "tokens/s": f"{tokens / spent:.0f}",
        "ms a step": f"{1e3 * spent / steps:.2f}",
        "GB/s": f"{read / spent / 1e9:.0f}",
        "host syncs a step": syncs_a_step(policy, workload, tokenizer),
        "peak GiB": said(peak_gib()),
    }
    share = read / spent / peaks["copy"] if "copy" in peaks else 0.0
    facts = {"ours": spent, "work": tokens, "figures": figures, "peers": peers}
    return row(name, share, goal=BANDWIDTH, unit="%", **facts)


def least_bytes(model, workload, lengths, width):
    """Bytes that decoding must read: all matrices each step, every prompt and answer's cache."""
    layers, head = weights_of(model)
    steps, config = int(lengths.max()), model.config
    size = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    groups = lengths.view(-1, workload.group_size).amax(1).double()
    prompts = float(groups.sum()) * workload.longest
    answers = float((lengths.double() * (lengths - 1) / 2).sum())
    return width * (steps * (layers + head) + size * (prompts + answers))


def syncs_a_step(policy, workload, tokenizer):
    """Times a decode step waits for the device, as torch's debug mode counts them."""
    if DEVICE.type != "cuda":
        return "-"
    counts, most = [], workload.max_new_tokens
    few, many = min(16, most // 2), min(48, most)
    for new in (few, many):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            sampled(policy, workload, tokenizer, max_new_tokens=new)
            torch.cuda.set_sync_debug_mode("default")
        counts.append(sum("synchronizing" in str(one.message) for one in caught))
    return f"{(counts[1] - counts[0]) / (many - few):.2f}"


def updates(sizes, peaks):
    """Forward and backward of GRPO's loss over packed tokens."""
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
    """Tokens a second, and the share of the bfloat16 peak of the linear layers' arithmetic."""
    loss = grpo_loss()
    parts = list(micro_batches(batch, micro, 1, packed=True))

    def step(some):
        policy.zero_grad()
        for part in some:
            update(policy, loss, part)

    step(parts[:1] + parts[-1:])
    peak_gib(reset=True)
    spent = seconds(lambda: step(parts))
    tokens = sum(len(pack(part)[0].ids) for part in parts)
    answers = int(batch["response_mask"].sum())
    layers, head = weights_of(policy.model)
    rate = 6 * (layers * tokens + head * answers) / spent
    figures = {
        "packed tokens": tokens,
        "tokens/s": f"{tokens / spent:.0f}",
        "answer tokens/s": f"{answers / spent:.0f}",
        "TFLOP/s": f"{rate / 1e12:.4g}",
        "peak GiB": said(peak_gib()),
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
    """Whole GRPO steps: sampling, reward, advantage, loss, backward, AdamW. The slow peer last."""
    for size in sizes:
        workload = workload_of(size, prompts=16)
        tokenizer = tokenizer_of(workload.size)
        yield step_row(f"GRPO step {size} compiled", size, workload, tokenizer)
    for size in sizes:
        workload = workload_of(size, prompts=16)
        tokenizer = tokenizer_of(workload.size)
        yield train(f"GRPO step {size}, trl", model_on_device, workload, tokenizer, PEER_STEPS)


def step_row(name, size, workload, tokenizer):
    """Answer tokens a second."""
    from gpu_steps import steps_of

    engine = engine_of("compiled")
    if engine is None:
        return unsupported(name)
    policy = policy_of(model_on_device(workload, tokenizer), tokenizer, engine)
    peak_gib(reset=True)
    spent, tokens = steps_of(policy, tokenizer, workload, STEPS, MICRO[size])
    figures = {"s": f"{spent:.2f}", "peak GiB": said(peak_gib())}
    facts = {"ours": spent, "work": tokens, "figures": figures}
    return row(name, tokens / spent, goal=None, unit="tokens/s", **facts)


def said(number):
    """A number of a table; a dash for none."""
    return "-" if number is None else f"{number:.1f}"


def unsupported(name):
    """The row of what this version cannot do."""
    return {"row": name, "met": None, "note": "not supported"}


def without(name):
    """Return the note on a peer that this script does not run."""
    there = importlib.util.find_spec(name) is not None
    return "not measured by this script" if there else "not installed"


PHASES = {
    "device": device,
    "parity": parity,
    "rollout": rollout,
    "update": updates,
    "step": step,
}


def main(phase, peaks, sizes):
    """Print the rows; what else is printed goes to stderr."""
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
