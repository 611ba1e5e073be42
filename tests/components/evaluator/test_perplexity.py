import math

import pytest
import torch
from tensordict import TensorDict

from components.evaluator.likelihood import Perplexity
from components.worlds.addition.task import Addition
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.metrics import record, recording
from rlcomp.run.stages import Nothing
from rlcomp.testing import tiny_policy

SEEN = []


class Told(Component):
    """Row r costs (r + 1) (t + 1) / 10 nats at its t-th token; NaN where there is no response."""

    reads = ("response_mask", "rollout_log_probs")
    writes = ("ref_log_probs",)

    def forward(self, batch: TensorDict) -> TensorDict:
        mask = batch["response_mask"]
        nats = (torch.arange(len(mask))[:, None] + 1) * mask.cumsum(1) / 10
        SEEN[:] = [
            row[own].tolist() for row, own in zip(batch["rollout_log_probs"], mask, strict=True)
        ]
        batch["ref_log_probs"] = torch.where(mask, -nats, float("nan"))
        record("kl/reference", 1.0)
        return batch


def perplexity(reward, **changed):
    torch.manual_seed(4)
    arguments = {
        "policy": tiny_policy(scale=2.0),
        "task": Addition(digits=2, held_out=0.2),
        "reward": reward,
        "reference": Told(),
        "num_prompts": 3,
        "samples_per_prompt": 2,
        "max_new_tokens": 10,
    }
    return Perplexity(**(arguments | changed))


def mean(values):
    return sum(values) / len(values)


def test_perplexities_by_hand(dealt):
    with recording() as ledger:
        perplexity(dealt("+- ?- ++"))(TensorDict({}, batch_size=[]))

    means = ledger.means()
    lengths = [len(row) for row in SEEN]
    assert len(set(lengths)) > 1
    # The mean of 1 ... T is (T + 1) / 2.
    told = [(row + 1) * (length + 1) / 20 for row, length in enumerate(lengths)]
    own = [-mean(row) for row in SEEN]
    pairs = [(0, 1), (2, 3), (4, 5)]
    assert means["perplexity/reference"] == pytest.approx(
        math.exp(mean([mean([told[a], told[b]]) for a, b in pairs]))
    )
    assert means["perplexity/own"] == pytest.approx(
        math.exp(mean([mean([own[a], own[b]]) for a, b in pairs]))
    )
    # The second prompt has no right answer.
    assert means["perplexity/reference_right"] == pytest.approx(
        math.exp(mean([told[0], mean([told[4], told[5]])]))
    )
    # Three prompts: the ends are draws of the lowest or the highest alone (1 of 27 each).
    by_prompt = [math.exp(mean([told[a], told[b]])) for a, b in pairs]
    assert means["perplexity/reference_low"] == pytest.approx(min(by_prompt))
    assert means["perplexity/reference_high"] == pytest.approx(max(by_prompt))
    assert {name.split("/")[0] for name in means} == {"perplexity"}


def test_without_a_right_answer_there_is_none_of_right_ones(dealt):
    with recording() as ledger:
        perplexity(dealt("-- ?- --"))(TensorDict({}, batch_size=[]))

    assert "perplexity/reference" in ledger.means()
    assert "perplexity/reference_right" not in ledger.means()


def test_the_policy_as_its_own_reference_is_as_sure_as_it_was(dealt):
    policy = tiny_policy(scale=2.0)

    class Itself(Component):
        reads = ("tokens", "attention_mask", "response_mask")
        writes = ("ref_log_probs",)

        def forward(self, batch: TensorDict) -> TensorDict:
            batch["ref_log_probs"] = policy.log_probs(batch)
            return batch

    with recording() as ledger:
        part = perplexity(dealt("++ ++ ++"), policy=policy, reference=Itself())
        part(TensorDict({}, batch_size=[]))

    means = ledger.means()
    assert means["perplexity/reference"] == pytest.approx(means["perplexity/own"], abs=1e-4)


def test_without_a_reference_it_is_refused(dealt):
    with pytest.raises(
        ConfigError, match=r"perplexity.reference is a Nothing, .* reference=frozen"
    ):
        perplexity(dealt(), reference=Nothing())
