"""Generation over several turns: ``python benchmarks/turns.py S [TURNS] [REPEATS]``.

A session keeps the cache of its rows between turns; the peer reads every row again in each turn.
One row compares the first turn with the policy's ``generate``.
"""

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
SAMPLED = 32  # tokens of a turn
# Least speed-up over six turns, by the number of observed tokens a turn.
GOALS = {32: 2.5, 128: 2.0}
# No token ends a turn: the work is the same in every draw.
NEVER = [-1]


def sessions(name):
    """Return three functions of a draw, and the size of the vocabulary.

    They open a session, open a session that reads all again, and generate the first turn. They have
    64 rows; the tiny workload has 4.
    """
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

    def session(draw):
        return kind(policy.causal_forward.transformer, prompts, sampling(draw), longest=4096)

    def recompute_session(draw):
        loop = partial(decode.decode, policy.causal_forward.transformer)
        return RecomputeSession(loop, prompts, sampling(draw))

    def generate(draw):
        generator = torch.Generator().manual_seed(draw)
        policy.generation.stops = NEVER
        return policy.generate(
            prompts[::group], group_size=group, max_new_tokens=SAMPLED, generator=generator
        )

    return session, recompute_session, generate, len(tokenizer)


def play(session, turns, observed, words):
    """Take turns in every row, with random observations between them; return the rows' tokens."""
    rows, draw = range(len(session.contexts)), random.Random(0)
    for turn in range(turns):
        session.generate(rows, limits=[SAMPLED] * len(rows))
        if turn + 1 < turns:
            for row in rows:
                session.extend(row, [draw.randrange(2, words) for _ in range(observed)])
    return session.contexts


def main(name, turns, repeats):
    """Measure one workload."""
    torch.set_num_threads(1)
    session, recompute_session, generate, words = sessions(name)
    num_rows, table_rows = len(session(0).contexts), []

    def first_turn(draw):
        play(session(draw), 1, 0, words)
        return num_rows * SAMPLED

    def generated(draw):
        generate(draw)
        return num_rows * SAMPLED

    timings = by_turns({"rlcomp": first_turn, "generate": generated}, 2, repeats)
    table_rows.append(against(f"turns {name}, the first", timings, "generate", goal=0.95))
    for observed, goal in GOALS.items():
        sides = {"rlcomp": session, PEER: recompute_session}

        def call(open_session, draw, observed=observed):
            play(open_session(draw), turns, observed, words)
            return num_rows * SAMPLED * turns

        ours, theirs = (play(side(0), turns, observed, words) for side in sides.values())
        timings = by_turns({name: partial(call, side) for name, side in sides.items()}, 2, repeats)
        parity = [gate("rows with other tokens", float(ours != theirs), 0.0)]
        label = f"turns {name}, {turns} with {observed} observed tokens"
        table_rows.append(against(label, timings, PEER, goal=goal, parity=parity))
    emit(table_rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=("S", "M", "tiny"))
    parser.add_argument("turns", type=int, nargs="?", default=6)
    parser.add_argument("repeats", type=int, nargs="?", default=2)
    arguments = parser.parse_args()
    main(arguments.workload, arguments.turns, arguments.repeats)
