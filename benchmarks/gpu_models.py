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
# The words of the engine that ask for it.
PRECISIONS = {
    "float32": {"linear": "torch"},
    "tf32": {"linear": "tf32"},
    "bfloat16": {"compute": "bfloat16"},
    "compiled": {"compute": "bfloat16", "compile": True},
}
QUICK = Workload("tiny", 2, 2, 6, 6, 8, 4)
# 64 prompts, 8 answers each, of 256 of at most 512 tokens.
ROLLOUT = Workload("0.5B", 64, 8, 256, 256, 512, 256)


def workload_of(size, **changes):
    """The rollout's workload at a size; the tiny one is there to see that a script runs."""
    return QUICK if size == "tiny" else replace(ROLLOUT, size=size, **changes)


def model_on_device(workload, tokenizer):
    """The workload's model, made where it runs: random numbers of a billion weights take long."""
    with DEVICE:
        return model_of(workload, tokenizer).to(DEVICE)


def engine_of(precision):
    """The engine of a precision; None where it has no such word."""
    try:
        return Engine(**PRECISIONS[precision])
    except (TypeError, ConfigError):
        return None


def policy_of(model, tokenizer, engine):
    """The policy as rlcomp runs it."""
    policy = LanguageModel(model=model, tokenizer=tokenizer, decoding=Decoding(), engine=engine)
    return policy.to(DEVICE)


def prompts_of(workload, tokenizer, seed=0):
    """Ids of random prompts."""
    draw = random.Random(seed)
    lengths = [draw.randint(workload.shortest, workload.longest) for _ in range(workload.prompts)]
    return [[draw.randrange(2, len(tokenizer)) for _ in range(length)] for length in lengths]


def rows_of(workload, tokenizer, seed=0):
    """Rows to learn from, with random answers of the workload's lengths."""
    draw = random.Random(seed)
    heads = [row for row in prompts_of(workload, tokenizer) for _ in range(workload.group_size)]
    most = workload.max_new_tokens
    lengths = [min(most, 1 + int(draw.expovariate(1 / workload.mean))) for _ in heads]
    tails = [[draw.randrange(2, len(tokenizer)) for _ in range(n)] for n in lengths]
    batch = rows_from_ids(tokenizer, heads, tails)
    mask = batch["response_mask"]
    batch["rollout_log_probs"] = torch.where(mask, -math.log(len(tokenizer)), 0.0)
    return batch.to(DEVICE)


def seconds(call):
    """Wall-clock seconds of a call, until the device is done."""
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
    """The most memory the device has given out since the last reset; None on a CPU."""
    if DEVICE.type != "cuda":
        return None
    if reset:
        torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated() / 2**30


def weights_of(model):
    """Numbers of the layers' matrices, and of the output head's."""
    head = model.get_output_embeddings().weight.numel()
    linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear))
    return linear - head, head
