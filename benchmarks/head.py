"""From states to log-probs and back: ``python benchmarks/head.py [TOKENS] [ROUNDS] [WORDS]``.

Forward and backward of the log-probs of TOKENS taken tokens, from states of width 512 over a
vocabulary of WORDS (50000), with the gradients of the states and of the head. Every variant runs in
a process of its own, by turns: that process's peak is the variant's. ``plain`` is ``log_softmax``
of all logits at once, ``trl`` the peer's chunked head. Seconds are medians of the rounds.
"""

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import absent, emit, gate, largest, row
from turn import peak_bytes

WIDTH = 512
KERNELS = ("torch", "onednn", "bfloat16")
# Times of plain; the share of its growth; times faster than the peer.
TIME, MEMORY, PEER = 1.2, 1 / 3, 2.0
# Log-probs apart in nats, gradients apart in their norm.
GATES = {"torch": (1e-5, 1e-5), "onednn": (1e-5, 1e-5), "bfloat16": (0.1, 0.02), "trl": (1e-5,) * 2}
# The peer's own constant: trl.trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE.
PEER_COLUMNS = 32768


def plain(states, weight, tokens):
    return (states @ weight.t()).log_softmax(-1).gather(1, tokens[:, None])[:, 0]


def ours(kernel):
    """Log-probs by one of our kernels."""
    import torch

    from rlcomp.engine.decoding import Decoding
    from rlcomp.engine.output_head import Head, compute_in_tiles
    from rlcomp.engine.scoring import sampled_log_probs

    def log_probs(states, weight, tokens):
        measure = sampled_log_probs(tokens, Decoding())
        rows = torch.arange(len(tokens))
        return compute_in_tiles([measure], states, rows, Head(weight, None, kernel))[0]

    return log_probs


def peer(states, weight, tokens):
    from trl.kernels.chunked_logprob import ChunkedLogProbFunction

    chunked = ChunkedLogProbFunction.apply
    return chunked(states, weight, None, tokens, 1.0, PEER_COLUMNS, None, 1.0, ())[0]


def child(variant, count, words, reference):
    """Run one step; print its seconds, memory growth and distance from the plain one."""
    import torch
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(1)
    log_probs = {"plain": plain, "trl": peer}.get(variant) or ours(variant)
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(count, WIDTH, generator=generator).requires_grad_()
    weight = torch.randn(words, WIDTH, generator=generator).mul_(0.05).requires_grad_()
    tokens = torch.randint(words, (count,), generator=generator)
    upstream = torch.randn(count, generator=generator)
    before = peak_bytes()
    # What is loaded or built at first use belongs to no step's time.
    torch.autograd.grad(log_probs(states[:2], weight, tokens[:2]).sum(), states)
    start = time.process_time()
    found = log_probs(states, weight, tokens)
    (found * upstream).sum().backward()
    seconds, growth = time.process_time() - start, peak_bytes() - before
    result = [found.detach(), states.grad, weight.grad[::50].clone()]
    if variant == "plain":
        save_file(dict(zip("abc", result, strict=True)), reference)
    expected = load_file(reference)
    print(json.dumps([seconds, growth, *apart(result, [expected[name] for name in "abc"])]))


def apart(result, reference):
    """The largest difference of log-probs, and of gradients by their norm."""
    log_probs, *gradients = zip(result, reference, strict=True)
    return float((log_probs[0] - log_probs[1]).abs().max()), largest(
        float((ours - theirs).norm() / theirs.norm()) for ours, theirs in gradients
    )


def measured(variants, count, rounds, words):
    """``[seconds, growth, log-probs apart, gradients apart]`` of every run, by variant."""
    found = {variant: [] for variant in variants}
    with tempfile.TemporaryDirectory() as directory:
        reference = str(Path(directory) / "plain.safetensors")
        for _ in range(rounds):
            for variant in variants:
                command = [sys.executable, __file__, str(count), "1", str(words)]
                command += ["--child", variant, reference]
                answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found[variant].append(json.loads(answer.stdout.splitlines()[-1]))
    return found


def gates(variant, runs, prefix=""):
    """Return the largest distance of a run from the plain one."""
    limits = zip(("log-probs", "gradients"), (2, 3), GATES[variant], strict=True)
    return [
        gate(prefix + what, largest(run[at] for run in runs), most) for what, at, most in limits
    ]


def timed(runs, others):
    """Median seconds of both sides, and the spread of the one that differs more."""
    sides = [[run[0] for run in each] for each in (runs, others)]
    spread = max(max(seconds) / min(seconds) for seconds in sides)
    return *map(statistics.median, sides), spread


def rows_of(kernel, found):
    """Our time and memory beside plain's."""
    runs, others = found[kernel], found["plain"]
    seconds, peer_seconds, spread = timed(runs, others)
    parity = gates(kernel, runs)
    pairs = [ours[0] / theirs[0] for ours, theirs in zip(runs, others, strict=True)]
    growth, peer_growth = (max(run[1] for run in each) for each in (runs, others))
    return [
        row(
            f"head, {kernel}: time",
            seconds / peer_seconds,
            goal=TIME,
            most=True,
            parity=parity,
            spread=spread,
            ours=seconds,
            peer="plain",
            peer_seconds=peer_seconds,
            range=[min(pairs), max(pairs)],
        ),
        row(
            f"head, {kernel}: growth of {growth / 2**20:.0f} MiB, plain {peer_growth / 2**20:.0f}",
            growth / peer_growth,
            goal=MEMORY,
            most=True,
            parity=parity,
            bytes=growth,
            peer_bytes=peer_growth,
        ),
    ]


def peer_row(found):
    """Our head, by torch's product, beside the peer's."""
    runs, others = found["torch"], found["trl"]
    seconds, peer_seconds, spread = timed(runs, others)
    pairs = [theirs[0] / ours[0] for ours, theirs in zip(runs, others, strict=True)]
    growth = max(run[1] for run in others)
    return row(
        f"head, torch against TRL, which grows by {growth / 2**20:.0f} MiB",
        peer_seconds / seconds,
        goal=PEER,
        parity=[*gates("torch", runs), *gates("trl", others, "peer's ")],
        spread=spread,
        ours=seconds,
        peer="trl",
        peer_seconds=peer_seconds,
        range=[min(pairs), max(pairs)],
        peer_bytes=growth,
    )


def main(count, rounds, words):
    """Measure all variants."""
    known = importlib.util.find_spec("trl") is not None
    found = measured(["plain", *KERNELS, *(["trl"] if known else [])], count, rounds, words)
    rows = [entry for kernel in KERNELS for entry in rows_of(kernel, found)]
    emit([*rows, peer_row(found) if known else absent("head, torch against TRL", PEER)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokens", type=int, nargs="?", default=4096)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("words", type=int, nargs="?", default=50_000)
    parser.add_argument("--child", nargs=2)
    arguments = parser.parse_args()
    if arguments.child:
        variant, reference = arguments.child
        child(variant, arguments.tokens, arguments.words, reference)
    else:
        main(arguments.tokens, arguments.rounds, arguments.words)
