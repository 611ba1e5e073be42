"""The data of the ladder: ``data.py FOLDER 0``, a folder for each seed.

Texts for the base, labelled prompts, test prompts with and without examples in front.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from rlcomp.interfaces.task import is_held_out

# What the base has read: how often answers are copies, sorted downwards and sorted upwards. The
# task is the last.
RULES = {
    "copy": (0.3, str),
    "down": (0.5, lambda given: "".join(sorted(given, reverse=True))),
    "up": (0.2, lambda given: "".join(sorted(given))),
}
LENGTH = 5
EXAMPLES = 2
# Of all digits; the base has read none of them, and no label is of them.
TEST = 0.1


def digits(draw, test=False):
    """A number with leading zeros, of the test or not."""
    while True:
        drawn = f"{draw.randrange(10**LENGTH):0{LENGTH}d}"
        if is_held_out(drawn, TEST) == test:
            return drawn


def prompt(draw, rule, examples):
    """``EXAMPLES,DIGITS>`` and the answer, by one rule."""
    *before, asked = (digits(draw) for _ in range(examples + 1))
    return "".join(f"{each}>{rule(each)}," for each in before) + f"{asked}>", rule(asked)


def texts(draw, count):
    """What the base learns from: up to three examples, and a question by the same rule."""
    weights = [weight for weight, _ in RULES.values()]
    rules = draw.choices([rule for _, rule in RULES.values()], weights, k=count)
    return [prompt(draw, rule, draw.randint(0, EXAMPLES)) for rule in rules]


def write(path, rows):
    """One JSON object a line."""
    lines = [json.dumps({"question": asked, "answer": answer}) for asked, answer in rows]
    path.write_text("".join(f"{line}\n" for line in lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("--labels", type=int, default=256)
    parser.add_argument("--texts", type=int, default=60_000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    draw, (_, up) = random.Random(given.seed), RULES["up"]
    labelled = [prompt(draw, up, 0) for _ in range(given.labels)]
    test = [(f"{asked}>", up(asked)) for asked in (digits(draw, test=True) for _ in range(512))]
    shown = "".join(f"{question}{answer}," for question, answer in labelled[:EXAMPLES])
    write(given.folder / "base.jsonl", texts(draw, given.texts))
    write(given.folder / "labelled.jsonl", labelled)
    write(given.folder / "test.jsonl", test)
    write(given.folder / "test_with_examples.jsonl", [(shown + q, a) for q, a in test])


if __name__ == "__main__":
    main()
