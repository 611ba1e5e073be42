"""Compiled, the mathematics gives the same numbers; a TensorDict that was stored does too."""

import pytest
import torch
from tensordict import TensorDict

from components.loss.policy import PolicyLoss
from components.loss.ratio import SequenceRatio
from components.loss.reduction import SequenceMean
from components.loss.trust_region.clip import Clip
from rlcomp.functional.divergence import kl_estimate
from rlcomp.functional.moments import whiten
from rlcomp.functional.ratio import log_ratio
from rlcomp.functional.returns import gae
from rlcomp.functional.surrogate import clipped_surrogate
from rlcomp.testing import example_batch

KEYS = ("log_probs", "old_log_probs", "advantage", "response_mask", "value", "ratio")
BATCH = example_batch(KEYS, dtype=torch.float64)
FUNCTIONS = {
    "log_ratio": lambda b: log_ratio(b["log_probs"], b["old_log_probs"], b["response_mask"]),
    "kl": lambda b: kl_estimate(b["log_probs"], b["old_log_probs"], b["response_mask"], "k3"),
    "surrogate": lambda b: clipped_surrogate(b["ratio"], b["advantage"], 0.2, 0.28),
    "gae": lambda b: gae(b["advantage"], b["value"], b["response_mask"], 0.9, 0.8),
    "whiten": lambda b: whiten(b["advantage"], b["response_mask"]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_function_gives_the_same_numbers(name):
    function = FUNCTIONS[name]

    result = torch.compile(function, backend="eager")(BATCH)

    torch.testing.assert_close(result, function(BATCH), rtol=0, atol=1e-12)


def test_a_compiled_loss_on_a_stored_batch_gives_the_same_number(tmp_path):
    loss = PolicyLoss(ratio=SequenceRatio(), trust_region=Clip(), reduction=SequenceMean())
    rows = BATCH.select("log_probs", "old_log_probs", "advantage", "response_mask")

    rows.memmap(tmp_path)
    back = TensorDict.load_memmap(tmp_path)

    assert float(loss(back)["loss"]) == float(loss(rows)["loss"])
