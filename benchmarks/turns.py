"""Generation over turns against reading all again: ``python benchmarks/turns.py S [TURNS]``."""

import argparse
import random
from dataclasses import replace
from functools import partial

import torch
from measure import against, by_turns, emit, gate
from workloads import ROLLOUTS, build

from rlcomp.engine import decode_native, decode_packed
from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.session import RecomputeSession, SamplingParams
from rlcomp.engine.session_native import NativeSession
from rlcomp.engine.session_packed import PackedSession
from rlcomp.text.tokenizer import encode_prompts

PEER = "re-prefill"
SAMPLED = 32
# Observed tokens a turn, and how many times faster six turns are to be.
GOALS = {32: 2.5, 128: 2.0}
# No token ends a turn: the work is the same in every draw.
NEVER = [-1]


def sessions(name):
    """Return functions that open a session of each kind; 64 rows, 4 of the tiny workload."""
    workload = replace(ROLLOUTS[name], context=4096)
    tokenizer, policy, texts = build(workload)
    rows = 64 if name != "tiny" else 4
    group = rows // len(texts)
    prompts = [row for row in encode_prompts(tokenizer, texts) for _ in range(group)]
    tokens = TokenDraw(policy.decoding)
    # Both sides sample by the same loop.
    in_c = policy.engine.why_torch_loop(policy.causal_forward.transformer, policy.decoding) is None
    kind, decode = (NativeSession, decode_native) if in_c else (PackedSession, decode_packed)

    def sampling(draw):
        return SamplingParams(NEVER, (), tokens, torch.Generator().manual_seed(draw))

    def native(draw):
        return kind(policy.causal_forward.transformer, prompts, sampling(draw), longest=4096)

    def again(draw):
        loop = partial(decode.decode, policy.causal_forward.transformer)
        return RecomputeSession(loop, prompts, sampling(draw))

    def single(draw):
        generator = torch.Generator().manual_seed(draw)
        policy.generation.stops = NEVER
        return policy.generate(
            prompts[::group], group_size=group, max_new_tokens=SAMPLED, generator=generator
        )

    return native, again, single, len(tokenizer)


def played(opened, turns, observed, words):
    """Take turns in every row; what was sampled."""
    rows, draw = range(len(opened.contexts)), random.Random(0)
    for turn in range(turns):
        opened.generate(rows, limits=[SAMPLED] * len(rows))
        if turn + 1 < turns:
            for row in rows:
                opened.extend(row, [draw.randrange(2, words) for _ in range(observed)])
    return opened.contexts


def main(name, turns, repeats):
    """Measure one workload."""
    torch.set_num_threads(1)
    native, again, single, words = sessions(name)
    rows, emitted = len(native(0).contexts), []

    def first(draw):
        played(native(draw), 1, 0, words)
        return rows * SAMPLED

    def plain(draw):
        single(draw)
        return rows * SAMPLED

    timings = by_turns({"rlcomp": first, "generate": plain}, 2, repeats)
    emitted.append(against(f"turns {name}, the first", timings, "generate", goal=0.95))
    for observed, goal in GOALS.items():
        sides = {"rlcomp": native, PEER: again}

        def call(make, draw, observed=observed):
            played(make(draw), turns, observed, words)
            return rows * SAMPLED * turns

        same = played(native(0), turns, observed, words) == played(again(0), turns, observed, words)
        timings = by_turns({side: partial(call, make) for side, make in sides.items()}, 2, repeats)
        parity = [gate("rows with other tokens", float(not same), 0.0)]
        what = f"turns {name}, {turns} with {observed} observed tokens"
        emitted.append(against(what, timings, PEER, goal=goal, parity=parity))
    emit(emitted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=("S", "M", "tiny"))
    parser.add_argument("turns", type=int, nargs="?", default=6)
    parser.add_argument("repeats", type=int, nargs="?", default=2)
    arguments = parser.parse_args()
    main(arguments.workload, arguments.turns, arguments.repeats)
