"""What the entropy filter takes of each kind of position, by base: ``positions.py RUNS``."""

import argparse
from pathlib import Path

import torch

from components.worlds.running_sum.task import RunningSum
from rlcomp.model.next_token import next_token_entropies
from rlcomp.model.load_model import load_policy
from rlcomp.text.tokenizer import encode_all

THRESHOLD = 1.3
KINDS = ("sign", "operand", "result")


def kind(text, place):
    """What stands at a byte of a document."""
    if place == len(text) - 1:
        return "result"
    return "sign" if place % 2 else "operand"


def entropies(base, count):
    """By kind: the base's entropy at each position from the third operand on, in nats."""
    policy, config = load_policy(base)
    settings = {name: value for name, value in config.corpus.items() if name != "_target_"}
    corpus = RunningSum(**settings)
    texts = [corpus.example(index).answer for index in range(min(count, len(corpus)))]
    read = next_token_entropies(
        policy.model,
        encode_all(policy.tokenizer, texts),
        top_k=16,
        renormalise=True,
        device=torch.device("cpu"),
    )
    found = {name: [] for name in KINDS}
    for text, row in zip(texts, read, strict=True):
        for place in range(3, len(text)):
            found[kind(text, place)].append(row[place])
    return {name: torch.stack(values) for name, values in found.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    given = parser.parse_args()
    print("| seed | position | nats | taken | share of all taken |\n|---|---|---|---|---|")
    for base in sorted(path for path in (given.runs / "base").iterdir() if path.is_dir()):
        found = entropies(base, count=1000)
        taken = {name: int((values > THRESHOLD).sum()) for name, values in found.items()}
        for name, values in found.items():
            share = taken[name] / max(sum(taken.values()), 1)
            part = taken[name] / len(values)
            print(f"| {base.name} | {name} | {values.mean():.2f} | {part:.3f} | {share:.3f} |")
