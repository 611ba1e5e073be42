"""torchrl's losses and value estimates for control, by our functions."""

import torch

from rlcomp.functional.kl_coefficient import doubling_kl_coef
from rlcomp.functional.ratio import old_policy_kl
from rlcomp.functional.returns import gae, reward_to_go, td_lambda_returns, vtrace
from rlcomp.functional.surrogate import clipped_surrogate
from rlcomp.functional.value import clipped_value_error, value_error

EXACT = 1e-9


class Control:
    """A case of the losses: four actions, linear actor and critic."""

    def __init__(self, case):
        self.held, self.args = case.tensors, case.args
        self.weight = self.held["in/W_actor"].requires_grad_()
        self.all = (self.held["in/observation"] @ self.weight.T).log_softmax(-1)
        self.log_prob = self.all.gather(1, self.held["in/action"][:, None])
        self.ratio = (self.log_prob - self.held["in/sample_log_prob"][:, None]).exp()
        self.advantage = self.held["in/advantage"]

    def compared(self, objective, gradient_of=None):
        """Value and gradient; the entropy bonus is part of the gradient."""
        entropy = -(self.all.exp() * self.all).sum(-1).mean()
        loss = objective if gradient_of is None else gradient_of
        loss = loss - self.args["entropy_coeff"] * entropy
        (gradient,) = torch.autograd.grad(loss, self.weight)
        yield objective, self.held["out/loss_objective"], EXACT
        yield gradient, self.held["grad/W_actor"], EXACT


def clip_ppo(case):
    control, clip = Control(case), case.args["clip_epsilon"]
    low, high = clip if isinstance(clip, list) else (clip, clip)
    advantage = control.advantage
    if case.args.get("normalize_advantage"):
        advantage = (advantage - advantage.mean()) / advantage.std()
    surrogate = clipped_surrogate(control.ratio, advantage, low, high)
    yield from control.compared(-surrogate.mean())


def ppo(case):
    control = Control(case)
    yield from control.compared(-(control.ratio * control.advantage).mean())


def a2c(case):
    control = Control(case)
    yield from control.compared(-(control.log_prob * control.advantage).mean())


def klpen(case):
    control = Control(case)
    old = control.held["in/old_logits"].log_softmax(-1)
    kl = (old.exp() * old_policy_kl((control.all - old).exp())).sum(-1, keepdim=True)
    objective = -(control.ratio * control.advantage).mean()
    yield kl, control.held["out/kl"], EXACT
    # Its coefficient is doubled, in place, between the value and the gradient.
    beta = case.args["beta"]
    after = doubling_kl_coef(beta, kl.mean().item(), target=case.args["dtarg"])
    loss = objective + after * kl.mean()
    yield from control.compared(objective + beta * kl.mean(), gradient_of=loss)


def critic(case):
    """Ours is half of their squared error; theirs has other forms as well."""
    held, a = case.tensors, case.args
    weight = held["in/W_critic"].requires_grad_()
    value, target = held["in/observation"] @ weight.T, held["in/value_target"]
    error = value_error(value, target)
    if "clip_value" in a:
        error = clipped_value_error(value, held["in/old_state_value"], target, a["clip_value"])
    loss = 2 * a["critic_coeff"] * error.mean()
    (gradient,) = torch.autograd.grad(loss, weight)
    yield loss, held["out/loss_critic"], EXACT
    yield gradient, held["grad/W_critic"], EXACT


def episodes(case):
    """Rows cut at ``done``: (inputs of one row, last value, its place) per episode."""
    given = {k.removeprefix("in/"): v[..., 0] for k, v in case.tensors.items() if k[:3] == "in/"}
    done = given["done"]
    for row in range(len(done)):
        ends = [*done[row].nonzero()[:, 0].tolist(), done.shape[1] - 1]
        start = 0
        for end in sorted(set(ends)):
            place = (row, slice(start, end + 1))
            parts = {name: x[place][None] for name, x in given.items()}
            last = None
            if "terminated" in parts:
                alive = ~parts["terminated"][:, -1]
                last = torch.where(alive, parts["next_state_value"][:, -1], 0.0)
            yield parts, last, place
            start = end + 1


def every(parts):
    return torch.ones_like(parts["reward"], dtype=torch.bool)


def estimates(case):
    """One step (TD(0)) has no trace, the return to the end (TD(1)) a full one."""
    held, gamma = case.tensors, case.args["gamma"]
    full = 1.0 if case.file == "torchrl__td1_return" else 0.0
    trace = case.args.get("lmbda", full)
    for parts, last, place in episodes(case):
        inputs = parts["reward"], parts["state_value"], every(parts), gamma, trace, last
        if "out/advantage" in held:
            yield gae(*inputs)[0], held["out/advantage"][..., 0][place], EXACT
        if "out/value_target" in held:
            yield td_lambda_returns(*inputs)[0], held["out/value_target"][..., 0][place], EXACT


def off_policy(case):
    held, a = case.tensors, case.args
    for parts, last, place in episodes(case):
        ratio = (parts["log_pi"] - parts["log_mu"]).exp()
        inputs = parts["reward"], parts["state_value"], ratio, every(parts)
        advantage, returns = vtrace(*inputs, a["gamma"], a["rho_thresh"], a["c_thresh"], last)
        yield advantage[0], held["out/advantage"][..., 0][place], EXACT
        yield returns[0], held["out/value_target"][..., 0][place], EXACT


def to_go(case):
    for parts, _, place in episodes(case):
        returns = reward_to_go(parts["reward"], every(parts), case.args["gamma"])
        yield returns[0], case.tensors["out/out"][..., 0][place], EXACT


COMPARE = {
    "torchrl__clip_ppo_loss": clip_ppo,
    "torchrl__ppo_loss": ppo,
    "torchrl__a2c_loss": a2c,
    "torchrl__klpen_ppo_loss": klpen,
    **{
        f"torchrl__{name}": estimates
        for name in ("gae", "td_lambda_return", "td_lambda_advantage", "td0_return", "td1_return")
    },
    **{f"torchrl__{name}_loss/critic": critic for name in ("clip_ppo", "ppo", "a2c", "klpen_ppo")},
    "torchrl__vtrace": off_policy,
    "torchrl__reward2go": to_go,
}


def test_losses_and_estimates_of_control_are_reproduced(case, reproduce):
    reproduce(case, COMPARE[case.file])
