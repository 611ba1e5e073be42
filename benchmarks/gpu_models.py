"""Policies on the device, training rows and a clock for the phases of ``gpu.py``."""

import math
import random
import time
from dataclasses import replace

import torch
from workloads import Workload, model_of

from rlcomp import Decoding, LanguageModel
from rlcomp.engine.engine import Engine
from rlcomp.errors import ConfigError
from rlcomp.text.rows import rows_from_ids

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Arguments of the engine for each precision.
PRECISIONS = {
    "float32": {"linear": "torch"},
    "tf32": {"linear": "tf32"},
    "bfloat16": {"compute": "bfloat16"},
    "compiled": {"compute": "bfloat16", "compile": True},
}
QUICK = Workload("tiny", 2, 2, 6, 6, 8, 4)
# 64 prompts of 256 tokens, 8 answers each, of 256 tokens on average and at most 512.
ROLLOUT = Workload("0.5B", 64, 8, 256, 256, 512, 256)


def workload_of(size, **changes):
    """Return the workload of a rollout at a size, with other fields.

    The tiny one only shows that a script runs; the other fields do not change it.
    """
    return QUICK if size == "tiny" else replace(ROLLOUT, size=size, **changes)


def model_on_device(workload, tokenizer):
    """Create the workload's model on the device: drawing a billion weights on the CPU is slow."""
    with DEVICE:
        return model_of(workload, tokenizer).to(DEVICE)


def engine_of(precision):
    """Return the engine of a precision; None if this version of rlcomp does not support it."""
    try:
        return Engine(**PRECISIONS[precision])
    except (TypeError, ConfigError):
        return None


def policy_of(model, tokenizer, engine):
    """Return a policy with a model and an engine, on the device."""
    policy = LanguageModel(model=model, tokenizer=tokenizer, decoding=Decoding(), engine=engine)
    return policy.to(DEVICE)


def prompts_of(workload, tokenizer, seed=0):
    """Return the token ids of random prompts."""
    draw = random.Random(seed)
    lengths = [draw.randint(workload.shortest, workload.longest) for _ in range(workload.prompts)]
    return [[draw.randrange(2, len(tokenizer)) for _ in range(length)] for length in lengths]


def rows_of(workload, tokenizer, seed=0):
    """Return rows to learn from, with random answers of the workload's lengths.

    ``rollout_log_probs`` are those of uniform sampling.
    """
    draw = random.Random(seed)
    prompts = [row for row in prompts_of(workload, tokenizer) for _ in range(workload.group_size)]
    limit = workload.max_new_tokens
    lengths = [min(limit, 1 + int(draw.expovariate(1 / workload.mean))) for _ in prompts]
    answers = [[draw.randrange(2, len(tokenizer)) for _ in range(n)] for n in lengths]
    batch = rows_from_ids(tokenizer, prompts, answers)
    mask = batch["response_mask"]
    batch["rollout_log_probs"] = torch.where(mask, -math.log(len(tokenizer)), 0.0)
    return batch.to(DEVICE)


def seconds(call):
    """Return the wall-clock seconds of a call, until the device is done."""
    synchronize()
    start = time.perf_counter()
    call()
    synchronize()
    return time.perf_counter() - start


def synchronize():
    """Wait for the device."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def peak_gib(reset=False):
    """Return the most memory allocated on the device since the last reset; None on a CPU."""
    if DEVICE.type != "cuda":
        return None
    if reset:
        torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated() / 2**30


def weights_of(model):
    """Return the number of weights in the layers' matrices, and in the output head's matrix."""
    head = model.get_output_embeddings().weight.numel()
    linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear))
    return linear - head, head
