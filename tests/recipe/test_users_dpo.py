"""DPO as a user's recipe, in a user's own package: no file of the project knows of it."""

import importlib
import json
import math
import sys

import pytest
import torch

from rlcomp.testing import check_loss, make_batch

TASK = '''
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    prompt: str
    chosen: str
    rejected: str


class Ascending:
    """Two digits: ascending is preferred to descending, which is longer."""

    def __init__(self, *, digits: int) -> None:
        self.pairs = [(a, b) for a in range(digits) for b in range(a + 1, digits)]

    def pair(self, index: int) -> Pair:
        low, high = self.pairs[index % len(self.pairs)]
        return Pair(f"{low}{high}>", f"{low}{high}", f"{high}{low}{low}")
'''

SAMPLER = '''
import torch
from transformers import PreTrainedTokenizerBase

from dpo_of_a_user.task import Ascending
from rlcomp import Component
from rlcomp.arguments import PositiveInt
from rlcomp.text.rows import encode_rows


class Pairs(Component):
    """Row 2k is the chosen side of pair k, row 2k + 1 the rejected one."""

    writes = ("tokens", "attention_mask", "response_mask", "chosen")
    fresh = True

    def __init__(
        self, *, task: Ascending, tokenizer: PreTrainedTokenizerBase, batch_size: PositiveInt
    ) -> None:
        super().__init__()
        self.task = task
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.register_buffer("next", torch.zeros((), dtype=torch.int64))

    def forward(self, batch):
        first = int(self.next)
        self.next += self.batch_size
        pairs = [self.task.pair(first + n) for n in range(self.batch_size)]
        prompts = [pair.prompt for pair in pairs for _ in range(2)]
        answers = [text for pair in pairs for text in (pair.chosen, pair.rejected)]
        rows = encode_rows(self.tokenizer, prompts, answers)
        return rows.set("chosen", torch.tensor([True, False] * self.batch_size))
'''

LOSS = '''
import torch
import torch.nn.functional as F

from rlcomp import RowLoss, record
from rlcomp.arguments import PositiveFloat
from rlcomp.functional.ratio import log_ratio
from rlcomp.interfaces.loss import scalars


class DPO(RowLoss):
    """``loss = -sum_u w_u log sigmoid(beta ((c - r) - (c_ref - r_ref)))``."""

    reads = ("log_probs", "ref_log_probs", "response_mask", "chosen")
    unit_rows = 2

    def __init__(self, *, beta: PositiveFloat) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, batch):
        batch = self.weighted(batch)
        gain = log_ratio(batch["log_probs"], batch["ref_log_probs"], batch["response_mask"]).sum(1)
        margin = self.beta * torch.where(batch["chosen"], gain, -gain).view(-1, 2).sum(1)
        weight = batch["row_weight"].view(-1, 2)[:, 0]
        record("dpo/margin", margin, where=weight > 0)
        return scalars(loss=-(F.logsigmoid(margin) * weight).sum())
'''

OPTIONS = {
    "task/ascending": "_target_: dpo_of_a_user.task.Ascending\ndigits: 6\n",
    "sampler/own_pairs": (
        "_target_: dpo_of_a_user.sampler.Pairs\n"
        "task: ${task}\ntokenizer: ${tokenizer}\nbatch_size: 8\n"
    ),
    "loss/own_dpo": "_target_: dpo_of_a_user.loss.DPO\nbeta: 0.1\n",
    "recipe/own_dpo": """# @package _global_
defaults:
  - /task: ascending
  - /tokenizer: character
  - /model: tiny
  - /adapter: none
  - /decoding: full
  - /engine: auto
  - /sampler@pairs: own_pairs
  - /reference: frozen
  - /loss: own_dpo
  - /learner: policy
  - _self_
context_length: 16
policy:
  _target_: rlcomp.model.language_model.LanguageModel
  model: ${adapter}
  tokenizer: ${tokenizer}
  decoding: ${decoding}
  engine: ${engine}
phases:
  preference:
    steps: 60
    stages: [pairs, reference, learner]
""",
}
SMALL = ["model.hidden_size=16", "model.num_hidden_layers=1", "model.intermediate_size=24"]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The user's package and config directory, in the working directory."""
    home = tmp_path / "dpo_of_a_user"
    home.mkdir()
    for name, text in {"task": TASK, "sampler": SAMPLER, "loss": LOSS, "__init__": ""}.items():
        (home / f"{name}.py").write_text(text)
    for option, text in OPTIONS.items():
        file = tmp_path / "own" / f"{option}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("dpo_of_a_user")]:
        del sys.modules[name]


def metrics(directory):
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "own", "least"),
    # A half of what was measured: 2.9 and 0.55, in units of beta times nats.
    [
        ("frozen", [*SMALL, "learner.optimizer.lr=1e-2"], 1.4),
        ("adapter_off", ["adapter=lora", "learner.optimizer.lr=1e-2"], 0.27),
    ],
)
def test_it_runs_by_the_command_line_and_the_margin_grows(rlcomp, package, reference, own, least):
    asked = ["recipe=own_dpo", f"reference={reference}", *own, "learner.micro_batch_tokens=40"]

    assert rlcomp("-cd", "own", *asked, f"directory={package / 'run'}") == 0

    rows = metrics(package / "run")
    # At first policy and reference agree: margin 0, loss log 2.
    assert rows[0]["dpo/margin"] == pytest.approx(0.0, abs=1e-4)
    assert rows[0]["loss/policy"] == pytest.approx(math.log(2), abs=1e-4)
    assert rows[-1]["dpo/margin"] > least
    assert "kl/reference" not in rows[-1]  # of rollouts, which there are none of


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["refreshed", "frozen_full"])
def test_any_reference_will_do(rlcomp, package, reference):
    asked = ["recipe=own_dpo", f"reference={reference}", *SMALL, "phases.preference.steps=2"]

    assert rlcomp("-cd", "own", *asked, f"directory={package / 'run'}") == 0


def test_micro_batches_change_neither_loss_nor_metric(rlcomp, package):
    for name, tokens in (("whole", "null"), ("parts", "15")):
        steps = ["phases.preference.steps=3", f"learner.micro_batch_tokens={tokens}"]
        asked = ["recipe=own_dpo", *SMALL, *steps, f"directory={package / name}"]
        assert rlcomp("-cd", "own", *asked) == 0

    for one, other in zip(metrics(package / "whole"), metrics(package / "parts"), strict=True):
        for key in ("loss/policy", "dpo/margin", "learner/grad_norm"):
            assert one[key] == pytest.approx(other[key], rel=1e-4, abs=1e-6)


def test_the_loss_is_that_of_the_paper_on_pairs_of_unequal_lengths(package):
    loss = importlib.import_module("dpo_of_a_user.loss").DPO(beta=0.5)
    # Sums over the response, the chosen side of the second pair last:
    # c = -3, r = -1, c_ref = -4, r_ref = -3; c = -2, r = -6, c_ref = -2, r_ref = -1.
    log_probs = torch.tensor([[9.0, -1, -2], [9.0, -1, 9], [9.0, -6, 9], [9.0, -1, -1]])
    reference = torch.tensor([[9.0, -2, -2], [9.0, -3, 9], [9.0, -1, 9], [9.0, -2, 0]])
    mask = torch.tensor([[0, 1, 1], [0, 1, 0], [0, 1, 0], [0, 1, 1]]).bool()
    rows = make_batch(
        log_probs=log_probs.requires_grad_(),
        ref_log_probs=reference,
        response_mask=mask,
        chosen=[True, False, False, True],
    )

    value = loss(rows)["loss"]
    value.backward()

    first = 0.5 * ((-3 - -1) - (-4 - -3))  # -0.5
    second = 0.5 * ((-2 - -6) - (-2 - -1))  # 2.5
    each = [math.log1p(math.exp(-margin)) for margin in (first, second)]
    assert value.item() == pytest.approx(sum(each) / 2, rel=1e-6)
    # d loss / d c = -beta sigmoid(-margin) / 2, and the opposite for r.
    slopes = [0.25 / (1 + math.exp(margin)) for margin in (first, second)]
    signs = torch.tensor([-slopes[0], slopes[0], slopes[1], -slopes[1]])
    torch.testing.assert_close(log_probs.grad, mask * signs[:, None])


def test_it_keeps_the_contract_of_losses(package):
    check_loss(importlib.import_module("dpo_of_a_user.loss").DPO(beta=0.1))
