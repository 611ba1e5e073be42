from functools import partial
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from tensordict import TensorDict

from components.learner.gradient import Learner
from components.loss.policy import PolicyLoss
from components.loss.ratio import NoRatio, SequenceRatio, SequenceTokenRatio, WholeSequenceRatio
from components.loss.reduction import SequenceMean, SequenceSum
from components.loss.trust_region.clip import Clip, NoTrustRegion
from rlcomp.component import Component
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch

CONF = Path(__file__).resolve().parents[4] / "conf"
NAN = float("nan")


def batch(advantage=1.0, old=True) -> TensorDict:
    entries = {
        "response_mask": torch.tensor([[True, True, True, False], [False] * 4]),
        "log_probs": torch.tensor([[-1.0, -2.0, -0.5, NAN], [NAN] * 4], requires_grad=True),
        "advantage": torch.full((2, 4), advantage),
    }
    if old:
        entries["old_log_probs"] = torch.tensor([[-1.2, -1.5, -0.5, NAN], [NAN] * 4])
    return TensorDict(entries, batch_size=[2])


@pytest.mark.parametrize(
    ("part", "value"),
    [
        # The log-ratios are 0.2, -0.5, 0: mean -0.1, sum -0.3.
        (SequenceRatio(), 0.9048374),
        (SequenceTokenRatio(), 0.9048374),
        (WholeSequenceRatio(), 0.7408182),
        (NoRatio(), 1.0),
    ],
)
def test_the_ratio_of_a_row_is_at_its_tokens_and_1_elsewhere(part, value):
    ratio = part(batch())["ratio"]

    want = torch.ones(2, 4)
    want[0, :3] = value
    torch.testing.assert_close(ratio.detach(), want)


@pytest.mark.parametrize("part", [SequenceRatio(), SequenceTokenRatio(), WholeSequenceRatio()])
def test_the_distance_to_the_old_policy_is_recorded_per_token(part):
    with recording() as ledger:
        part(batch())

    # k3 per token: 0.0214028, 0.1065307, 0.
    assert ledger.means()["ratio/approx_kl"] == pytest.approx(0.1279335 / 3, abs=1e-6)
    assert set(ledger.means()) == {"ratio/mean", "ratio/approx_kl"}


@pytest.mark.parametrize(
    ("advantage", "value", "gradient"),
    [
        # s = 0.9048374, inside [0.95, 1.05] for A = 1 (pessimistic): -s, and -s / 3 per token.
        (1.0, -0.9048374, -0.3016125),
        # A = -1: below 0.95, so that the whole response is cut.
        (-1.0, 0.95, 0.0),
    ],
)
@pytest.mark.parametrize("ratio", [SequenceRatio(), SequenceTokenRatio()])
def test_gspo_on_one_sequence_by_hand(ratio, advantage, value, gradient):
    rows = batch(advantage)

    clip = Clip(clip_low=0.05, clip_high=0.05)
    loss = PolicyLoss(ratio=ratio, trust_region=clip, reduction=SequenceMean())(rows)["loss"]
    loss.backward()

    assert loss.item() == pytest.approx(value, abs=1e-6)
    want = torch.zeros(2, 4)
    want[0, :3] = gradient
    torch.testing.assert_close(rows["log_probs"].grad, want, atol=1e-6, rtol=0)


def test_rloo_s_tokens_all_have_the_ratio_of_the_response_as_gradient():
    rows = batch()

    parts = {"ratio": WholeSequenceRatio(), "trust_region": NoTrustRegion()}
    PolicyLoss(**parts, reduction=SequenceMean())(rows)["loss"].backward()

    assert rows["log_probs"].grad[0].tolist() == pytest.approx([*[-0.7408182] * 3, 0])


class Scores(Component):
    """A policy whose log-probs are its parameters."""

    reads = ("attention_mask",)
    writes = ("log_probs",)

    def __init__(self, log_probs):
        super().__init__()
        self.log_probs = torch.nn.Parameter(log_probs)

    def forward(self, batch):
        batch["log_probs"] = self.log_probs
        return batch


@pytest.mark.parametrize(
    ("advantage", "objective"),
    [
        ((1.0, -1.0), 0.0),  # once a token it would be (8 - 1) / 2
        ((2.0, -0.5), 0.75),
    ],
)
def test_the_learner_records_rloos_objective_once_per_response(advantage, objective):
    # On-policy, of 8 tokens and 1: both ratios are 1, the objective is the mean advantage.
    mask = torch.arange(8)[None] < torch.tensor([[8], [1]])
    old = torch.full((2, 8), -0.5)
    rows = make_batch(
        attention_mask=mask,
        response_mask=mask,
        old_log_probs=old,
        advantage=torch.tensor(advantage)[:, None].expand(2, 8),
    )
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        loss = instantiate(compose("config", overrides=["recipe=rloo"]).loss)
    model = Scores(old.clone())
    sgd = partial(torch.optim.SGD, lr=1.0)

    with recording() as ledger:
        Learner(model=model, losses={"policy": loss}, optimizer=sgd, max_grad_norm=None)(rows)

    assert ledger.means()["loss/policy"] == pytest.approx(-objective, abs=1e-6)
    # Each token's log-prob moves by A_i / 2, whatever the length.
    want = torch.tensor(advantage)[:, None] / 2 * mask
    torch.testing.assert_close(model.log_probs.detach() - old, want, atol=1e-6, rtol=0)


def test_without_a_ratio_the_gradient_is_reinforce_s_and_no_old_policy_is_read():
    rows = batch(advantage=2.0, old=False)

    parts = {"ratio": NoRatio(), "trust_region": NoTrustRegion()}
    PolicyLoss(**parts, reduction=SequenceSum())(rows)["loss"].backward()

    # -A at every token of the only response.
    assert rows["log_probs"].grad.tolist() == [[-2, -2, -2, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    "part", [SequenceRatio(), SequenceTokenRatio(), WholeSequenceRatio(), NoRatio()]
)
def test_the_contract_is_kept(part):
    check_component(part)
    check_component(PolicyLoss(ratio=part, trust_region=Clip(), reduction=SequenceMean()), None)
