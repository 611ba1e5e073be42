"""Steps of a phase, as an early stop sees them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlcomp.metrics import record, recording


@pytest.fixture
def play_steps() -> Callable[..., list[dict[str, Any]]]:
    """``play_steps(part, {"a/b": [1.0, None]})``: what each step leaves in its ledger."""

    def steps(part, recorded, batches=None):
        found = []
        for number in range(max(map(len, recorded.values()))):
            batch = TensorDict({}, batch_size=[]) if batches is None else batches[number].copy()
            with recording() as ledger:
                for name, values in recorded.items():
                    if number < len(values) and values[number] is not None:
                        record(name, values[number])
                part(batch)
            own = {k: v for k, v in ledger.means().items() if k.startswith("early_stop/")}
            found.append({**own, "best": ledger.best, "ended": ledger.ended})
        return found

    return steps


@pytest.fixture
def ragged() -> Callable[..., TensorDict]:
    """Two responses of 1 and 3 tokens; ``ragged(0.5)``: 0.5 nats more than the reference each."""

    def batch(nats):
        mask = torch.tensor([[0, 1, 0, 0], [0, 1, 1, 1]]).bool()
        old = torch.full((2, 4), -1.0)
        # Outside the mask stands what must not count.
        reference = torch.where(mask, old - nats, torch.tensor(9.0))
        return TensorDict(
            {"response_mask": mask, "old_log_probs": old, "ref_log_probs": reference},
            batch_size=[2],
        )

    return batch
