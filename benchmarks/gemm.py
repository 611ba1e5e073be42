"""Measure the speed of each kernel on linear layers: ``python benchmarks/gemm.py [SHAPES]``.

SHAPES is the number of shapes to measure, from the first one on; without it all are measured. The
kernels take turns on one thread. The table holds GFLOP/s by CPU seconds: the median over the
repeats, and in brackets slowest over fastest. A last line holds the same as JSON.
"""

import argparse
import json
import time
from statistics import median

import torch

from rlcomp.engine.linear import accumulate, faster_kernel, linear
from rlcomp.engine.native import bf16x6

KERNELS = ("torch", "onednn", *["bf16x6"] * (bf16x6.why_missing_bf16x6() is None), "bfloat16")
# Rows, inputs, outputs.
SHAPES = [(64, 128, 384), (512, 256, 1024), (1024, 512, 2048), (1024, 512, 32000)]
SHAPES += [(rows, 512, 2048) for rows in (1, 8, 64)]
# A product is repeated for this many CPU seconds, all kernels together; least and most repeats.
SECONDS, LEAST, MOST = 1.0, 5, 40


def products(shape):
    """Return the products of a layer, by name, as functions of the kernel."""
    rows, inputs, outputs = shape
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    upstream, total = torch.randn(rows, outputs), torch.zeros(outputs, inputs)
    x_leaf, weight_leaf = x.clone().requires_grad_(), weight.clone().requires_grad_()
    by_input = {kernel: linear(x_leaf, weight, None, kernel) for kernel in KERNELS}
    by_weight = {kernel: linear(x, weight_leaf, None, kernel) for kernel in KERNELS}

    def gradient(y, leaf):
        return torch.autograd.grad(y, leaf, upstream, retain_graph=True)

    return {
        "forward": lambda kernel: linear(x, weight, None, kernel),
        "input": lambda kernel: gradient(by_input[kernel], x_leaf),
        "weight": lambda kernel: gradient(by_weight[kernel], weight_leaf),
        "accumulate": lambda kernel: accumulate(total, upstream, x, kernel),
    }


def measure(call, operations):
    """Return GFLOP/s of each kernel (by its median seconds), and slowest over fastest repeat."""
    seconds_of = {kernel: [] for kernel in KERNELS}
    for kernel in KERNELS:
        call(kernel)
    begin = time.process_time()
    while len(seconds_of["torch"]) < LEAST or (
        len(seconds_of["torch"]) < MOST and time.process_time() - begin < SECONDS
    ):
        for kernel, seconds in seconds_of.items():
            start = time.process_time()
            call(kernel)
            seconds.append(time.process_time() - start)
    return {
        kernel: (operations / median(seconds) / 1e9, max(seconds) / min(seconds))
        for kernel, seconds in seconds_of.items()
    }


def main(count):
    """Print the table and the JSON line."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'rows x inputs x outputs':26s}{'product':12s}" + "".join(f"{k:>18s}" for k in KERNELS))
    rows = []
    for shape in SHAPES[:count]:
        for product, call in products(shape).items():
            rates = measure(call, 2 * shape[0] * shape[1] * shape[2])
            cells = "".join(f"{rate:12.1f} [{spread:3.1f}]" for rate, spread in rates.values())
            print(f"{'x'.join(map(str, shape)):26s}{product:12s}{cells}", flush=True)
            rows.append({"shape": shape, "product": product, "gflops": rates})
    facts = {
        "fastest": "bf16x6" if "bf16x6" in KERNELS else faster_kernel(),
        "torch": torch.__version__,
    }
    print(json.dumps({**facts, "cpu": torch.backends.cpu.get_cpu_capability(), "rows": rows}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", type=int, nargs="?", default=len(SHAPES))
    main(parser.parse_args().shapes)
