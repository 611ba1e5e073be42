"""The gradient of losses of whole responses where the advantages of their tokens differ.

A policy of three independent binary tokens; the first 0 ends the response. The objective is
``-KL(pi || ref)``, charged token by token: ``A_t = -sum_{s >= t} log(pi_s / ref_s)``. Every
response is enumerated, so that the gradients are exact.
"""

from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from tensordict import TensorDict

CONF = Path(__file__).resolve().parents[4] / "conf"
LOGITS = torch.tensor([[0.3, -0.4], [1.1, 0.2], [-0.7, 0.5]], dtype=torch.float64)
REF = torch.tensor([[-0.2, 0.9], [0.4, 0.4], [0.8, -1.0]], dtype=torch.float64).log_softmax(1)
RESPONSES = [(0,), (1, 0), (1, 1, 0), (1, 1, 1)]


def log_prob(table, tokens):
    return torch.stack([table[place, token] for place, token in enumerate(tokens)])


def policy_gradient(scale):
    """Of the objective, with each response's part times ``scale(n)``, by autograd alone."""
    logits = LOGITS.clone().requires_grad_()
    policy, total = logits.log_softmax(1), 0.0
    for tokens in RESPONSES:
        own, ref = log_prob(policy, tokens), log_prob(REF, tokens)
        kl_to_go = (own - ref).detach().flip(0).cumsum(0).flip(0)
        probability = own.sum().exp().detach()
        total = total - probability * scale(len(tokens)) * (own * kl_to_go).sum()
    return torch.autograd.grad(total, logits)[0]


def expected_gradient(loss):
    """Minus the gradient of the loss of one response, in expectation over responses."""
    logits = LOGITS.clone().requires_grad_()
    policy, total = logits.log_softmax(1), 0.0
    for tokens in RESPONSES:
        own, ref = log_prob(policy, tokens), log_prob(REF, tokens)
        advantage = -(own - ref).detach().flip(0).cumsum(0).flip(0)
        rows = {
            "log_probs": own[None],
            "old_log_probs": own.detach()[None],
            "advantage": advantage[None],
            "response_mask": torch.ones(1, len(tokens), dtype=torch.bool),
        }
        probability = own.detach().sum().exp()
        total = total - probability * loss(TensorDict(rows, batch_size=[1]))["loss"]
    return torch.autograd.grad(total, logits)[0]


def test_the_reference_is_the_gradient_of_the_kl():
    logits = LOGITS.clone().requires_grad_()
    policy = logits.log_softmax(1)
    kl = sum(
        log_prob(policy, y).sum().exp() * (log_prob(policy, y) - log_prob(REF, y)).sum()
        for y in RESPONSES
    )

    torch.testing.assert_close(
        policy_gradient(lambda _: 1), torch.autograd.grad(-kl, logits)[0], atol=1e-12, rtol=0
    )


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("rloo", lambda _: 1),
        # GSPO's 1 / n of the ratio's exponent times the length.
        ("luspo", lambda _: 1),
        # The mean over a response's tokens, as in GRPO.
        ("gmpo", lambda n: 1 / n),
        ("gspo_token", lambda n: 1 / n),
    ],
)
def test_every_token_has_its_own_advantage_s_gradient(name, scale):
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        loss = instantiate(compose("config", overrides=[f"loss={name}"]).loss)

    torch.testing.assert_close(expected_gradient(loss), policy_gradient(scale), atol=1e-7, rtol=0)
