"""Importance ratios of policy losses."""

from __future__ import annotations

from abc import abstractmethod

from tensordict import TensorDict
from torch import Tensor

from rlcomp.functional.divergence import kl_estimate
from rlcomp.functional.ratio import (
    log_ratio,
    sequence_ratio,
    sequence_token_ratio,
    whole_sequence_ratio,
)
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import record


class NoRatio(LossPart):
    """No importance ratio: the score-function (REINFORCE) gradient.

    ``r_t = pi(a_t) / sg[pi(a_t)]``: value 1, gradient ``grad log pi(a_t)``.

    With ``trust_region: none`` the loss has REINFORCE's gradient. It needs on-policy data, as it
    does not correct for stale samples.

    Reads ``log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio`` ``[B, T]``.

    Source:
        Williams 1992, doi:10.1007/BF00992696; as a ratio: Foerster et al. 2018, arXiv:1802.05098.
    """

    equation = "r_t = pi(a_t) / sg[pi(a_t)]"
    reads = ("log_probs", "response_mask")
    writes = ("ratio",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the ratio."""
        log_probs = batch["log_probs"]
        batch["ratio"] = log_ratio(log_probs, log_probs.detach(), batch["response_mask"]).exp()
        return batch


class _ImportanceRatio(LossPart):
    """Base class of importance ratios: a function of the tokens' log-ratios.

    Records ``ratio/mean`` and ``ratio/approx_kl``, the k3 estimate of ``KL(pi_old || pi)``, nats
    per token.
    """

    reads = ("log_probs", "old_log_probs", "response_mask")
    writes = ("ratio",)

    @abstractmethod
    def ratio(self, log_ratios: Tensor, mask: Tensor) -> Tensor:
        """Return the ratio at each token, ``[B, T]``, 1 outside the mask.

        Args:
            log_ratios: ``log pi(a_t) - log pi_old(a_t)``, clamped to [-20, 20], ``[B, T]``.
            mask: the response tokens, ``[B, T]``.
        """

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the ratio."""
        log_probs, old, mask = batch["log_probs"], batch["old_log_probs"], batch["response_mask"]
        batch["ratio"] = self.ratio(log_ratio(log_probs, old, mask), mask)
        record("ratio/mean", batch["ratio"], where=mask)
        approx_kl = kl_estimate(old, log_probs.detach(), mask, "k3")
        record("ratio/approx_kl", approx_kl, where=mask)
        return batch


class TokenRatio(_ImportanceRatio):
    """Token-level importance ratio (PPO, GRPO).

    ``r_t = pi(a_t|s_t) / pi_old(a_t|s_t)``, its log clamped to [-20, 20].

    Reads ``log_probs``, ``old_log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio``
    ``[B, T]``, 1 outside the mask.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, section 3.
    """

    equation = "r_t = pi(a_t) / pi_old(a_t)"

    def ratio(self, log_ratios: Tensor, mask: Tensor) -> Tensor:
        """Return the ratio at each token."""
        del mask
        return log_ratios.exp()


class SequenceRatio(_ImportanceRatio):
    """GSPO ratio: geometric mean of the response's token ratios.

    ``s_i = (pi(y_i) / pi_old(y_i))^(1 / n_i) = exp((1 / n_i) sum_t log(pi_t / pi_old_t))``; its
    gradient in each token's log-prob is ``s_i / n_i``.

    All tokens of a response are clipped together. ``s_i`` stays so near 1 that clip ranges are two
    orders of magnitude narrower than for token ratios (``trust_region: clip_narrow``). Use
    ``reduction: sequence_mean``: a token sum would weight responses by their length. This ratio
    needs one advantage per response; ``ratio: sequence_token`` allows one advantage per token.

    Reads ``log_probs``, ``old_log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio``
    ``[B, T]``, the same at every token of a row, 1 outside the mask.

    Source:
        Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 7.
    """

    equation = "r_t = (pi(y) / pi_old(y))^(1 / n)"

    def ratio(self, log_ratios: Tensor, mask: Tensor) -> Tensor:
        """Return the ratio at each token."""
        return sequence_ratio(log_ratios, mask)


class SequenceTokenRatio(_ImportanceRatio):
    """GSPO-token ratio: GSPO's value, with a token-level gradient.

    ``s_it = sg[s_i] * pi(a_it) / sg[pi(a_it)]`` with ``s_i`` of ``ratio: sequence``.

    It serves advantages that differ between the tokens of a response. With one advantage per
    response and ``reduction: sequence_mean``, it gives the loss and gradient of
    ``ratio: sequence``.

    Reads ``log_probs``, ``old_log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio``
    ``[B, T]``, 1 outside the mask.

    Source:
        Zheng et al. 2025 (GSPO-token), arXiv:2507.18071, eq. 14.
    """

    equation = "r_t = sg[(pi(y) / pi_old(y))^(1 / n)] pi(a_t) / sg[pi(a_t)]"

    def ratio(self, log_ratios: Tensor, mask: Tensor) -> Tensor:
        """Return the ratio at each token."""
        return sequence_token_ratio(log_ratios, mask)


class WholeSequenceRatio(_ImportanceRatio):
    """Sequence-level importance ratio (RLOO): the response is one action.

    ``r_it = sg[r_i] (pi(a_it) / sg[pi(a_it)])^n_i`` with
    ``r_i = pi(y_i) / pi_old(y_i) = exp(sum_t log(pi_t / pi_old_t))``, not length-normalised.

    With one advantage per response and ``reduction: sequence_mean`` the loss is
    ``(1 / S) sum_i min(r_i A_i, clip(r_i) A_i)``, one clipped objective per response. If advantages
    differ between tokens (a critic, a KL in the token rewards), each token's log-prob has the
    gradient ``r_i A_it / S``: the importance-weighted policy gradient, with credit by token. A
    token sum would count a response once per token. The log of ``r_i`` is clamped to [-20, 20].

    Reads ``log_probs``, ``old_log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio``
    ``[B, T]``, the same at every token of a row, 1 outside the mask.

    Source:
        Ahmadian et al. 2024 (RLOO), arXiv:2402.14740, section 3.
    """

    equation = "r_t = sg[pi(y) / pi_old(y)] (pi(a_t) / sg[pi(a_t)])^n"
    changes_on_policy_gradient = True  # a token's gradient is n times its weight

    def ratio(self, log_ratios: Tensor, mask: Tensor) -> Tensor:
        """Return the ratio at each token."""
        return whole_sequence_ratio(log_ratios, mask)
