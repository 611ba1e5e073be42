"""Losses of imitation."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModuleBase
from torchrl.objectives.common import LossModule

from rlcomp.arguments import NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


class SFTLoss(TokenLoss):
    """SFT loss: negative log-likelihood of the response tokens.

    ``loss = -sum_t w_t * log pi(a_t)`` with ``w_t`` = ``loss_weight``.

    Reads ``response_mask``, ``log_probs`` ``[B, T]``. Writes the scalar ``loss``, in nats.

    Args:
        reduction: writes ``loss_weight``; ``token_mean`` is the usual cross-entropy.
    """

    equation = "loss = -sum_t w_t log pi(a_t)"
    reads = ("response_mask", "log_probs")
    runs = ("reduction",)
    contained = True

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        log_probs = masked(batch["log_probs"], batch["response_mask"])
        return scalars(loss=-(log_probs * batch["loss_weight"]).sum())


class PositiveNLL(TokenLoss):
    """Positive-example LM loss (VAPO): negative log-likelihood of correct responses.

    ``loss = -mu * sum_{i in C} sum_t log pi(a_it) / sum_{i in C} n_i`` with
    ``reduction: token_mean``; ``C`` = correct responses of the optimiser step, ``n_i`` = tokens of
    response ``i``, ``mu`` = ``nll_coef``.

    The reduction sees only the tokens of ``C``; the loss is 0 if ``C`` is empty.

    Reads ``response_mask``, ``log_probs`` ``[B, T]``, ``correct`` ``[B]``. Writes the scalar
    ``loss``, in nats. Records ``imitation/nll``, nats per token.

    Args:
        nll_coef: mu, coefficient of the term.
        reduction: writes ``loss_weight``; the paper uses ``token_mean``.

    Source:
        Yue et al. 2025 (VAPO), arXiv:2504.05118: the positive-example LM loss.
    """

    equation = "loss = -{nll_coef} sum_t w_t log pi(a_t), w_t over correct responses only"
    reads = ("response_mask", "log_probs", "correct")
    runs = ("reduction",)
    contained = True

    def __init__(self, *, nll_coef: NonNegativeFloat = 0.1, reduction: Component) -> None:
        super().__init__(reduction=reduction)
        self.nll_coef = nll_coef

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``loss_weight`` of the tokens of correct responses."""
        correct_tokens = batch["response_mask"] & batch["correct"][:, None]
        return super().prepare(batch.copy().set("response_mask", correct_tokens))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        correct_tokens = batch["response_mask"] & batch["correct"][:, None]
        nll = -masked(batch["log_probs"], correct_tokens)
        record("imitation/nll", nll, where=correct_tokens)
        return scalars(loss=self.nll_coef * (nll * batch["loss_weight"]).sum())


class CloningSquaredError(Component):
    """Behaviour cloning of a deterministic policy: ``L = mean_N sum_A (pi(s) - a*)^2``.

    Reads ``observation`` and ``expert_action``. Writes the scalar ``loss_cloning``.

    Args:
        policy: the trained policy; writes ``action``.

    Source:
        Pomerleau 1989 (ALVINN).
    """

    reads = ("observation", "expert_action")
    equation = "L = mean_N sum_A (pi(s) - a*)^2"

    def __init__(self, *, policy: TensorDictModuleBase) -> None:
        super().__init__()
        self.policy = policy
        self.out_keys = ["loss_cloning"]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the loss, in a new TensorDict."""
        action = self.policy(batch.select("observation"))["action"]
        error = (action - batch["expert_action"]).square().sum(-1)
        return TensorDict({"loss_cloning": error.mean()}, batch_size=[])


class CloningLikelihood(Component):
    """Behaviour cloning of a stochastic policy: ``L = -mean_N log pi(a* | s)``.

    The log-prob of an action is the sum over its components. (torchrl's ``BCLoss`` takes the mean
    over the components unless the distribution declares them as one event.)

    Reads ``observation`` and ``expert_action``. Writes the scalar ``loss_cloning``, in nats.

    Args:
        policy: the trained policy, e.g. a squashed Gaussian.
    """

    reads = ("observation", "expert_action")
    equation = "L = -mean_N log pi(a* | s)"

    def __init__(self, *, policy: ProbabilisticTensorDictSequential) -> None:
        super().__init__()
        self.policy = policy
        self.out_keys = ["loss_cloning"]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the loss, in a new TensorDict."""
        distribution = self.policy.get_dist(batch.select("observation"))
        log_prob = distribution.log_prob(batch["expert_action"])
        action_log_prob = log_prob.reshape(batch.shape[0], -1).sum(-1)
        return TensorDict({"loss_cloning": -action_log_prob.mean()}, batch_size=[])


class DemonstrationLoss(Component):
    """Loss of torchrl, unchanged, on steps ``(s, a)`` whose actions are imitated.

    Reads ``observation`` and ``action``. Writes the scalars of the loss, and records each scalar
    as ``loss/<name>``.

    Args:
        objective: function of the policy that returns the loss, such as a partial of
            ``torchrl.objectives.BCLoss``.
        policy: the trained policy.
    """

    reads = ("observation", "action")
    equation = "L = objective(pi(s), a*)"

    def __init__(
        self, *, objective: Callable[..., LossModule], policy: TensorDictModuleBase
    ) -> None:
        super().__init__()
        with warnings.catch_warnings():
            # BCLoss has no target parameters, and torchrl warns that they are missing.
            warnings.filterwarnings("ignore", message="The name target_")
            self.objective = objective(policy)
        self.out_keys = list(self.objective.out_keys)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalars, in a new TensorDict."""
        values: TensorDict = self.objective(batch.select("observation", "action"))
        for key, value in values.items():
            record(f"loss/{key.removeprefix('loss_')}", torch.as_tensor(value).detach())
        return values
