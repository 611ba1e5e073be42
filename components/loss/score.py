"""Scores of an answer in preference losses."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, Probability
from rlcomp.errors import ConfigError
from rlcomp.functional.preference_score import (
    Divergence,
    Length,
    divergence_score,
    dpop_score,
    forward_kl,
    ld_dpo_score,
    log_odds,
    power_transform,
    reduce_tokens,
    token_log_ratio,
)
from rlcomp.interfaces.preference import Score


class LogProb(Score):
    """Log-prob of the answer, without a reference (SimPO, CPO).

    ``u = a`` with ``a`` the sum or mean of ``log pi_t``; AlphaPO: ``(1 - exp(-alpha a)) / alpha``.

    Reads ``log_probs``, ``response_mask`` ``[B, T]``. Writes ``score`` ``[B]``, with gradient.

    Args:
        length: ``sum`` or ``mean`` over the tokens.
        alpha: AlphaPO's parameter; 0: ``u`` is the log-prob itself.

    Source:
        Meng et al. 2024 (SimPO), arXiv:2405.14734, eq. 4; Xu et al. 2024 (CPO), arXiv:2401.08417,
        eq. 3; Gupta et al. 2025 (AlphaPO), arXiv:2501.03884, eq. 5.
    """

    equation = "u = {length}_t log pi_t, or at alpha = {alpha} != 0 (1 - exp(-alpha u)) / alpha"
    reads = ("log_probs", "response_mask")

    def __init__(self, *, length: Length = "sum", alpha: float = 0.0) -> None:
        super().__init__()
        self.length = length
        self.alpha = alpha

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        value = reduce_tokens(batch["log_probs"], batch["response_mask"], self.length)
        return power_transform(value, self.alpha)


class LogRatio(Score):
    """Log-ratio of the answer to the reference (DPO).

    ``u = sum_t log(pi_t / pi_ref_t)``, or the mean over the tokens.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``. Writes ``score`` ``[B]``,
    nats, with gradient.

    Args:
        length: ``sum`` or ``mean`` over the tokens.

    Source:
        Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7.
    """

    equation = "u = {length}_t log(pi_t / pi_ref_t)"
    reads = ("log_probs", "ref_log_probs", "response_mask")

    def __init__(self, *, length: Length = "sum") -> None:
        super().__init__()
        self.length = length

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        return reduce_tokens(ratio, mask, self.length)


class LogOdds(Score):
    """Log-odds of the answer, without a reference (ORPO).

    ``u = log(p / (1 - p)), log p = mean_t log pi_t``.

    Reads ``log_probs``, ``response_mask`` ``[B, T]``. Writes ``score`` ``[B]``, with gradient.

    Source:
        Hong et al. 2024 (ORPO), arXiv:2403.07691, eq. 4.
    """

    equation = "u = log(p / (1 - p)), log p = mean_t log pi_t"
    reads = ("log_probs", "response_mask")

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        return log_odds(reduce_tokens(batch["log_probs"], batch["response_mask"], "mean"))


class LengthDesensitisedLogRatio(Score):
    """Log-ratio with a smaller weight of the tokens that exceed the shorter answer (LD-DPO).

    ``u = sum_{t <= q} x_t + alpha sum_{t > q} x_t, x_t = log(pi_t / pi_ref_t)``.

    ``q`` = ``common_length``: response tokens of the shorter answer of the pair.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``, ``common_length`` ``[B]``.
    Writes ``score`` ``[B]``, nats, with gradient.

    Args:
        alpha: weight of the tokens from position ``q + 1`` on; 1 is DPO.

    Source:
        Liu et al. 2024 (LD-DPO), arXiv:2409.06411, eq. 9.
    """

    equation = "u = sum_{t <= q} x_t + {alpha} sum_{t > q} x_t, x_t = log(pi_t / pi_ref_t)"
    reads = ("log_probs", "ref_log_probs", "response_mask", "common_length")

    def __init__(self, *, alpha: Probability = 0.5) -> None:
        super().__init__()
        self.alpha = alpha

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        return ld_dpo_score(ratio, mask, batch["common_length"], self.alpha)


class DivergenceScore(Score):
    """Score from the derivative of an f-divergence other than the reverse KL (f-DPO).

    With ``h = sum_t log(pi_t / pi_ref_t)``: ``forward_kl`` is ``u = 1 - e^-h``,
    ``jensen_shannon`` is ``u = log 2 + log s(h)``, ``alpha`` is
    ``u = (e^((alpha - 1) h) - 1) / (alpha - 1)``; ``s`` is the logistic function. Exponents above
    40 count as 40.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``. Writes ``score`` ``[B]``,
    with gradient.

    Args:
        divergence: ``forward_kl``, ``jensen_shannon`` or ``alpha``.
        alpha: parameter of the alpha divergence, not 1.

    Raises:
        ConfigError: alpha is 1.

    Source:
        Wang et al. 2023 (f-DPO), arXiv:2309.16240, table 1.
    """

    equation = "u = f'(exp h) of {divergence} (alpha = {alpha}), h = sum_t log(pi_t / pi_ref_t)"
    reads = ("log_probs", "ref_log_probs", "response_mask")

    def __init__(self, *, divergence: Divergence = "forward_kl", alpha: float = 0.5) -> None:
        super().__init__()
        if divergence == "alpha" and alpha == 1:
            raise ConfigError(
                "DivergenceScore: alpha is 1, which is the reverse KL: set another alpha, or use "
                "loss=dpo"
            )
        self.divergence = divergence
        self.alpha = alpha

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        return divergence_score(ratio.sum(1), self.divergence, self.alpha)


class PenalisedLogRatio(Score):
    """Log-ratio with a penalty if the chosen answer is less likely than under the reference (DPOP).

    ``u_w = h_w - penalty max(0, -h_w), u_l = h_l, h = sum_t log(pi_t / pi_ref_t)``.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``, ``chosen`` ``[B]``. Writes
    ``score`` ``[B]``, nats, with gradient.

    Args:
        penalty: lambda of the paper, weight of the penalty.

    Source:
        Pal et al. 2024 (Smaug), arXiv:2402.13228, eq. 3.
    """

    equation = "u = h - [chosen] {penalty} max(0, -h), h = sum_t log(pi_t / pi_ref_t)"
    reads = ("log_probs", "ref_log_probs", "response_mask", "chosen")

    def __init__(self, *, penalty: NonNegativeFloat = 50.0) -> None:
        super().__init__()
        self.penalty = penalty

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        return dpop_score(ratio.sum(1), batch["chosen"], self.penalty)


class SequentialKL(Score):
    """Log-ratio plus the KL summed over the positions (TDPO).

    ``u = h + alpha K`` with ``h = sum_t log(pi_t / pi_ref_t)`` and
    ``K = sum_t KL(pi_ref(.|s_t) || pi(.|s_t))``; chosen answers have a detached ``K`` in TDPO2.

    Needs ``reference=frozen_full``.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``, ``log_distribution``,
    ``ref_log_distribution`` ``[B, T, V]``, ``chosen`` ``[B]``. Writes ``score`` ``[B]``, nats, with
    gradient.

    Args:
        alpha: weight of the KL; 1 in TDPO1, 0 is DPO.
        detach_chosen: no gradient through the KL of chosen answers (TDPO2).

    Source:
        Zeng et al. 2024 (TDPO), arXiv:2404.11999, eq. 14 (TDPO1) and 16 (TDPO2).
    """

    equation = (
        "u = h + {alpha} K, K = sum_t KL(pi_ref(.|s_t) || pi(.|s_t)), K of chosen detached: "
        "{detach_chosen}"
    )
    reads = (
        "log_probs",
        "ref_log_probs",
        "log_distribution",
        "ref_log_distribution",
        "response_mask",
        "chosen",
    )

    def __init__(self, *, alpha: NonNegativeFloat = 0.5, detach_chosen: bool = True) -> None:
        super().__init__()
        self.alpha = alpha
        self.detach_chosen = detach_chosen

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        kl = forward_kl(batch["log_distribution"], batch["ref_log_distribution"], mask)
        if self.detach_chosen:
            kl = torch.where(batch["chosen"], kl.detach(), kl)
        return ratio.sum(1) + self.alpha * kl
