"""Measure the speed of each kernel on linear layers: ``python benchmarks/gemm.py [SHAPES]``.

SHAPES is how many of its shapes, the first ones; without it all. What is measured is
CPU seconds of one thread, kernels by turns; the table holds GFLOP/s: the median over the repeats,
and in brackets slowest over fastest. A last line holds the same as JSON.
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
SECONDS, LEAST, MOST = 1.0, 5, 40


def products(shape):
    """The products of a layer by name, each taking the kernel."""
    rows, inputs, outputs = shape
    x, weight, g = (
        torch.randn(rows, inputs),
        torch.randn(outputs, inputs),
        torch.randn(rows, outputs),
    )
    total = torch.zeros(outputs, inputs)
    leaf, learned = x.clone().requires_grad_(), weight.clone().requires_grad_()
    by_input = {kernel: linear(leaf, weight, None, kernel) for kernel in KERNELS}
    by_weight = {kernel: linear(x, learned, None, kernel) for kernel in KERNELS}

    def slope(y, of):
        return torch.autograd.grad(y, of, g, retain_graph=True)

    return {
        "forward": lambda kernel: linear(x, weight, None, kernel),
        "input": lambda kernel: slope(by_input[kernel], leaf),
        "weight": lambda kernel: slope(by_weight[kernel], learned),
        "accumulate": lambda kernel: accumulate(total, g, x, kernel),
    }


def measure(call, operations):
    """GFLOP/s of each kernel: the median, and slowest over fastest."""
    taken = {kernel: [] for kernel in KERNELS}
    for kernel in KERNELS:
        call(kernel)
    begin = time.process_time()
    while len(taken["torch"]) < LEAST or (
        len(taken["torch"]) < MOST and time.process_time() - begin < SECONDS
    ):
        for kernel, seconds in taken.items():
            start = time.process_time()
            call(kernel)
            seconds.append(time.process_time() - start)
    return {
        kernel: (operations / median(seconds) / 1e9, max(seconds) / min(seconds))
        for kernel, seconds in taken.items()
    }


def main(count):
    """Print the table and the JSON line."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'rows x inputs x outputs':26s}{'product':12s}" + "".join(f"{k:>18s}" for k in KERNELS))
    rows = []
    for shape in SHAPES[:count]:
        for product, call in products(shape).items():
            found = measure(call, 2 * shape[0] * shape[1] * shape[2])
            cells = "".join(f"{rate:12.1f} [{spread:3.1f}]" for rate, spread in found.values())
            print(f"{'x'.join(map(str, shape)):26s}{product:12s}{cells}", flush=True)
            rows.append({"shape": shape, "product": product, "gflops": found})
    facts = {
        "fastest": "bf16x6" if "bf16x6" in KERNELS else faster_kernel(),
        "torch": torch.__version__,
    }
    print(json.dumps({**facts, "cpu": torch.backends.cpu.get_cpu_capability(), "rows": rows}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", type=int, nargs="?", default=len(SHAPES))
    main(parser.parse_args().shapes)
