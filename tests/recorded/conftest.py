"""An asymmetric ragged batch, what a part records on it, and the names of the metrics of a module.

Nine tokens in rows of 3 (with a hole), 1, 2 and 3; advantages of both signs, more tokens clipped
above than counted twice, more below than above. So a bound turned round, a sum for a mean, or rows
for tokens changes the number.
"""

import ast
import math
from fnmatch import fnmatch
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from rlcomp.interfaces.loss import Loss
from rlcomp.metrics import recording

ROOT = Path(__file__).resolve().parents[2]
MASK = torch.tensor([[0, 1, 1, 0, 1], [0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 1, 1, 0]]).bool()
RATIOS = (1.5, 0.5, 4.0, 0.6, 3.5, 0.9, 0.7, 0.6, 1.1)
LOGS = tuple(math.log(r) for r in RATIOS)
ENTRIES = {
    "response_mask": (True,) * 9,
    "ratio": RATIOS,
    "advantage": (1, 1, 1, -2, -1, -1, -0.5, -0.5, -0.5),
    # pi / pi_old = pi_old / pi_rollout = pi / pi_ref = RATIOS, wherever it is read.
    "log_probs": tuple(log - 2 for log in LOGS),
    "old_log_probs": tuple(log - 2 for log in LOGS),
    "rollout_log_probs": (-2.0,) * 9,
    "ref_log_probs": (-2.0,) * 9,
    "entropy": (4, 1, 9, 3, 7, 2, 8, 5, 6),
    "value": (0.5,) * 9,
    "reward": [1, 1, 0, 0.5],
    "reward_valid": [True, True, True, True],
    "correct": [False, True, True, True],
    "truncated": [True, False, True, True],
    "group_id": [6, 2, 2, 2],
}


def tensor(key, values):
    """Nine values are those of the tokens, four those of the rows; NaN outside the response."""
    if isinstance(values, dict):
        rewards = {name: tensor(name, own) for name, own in values.items()}
        return TensorDict(rewards, batch_size=[4])
    kind = torch.int64 if key == "group_id" else torch.float64
    found = torch.tensor(values, dtype=torch.bool if isinstance(values[0], bool) else kind)
    if len(values) == 4:
        return found
    outside = False if found.dtype == torch.bool else float("nan")
    return torch.full(MASK.shape, outside, dtype=found.dtype).masked_scatter(MASK, found)


def batch_with(entries):
    made = {key: tensor(key, values) for key, values in (ENTRIES | entries).items()}
    return TensorDict(made, batch_size=[4])


@pytest.fixture(scope="session")
def ragged():
    """The batch, with entries of one's own: nine values for the tokens, four for the rows."""
    return batch_with


@pytest.fixture(scope="session")
def metrics_of():
    """The metrics a module records; ``*`` for what is put in at run time."""
    return names_in


def names_in(file):
    found = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
        called = node.func if isinstance(node, ast.Call) else None
        if not isinstance(called, ast.Name) or called.id not in ("record", "record_total"):
            continue
        name = node.args[0]
        parts = name.values if isinstance(name, ast.JoinedStr) else [name]
        found.add("".join(p.value if isinstance(p, ast.Constant) else "*" for p in parts))
    return found


@pytest.fixture(scope="session")
def recorded():
    """What a part records on the batch by the calls of one module, without the concept's name."""

    def record(file, part, entries):
        with recording() as ledger:
            rows = batch_with(entries)
            if isinstance(part, Loss):
                rows.update(part.prepare(rows))
            part(rows)
            getattr(part, "after_step", lambda: None)()
        patterns = names_in(file)
        return {
            name.split("/", 1)[1]: value
            for name, value in ledger.means().items()
            if any(fnmatch(name, pattern) for pattern in patterns)
        }

    return record
