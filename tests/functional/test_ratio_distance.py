from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rlcomp.functional.kl_coefficient import doubling_kl_coef
from rlcomp.functional.ratio_distance import log_distance, old_policy_kl
from rlcomp.functional.surrogate import clipped_surrogate

GOLDEN = Path(__file__).parents[1] / "golden" / "policy"
scores = st.lists(st.floats(-3, 3), min_size=4, max_size=4)


def test_by_hand():
    # 2 - 1 - log 2, 0, 0.5 - 1 + log 2
    kl = old_policy_kl(torch.tensor([[2.0, 1.0, 0.5]]))

    torch.testing.assert_close(kl, torch.tensor([[0.3068528, 0.0, 0.1931472]]))


def test_the_smallest_ratio_of_a_clamped_log_is_finite():
    ratio = torch.tensor([-20.0]).exp()

    # 0 - 1 + 20
    assert old_policy_kl(ratio).item() == pytest.approx(19.0)


@given(scores, scores)
def test_summed_over_actions_value_and_gradient_are_those_of_the_kl(old, new):
    old_log = torch.tensor(old, dtype=torch.float64).log_softmax(0)
    logits = torch.tensor(new, dtype=torch.float64, requires_grad=True)
    log = logits.log_softmax(0)

    sampled = (old_log.exp() * old_policy_kl((log - old_log).exp())).sum()
    exact = (old_log.exp() * (old_log - log)).sum()
    (of_sampled,) = torch.autograd.grad(sampled, logits, retain_graph=True)
    (of_exact,) = torch.autograd.grad(exact, logits)

    torch.testing.assert_close(sampled, exact)
    torch.testing.assert_close(of_sampled, of_exact)


def test_at_ratio_1_there_is_no_gradient():
    ratio = torch.ones(1, requires_grad=True)

    (old_policy_kl(ratio) + log_distance(ratio)).sum().backward()

    assert ratio.grad.item() == 0


def test_the_distance_grows_by_1_per_nat_on_either_side():
    log_probs = torch.tensor([0.5, -0.5], requires_grad=True)

    distance = log_distance(log_probs.exp())
    distance.sum().backward()

    assert distance.tolist() == pytest.approx([0.5, 0.5])
    assert log_probs.grad.tolist() == pytest.approx([1, -1])


def test_the_rounding_of_a_log_prob_is_no_distance():
    # The neighbours of 1 in float32: log-probs of the same tokens, read in another batch.
    ratio = torch.tensor([1 - 2**-24, 1 + 2**-23, 1 + 1e-4], requires_grad=True)

    distance = log_distance(ratio)
    distance.sum().backward()

    assert distance.tolist() == pytest.approx([0, 0, 1e-4], abs=1e-6)
    assert ratio.grad.tolist() == pytest.approx([0, 0, 1], abs=1e-3)


class Control:
    """A case of torchrl's losses for control: four actions, linear actor."""

    def __init__(self, loss, number):
        tensors = load_file(GOLDEN / f"torchrl__{loss}.safetensors")
        self.held = {k.split("/", 1)[1]: t for k, t in tensors.items() if k[0] == str(number)}
        self.weight = self.held["in/W_actor"].requires_grad_()
        self.all = (self.held["in/observation"] @ self.weight.T).log_softmax(-1)
        self.log_prob = self.all.gather(1, self.held["in/action"][:, None])
        self.ratio = (self.log_prob - self.held["in/sample_log_prob"][:, None]).exp()
        self.advantage = self.held["in/advantage"]

    def assert_reproduced(self, objective, entropy_coef, gradient_of=None):
        entropy = -(self.all.exp() * self.all).sum(-1).mean()
        loss = (objective if gradient_of is None else gradient_of) - entropy_coef * entropy
        loss.backward()
        torch.testing.assert_close(objective.detach(), self.held["out/loss_objective"])
        torch.testing.assert_close(self.weight.grad, self.held["grad/W_actor"])


@pytest.mark.parametrize("number", range(9))
def test_torchrl_s_clipped_loss(number):
    case = Control("clip_ppo_loss", number)
    advantage, high = case.advantage, 0.2
    if number % 3 == 1:
        advantage, high = (advantage - advantage.mean()) / advantage.std(), 0.28

    surrogate = clipped_surrogate(case.ratio, advantage, 0.2, high)

    case.assert_reproduced(-surrogate.mean(), [0.01, 0.02, 0.0][number % 3])


@pytest.mark.parametrize("number", range(3))
def test_torchrl_s_loss_without_a_clip_and_its_a2c(number):
    plain, a2c = Control("ppo_loss", number), Control("a2c_loss", number)

    plain.assert_reproduced(-(plain.ratio * plain.advantage).mean(), 0.01)
    a2c.assert_reproduced(-(a2c.log_prob * a2c.advantage).mean(), 0.01)


@pytest.mark.parametrize("number", range(3))
def test_torchrl_s_penalty_is_our_estimate_summed_over_actions(number):
    case = Control("klpen_ppo_loss", number)
    old = case.held["in/old_logits"].log_softmax(-1)
    kl = (old.exp() * old_policy_kl((case.all - old).exp())).sum(-1, keepdim=True)
    objective = -(case.ratio * case.advantage).mean()

    torch.testing.assert_close(kl.detach(), case.held["out/kl"])
    # Its coefficient of 1 is doubled, in place, between the value and the gradient.
    assert doubling_kl_coef(1.0, kl.mean().item(), target=0.01) == 2
    case.assert_reproduced(objective + kl.mean(), 0.01, gradient_of=objective + 2 * kl.mean())
