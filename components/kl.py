"""KL penalties in the reward, and the KL monitor."""

from __future__ import annotations

from abc import abstractmethod

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.functional.divergence import Value, kl_estimate, kl_full
from rlcomp.interfaces.kl_controller import KLController, times_kl_weight
from rlcomp.interfaces.policy import FullDistributionPolicy
from rlcomp.interfaces.stages import add_token_reward
from rlcomp.metrics import record


class _KLInOutcomeReward(Component):
    """Base class of KL penalties in the outcome reward: ``R_i <- R_i - beta * sum_t KL_it``.

    A subclass computes ``KL_it`` in :meth:`kl`. Greedy answers, which serve as a baseline, have no
    penalty, but count in the measured KL. If present, ``kl_weight`` ``[B]`` multiplies the penalty
    of its row. Records ``kl/in_reward``, the mean of ``KL_it``, nats per token, and ``kl/coef``,
    beta.

    Args:
        controller: the controller of beta; updated from the measured KL.
    """

    keys = {
        "greedy": (
            "B",
            "bool",
            "greedy answer: a baseline, not trained on",
            {"example": "first_of_group"},
        )
    }
    writes = ("reward",)
    optional = ("greedy", "kl_weight")
    must_reach = ("reward",)
    exclusive = "kl"

    def __init__(self, *, controller: KLController) -> None:
        super().__init__()
        self.controller = controller

    @abstractmethod
    def kl(self, batch: TensorDict) -> Tensor:
        """Return ``KL_it``, ``[B, T]``, nats, without gradient."""

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the shaped reward."""
        kl, mask = self.kl(batch), batch["response_mask"]
        record("kl/in_reward", kl, where=mask)
        penalised_rows = ~batch["greedy"] if "greedy" in batch.keys() else None
        penalty = self.controller.penalty(kl, mask, penalised_rows)
        batch["reward"] = batch["reward"] - times_kl_weight(penalty, batch)
        return batch


class KLInReward(_KLInOutcomeReward):
    """KL penalty in the outcome reward (RLOO).

    ``R_i <- R_i - beta * sum_t k(d_it)`` with ``d_it = log pi_old(a_it) - log pi_ref(a_it)`` and
    ``k`` the estimator.

    It comes before the baseline, so that group statistics include the penalty.

    Reads ``reward`` ``[B]``, ``response_mask``, ``old_log_probs``, ``ref_log_probs`` ``[B, T]``; if
    present ``greedy`` (no penalty) and ``kl_weight`` (a factor of the penalty) ``[B]``. Writes
    ``reward``.

    Args:
        controller: the controller of beta; updated from the measured KL.
        estimator: k1 gives the policy gradient of KL(pi || ref).

    Source:
        Ahmadian et al. 2024, arXiv:2402.14740, eq. 3.
    """

    reads = ("reward", "response_mask", "old_log_probs", "ref_log_probs")
    equation = (
        "R <- R - beta sum_t {estimator:formula}, d_t = log pi_old(a_t) - log pi_ref(a_t), "
        "beta = {controller}"
    )

    def __init__(self, *, controller: KLController, estimator: Value = "k1") -> None:
        super().__init__(controller=controller)
        self.estimator: Value = estimator

    def kl(self, batch: TensorDict) -> Tensor:
        """Return the estimate of the KL at each token."""
        old, ref = batch["old_log_probs"].detach(), batch["ref_log_probs"]
        return kl_estimate(old, ref, batch["response_mask"], self.estimator)


class KLInRewardFull(_KLInOutcomeReward):
    """Full-vocabulary KL penalty in the outcome reward.

    ``R_i <- R_i - beta * sum_t KL_it`` with
    ``KL_it = sum_v pi(v|s_it) (log pi(v|s_it) - log pi_ref(v|s_it))``.

    The KL of a token lacks the noise of a single-sample estimate; the sum still depends on the
    states that the response visits. This stage computes the policy's distribution itself. Memory:
    three times ``B * T * V`` numbers, including the reference's distribution.

    Reads ``reward`` ``[B]``, ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``,
    ``ref_log_distribution`` ``[B, T, V]``; if present ``greedy`` (no penalty) and ``kl_weight`` (a
    factor of the penalty) ``[B]``. Writes ``reward``.

    Args:
        policy: the policy before the update.
        controller: the controller of beta; updated from the measured KL.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, eq. 2; the expectation over the token is exact.
    """

    reads = ("reward", "tokens", "attention_mask", "response_mask", "ref_log_distribution")
    equation = "R <- R - beta sum_t KL(pi_old(. | s_t) || pi_ref(. | s_t)), beta = {controller}"

    policy: FullDistributionPolicy

    def __init__(self, *, policy: FullDistributionPolicy, controller: KLController) -> None:
        super().__init__(controller=controller)
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)

    def kl(self, batch: TensorDict) -> Tensor:
        """Return the exact KL at each token."""
        with torch.no_grad():
            log_distribution = self.policy.log_distribution(batch)
        return kl_full(log_distribution, batch["ref_log_distribution"], batch["response_mask"])


class KLInTokenReward(Component):
    """KL penalty in the token rewards (PPO in RLHF, REINFORCE++).

    ``r_t <- r_t - beta * k(d_t)`` with ``d_t = log pi_old(a_t) - log pi_ref(a_t)``. The return
    credits a token with its own KL and the KL of all later tokens.

    A group baseline uses outcome rewards only and does not include the penalty. A critic's value
    includes it.

    Reads ``response_mask``, ``old_log_probs``, ``ref_log_probs`` ``[B, T]``; if present
    ``token_reward`` ``[B, T]``, to which it adds, and ``kl_weight`` ``[B]``, a factor of the row's
    penalty. Writes ``token_reward``. Records ``kl/in_token_reward``, the mean of ``k(d_t)``, nats
    per token, and ``kl/coef``, beta.

    Args:
        controller: the controller of beta; updated from the measured KL.
        estimator: k1 gives the policy gradient of KL(pi || ref).

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, eq. 2; Hu 2025 (REINFORCE++), arXiv:2501.03262.
    """

    reads = ("response_mask", "old_log_probs", "ref_log_probs")
    writes = ("token_reward",)
    must_reach = ("token_reward",)
    optional = ("token_reward", "kl_weight")
    exclusive = "kl"
    equation = (
        "r_t <- r_t - beta {estimator:formula}, d_t = log pi_old(a_t) - log pi_ref(a_t), "
        "beta = {controller}"
    )

    def __init__(self, *, controller: KLController, estimator: Value = "k1") -> None:
        super().__init__()
        self.controller = controller
        self.estimator: Value = estimator

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the rewards of the tokens."""
        mask = batch["response_mask"]
        old, ref = batch["old_log_probs"].detach(), batch["ref_log_probs"]
        kl = kl_estimate(old, ref, mask, self.estimator)
        record("kl/in_token_reward", kl, where=mask)
        reward = -self.controller.coef_then_observe(kl, mask) * times_kl_weight(kl, batch)
        return add_token_reward(batch, reward)


class KLObserver(Component):
    """Stage that updates a KL controller once per rollout batch with the KL to the reference.

    The losses of a batch use the coefficient from before the batch. So this stage passes the KL of
    a batch to the controller when the next batch arrives.

    Reads ``response_mask``, ``old_log_probs``, ``ref_log_probs`` ``[B, T]``. Writes nothing.
    Records ``kl/coef``, beta.

    Args:
        controller: the controller of the KL loss.
        estimator: estimator of the KL's value; :class:`KLInReward` has the same default, k1.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, section 2.2.
    """

    reads = ("response_mask", "old_log_probs", "ref_log_probs")

    kl: Tensor
    num_sequences: Tensor

    def __init__(self, *, controller: KLController, estimator: Value = "k1") -> None:
        super().__init__()
        self.controller = controller
        self.estimator: Value = estimator
        # NaN: no measurement yet; controllers ignore it.
        self.register_buffer("kl", torch.tensor(float("nan"), dtype=torch.float64))
        self.register_buffer("num_sequences", torch.tensor(0))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Update the controller with the KL of the previous batch, then measure this one."""
        self.controller.observe(float(self.kl), int(self.num_sequences))
        record("kl/coef", self.controller.coef())
        mask = batch["response_mask"]
        kl = kl_estimate(batch["old_log_probs"], batch["ref_log_probs"], mask, self.estimator)
        self.kl.fill_(self.controller.measure(kl, mask))
        self.num_sequences.fill_(int(mask.any(1).sum()))
        return batch
