"""Updates on trees of episodes: ``python benchmarks/trees.py S [TURNS] [REPEATS]``.

Episodes of several turns share prompts, and half of each group branches off another episode after
an observation. The update (forward and backward of GRPO's loss) reads each distinct prefix once.
Its peer is the same update that reads only the prompts once.
"""

import argparse
import random
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import torch
from measure import against, by_turns, emit, row
from parity import check_gradients, check_log_probs, grpo_loss, update
from tensordict import TensorDict
from workloads import ROLLOUTS, build

from rlcomp.engine import packing
from rlcomp.text.tokenizer import encode_prompts

# Sampled tokens of a turn, and tokens of an observation.
SAMPLED = OBSERVED = 32
PEER = "prompts once"


def random_trees(name, turns):
    """Return a policy, trees of random tokens as a batch, and the length of every prompt."""
    workload = replace(ROLLOUTS[name], context=4096)
    tokenizer, policy, texts = build(workload)
    prompts = encode_prompts(tokenizer, texts)
    length = min(map(len, prompts))
    draw, rows = random.Random(0), []
    for prompt in prompts:
        group = []
        for number in range(workload.group_size):
            prefix = prompt[:length]
            if 2 * number >= workload.group_size:  # branch off an episode of the first half
                parent = group[draw.randrange(workload.group_size // 2)]
                prefix = parent[: length + draw.randrange(1, turns) * (SAMPLED + OBSERVED)]
            total = length + turns * (SAMPLED + OBSERVED) - OBSERVED
            new = [draw.randrange(2, len(tokenizer)) for _ in range(total - len(prefix))]
            group.append([*prefix, *new])
        rows += group
    tokens = torch.tensor(rows)
    position = torch.arange(tokens.shape[1]) - length  # 0 at the first sampled token
    mask = (position >= 0) & (position % (SAMPLED + OBSERVED) < SAMPLED)
    entries = {
        "tokens": tokens,
        "attention_mask": torch.ones_like(tokens).bool(),
        "response_mask": mask.expand(tokens.shape).clone(),
    }
    batch = TensorDict(entries, batch_size=[len(rows)])
    with torch.no_grad():
        batch["old_log_probs"] = policy.log_probs(batch)
    advantage = torch.linspace(-1.0, 1.0, len(rows))[:, None]
    batch["advantage"] = torch.where(mask, advantage, 0.0)
    return policy, batch, length


def prompts_once(length):
    """Return a context in which packing shares no more than the prompts."""
    shared = packing._common_prefix_lengths

    def capped(rows, ends):
        return np.minimum(shared(rows, ends), length)

    return patch.object(packing, "_common_prefix_lengths", capped)


def main(name, turns, repeats):
    """Measure one workload."""
    torch.set_num_threads(1)
    policy, batch, length = random_trees(name, turns)
    loss = grpo_loss()

    def ours(_):
        policy.zero_grad()
        update(policy, loss, batch)
        return 1

    def peer(_):
        with prompts_once(length):
            return ours(0)

    def packed_tokens():
        return len(packing.pack(batch)[0].ids)

    with torch.no_grad():
        parity = [check_log_probs(policy, batch, policy.log_probs(batch))]
    parity.append(check_gradients(policy, batch))
    with prompts_once(length):
        peer_tokens = packed_tokens()
    label = f"trees {name}, {turns} turns"
    tokens_row = row(
        f"{label}: tokens read",
        peer_tokens / packed_tokens(),
        goal=None,
        read=packed_tokens(),
        prompts_once=peer_tokens,
        held=int(batch["attention_mask"].sum()),
    )
    timings = by_turns({"rlcomp": ours, PEER: peer}, 1, repeats)
    emit([tokens_row, against(f"{label}: update", timings, PEER, goal=None, parity=parity)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=("S", "M", "tiny"))
    parser.add_argument("turns", type=int, nargs="?", default=6)
    parser.add_argument("repeats", type=int, nargs="?", default=3)
    arguments = parser.parse_args()
    main(arguments.workload, arguments.turns, arguments.repeats)
