"""The output head, forward and backward: ``python benchmarks/head.py [TOKENS] [ROUNDS] [WORDS]``.

Forward and backward of the log-probs of TOKENS sampled tokens, from states of width 512 over a
vocabulary of WORDS (50000), with the gradients of the states and of the head. The variants take
turns, each in a process of its own, whose peak of memory is the variant's. ``plain`` is
``log_softmax`` of all logits at once, ``trl`` the peer's chunked head. Seconds are medians of the
rounds.
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
# Goals: most time and most growth of memory, as multiples of plain's; least speed-up over TRL.
TIME, MEMORY, PEER = 1.2, 1 / 3, 2.0
# Limits of the difference of log-probs, in nats, and of the relative difference of gradients.
GATES = {"torch": (1e-5, 1e-5), "onednn": (1e-5, 1e-5), "bfloat16": (0.1, 0.02), "trl": (1e-5,) * 2}
# The peer's own constant: trl.trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE.
PEER_COLUMNS = 32768


def plain(states, weight, tokens):
    """Return the log-probs by ``log_softmax`` of all logits at once."""
    return (states @ weight.t()).log_softmax(-1).gather(1, tokens[:, None])[:, 0]


def ours(kernel):
    """Return a function that computes the log-probs by one of our kernels."""
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
    """Return the log-probs by TRL's chunked head."""
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
    # A small call first: the seconds leave out libraries that are loaded or built at first use. The
    # growth of memory includes them.
    torch.autograd.grad(log_probs(states[:2], weight, tokens[:2]).sum(), states)
    start = time.process_time()
    values = log_probs(states, weight, tokens)
    (values * upstream).sum().backward()
    seconds, growth = time.process_time() - start, peak_bytes() - before
    # Every 50th row of the head's gradient is enough for the comparison.
    result = [values.detach(), states.grad, weight.grad[::50].clone()]
    if variant == "plain":
        save_file(dict(zip("abc", result, strict=True)), reference)
    expected = load_file(reference)
    print(json.dumps([seconds, growth, *differences(result, [expected[name] for name in "abc"])]))


def differences(result, reference):
    """Return the largest difference of log-probs, and the largest one of gradients in norm."""
    log_probs, *gradients = zip(result, reference, strict=True)
    return float((log_probs[0] - log_probs[1]).abs().max()), largest(
        float((ours - theirs).norm() / theirs.norm()) for ours, theirs in gradients
    )


def measure(variants, count, rounds, words):
    """Run the variants by turns.

    Returns:
        By variant, for every round: seconds, growth in bytes, and the two :func:`differences`.
    """
    runs = {variant: [] for variant in variants}
    with tempfile.TemporaryDirectory() as directory:
        reference = str(Path(directory) / "plain.safetensors")
        for _ in range(rounds):
            for variant in variants:
                command = [sys.executable, __file__, str(count), "1", str(words)]
                command += ["--child", variant, reference]
                answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                runs[variant].append(json.loads(answer.stdout.splitlines()[-1]))
    return runs


def gates(variant, runs, prefix=""):
    """Return the gates of the largest differences between a variant's runs and plain's."""
    limits = zip(("log-probs", "gradients"), (2, 3), GATES[variant], strict=True)
    return [
        gate(prefix + what, largest(run[at] for run in runs), most) for what, at, most in limits
    ]


def timing_of(runs, others):
    """Return the median seconds of both sides, and the larger spread of the two."""
    sides = [[run[0] for run in side] for side in (runs, others)]
    spread = max(max(seconds) / min(seconds) for seconds in sides)
    return *map(statistics.median, sides), spread


def rows_of(kernel, runs_of):
    """Return the rows of our time and memory beside plain's."""
    runs, others = runs_of[kernel], runs_of["plain"]
    seconds, peer_seconds, spread = timing_of(runs, others)
    parity = gates(kernel, runs)
    pairs = [ours[0] / theirs[0] for ours, theirs in zip(runs, others, strict=True)]
    growth, peer_growth = (max(run[1] for run in side) for side in (runs, others))
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


def peer_row(runs_of):
    """Return the row of our head, with torch's product, beside the peer's."""
    runs, others = runs_of["torch"], runs_of["trl"]
    seconds, peer_seconds, spread = timing_of(runs, others)
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
    has_trl = importlib.util.find_spec("trl") is not None
    runs_of = measure(["plain", *KERNELS, *(["trl"] if has_trl else [])], count, rounds, words)
    rows = [entry for kernel in KERNELS for entry in rows_of(kernel, runs_of)]
    emit([*rows, peer_row(runs_of) if has_trl else absent("head, torch against TRL", PEER)])


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
