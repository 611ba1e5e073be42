"""Perplexity and held-out pairs."""

import math

import pytest
import torch
from tensordict import TensorDict

from components.evaluator.likelihood import HeldOutPairs, Perplexity
from components.worlds.addition.task import Addition
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import record, recording
from rlcomp.run.stages import Nothing
from rlcomp.testing import tiny_policy
from rlcomp.text.tokenizer import byte_tokenizer

SEEN = []


class Told(Component):
    """Row r costs (r + 1) (t + 1) / 10 nats at its t-th token; NaN outside the response."""

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


def test_perplexities_by_hand(scripted):
    with recording() as ledger:
        perplexity(scripted("+- ?- ++"))(TensorDict({}, batch_size=[]))

    means = ledger.means()
    lengths = [len(row) for row in SEEN]
    assert len(set(lengths)) > 1
    # The mean of 1 ... T is (T + 1) / 2.
    result = [(row + 1) * (length + 1) / 20 for row, length in enumerate(lengths)]
    own = [-mean(row) for row in SEEN]
    pairs = [(0, 1), (2, 3), (4, 5)]
    assert means["perplexity/reference"] == pytest.approx(
        math.exp(mean([mean([result[a], result[b]]) for a, b in pairs]))
    )
    assert means["perplexity/own"] == pytest.approx(
        math.exp(mean([mean([own[a], own[b]]) for a, b in pairs]))
    )
    # The second prompt has no right answer.
    assert means["perplexity/reference_right"] == pytest.approx(
        math.exp(mean([result[0], mean([result[4], result[5]])]))
    )
    # Three prompts: the ends are draws of the lowest or the highest alone (1 of 27 each).
    by_prompt = [math.exp(mean([result[a], result[b]])) for a, b in pairs]
    assert means["perplexity/reference_low"] == pytest.approx(min(by_prompt))
    assert means["perplexity/reference_high"] == pytest.approx(max(by_prompt))
    assert {name.split("/")[0] for name in means} == {"perplexity"}


def test_without_a_right_answer_there_is_none_of_right_ones(scripted):
    with recording() as ledger:
        perplexity(scripted("-- ?- --"))(TensorDict({}, batch_size=[]))

    assert "perplexity/reference" in ledger.means()
    assert "perplexity/reference_right" not in ledger.means()


def test_the_policy_as_its_own_reference_is_as_sure_as_it_was(scripted):
    policy = tiny_policy(scale=2.0)

    class Itself(Component):
        reads = ("tokens", "attention_mask", "response_mask")
        writes = ("ref_log_probs",)

        def forward(self, batch: TensorDict) -> TensorDict:
            batch["ref_log_probs"] = policy.log_probs(batch)
            return batch

    with recording() as ledger:
        part = perplexity(scripted("++ ++ ++"), policy=policy, reference=Itself())
        part(TensorDict({}, batch_size=[]))

    means = ledger.means()
    assert means["perplexity/reference"] == pytest.approx(means["perplexity/own"], abs=1e-4)


def test_without_a_reference_it_is_refused(scripted):
    with pytest.raises(
        ConfigError, match=r"perplexity.reference is a Nothing, .* reference=frozen"
    ):
        perplexity(scripted(), reference=Nothing())


class Two:
    """Two held-out pairs."""

    held_out = 1.0

    def __len__(self):
        return 2

    def example(self, index):
        given = [("1?", "aa", "b"), ("2?", "b", "aaa")][index]
        return Example(given[0], given[1], given[1], columns={"rejected": given[2]})


class Letters(Component):
    """``log p`` of each token: that of ``a`` is -1, of ``b`` -4, of EOS -0.5."""

    reads = ("tokens", "response_mask")
    writes = ("ref_log_probs",)

    def __init__(self, *, a: float = -1.0) -> None:
        super().__init__()
        self.tokenizer = byte_tokenizer()
        self.device = torch.device("cpu")
        self.a = a

    def log_probs(self, rows):
        known = dict(zip(self.tokenizer.encode("ab"), (self.a, -4.0), strict=True))
        known[self.tokenizer.eos_token_id] = -0.5
        values = [
            [known.get(token, float("nan")) for token in row] for row in rows["tokens"].tolist()
        ]
        return torch.tensor(values)

    def forward(self, batch):
        batch["ref_log_probs"] = self.log_probs(batch)
        return batch


def measured(reference):
    stage = HeldOutPairs(policy=Letters(), task=Two(), reference=reference, name="pairs")
    with recording() as ledger:
        stage(None)
    return ledger.means()


# Chosen -2.5 and -4.5, rejected -4.5 and -3.5.
LIKELY = {"pairs/chosen_log_prob": -3.5, "pairs/rejected_log_prob": -4.0}


def test_without_a_reference_the_margin_is_that_of_the_log_probs():
    # Margins 2 and -1.
    assert measured(Nothing()) == pytest.approx(
        {**LIKELY, "pairs/margin": 0.5, "pairs/accuracy": 0.5}
    )


def test_with_a_reference_the_margin_is_that_of_the_changes():
    # The reference has -2 for a: changes +2 and 0 of the chosen, 0 and +3 of the rejected answers.
    assert measured(Letters(a=-2.0)) == pytest.approx(
        {
            **LIKELY,
            "pairs/chosen_change": 1.0,
            "pairs/rejected_change": 1.5,
            "pairs/margin": -0.5,
            "pairs/accuracy": 0.5,
        }
    )


def test_the_reference_scores_in_eval_mode():
    seen = []

    class Noted(Letters):
        def forward(self, batch):
            seen.append(self.training)
            return super().forward(batch)

    reference = Noted(a=-1.0)
    measured(reference)

    assert seen == [False]
    assert reference.training


def test_a_policy_that_is_its_reference_prefers_neither():
    assert measured(Letters())["pairs/accuracy"] == 0.5
