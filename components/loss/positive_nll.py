"""Positive-example LM loss (VAPO): NLL of the policy's own correct responses."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


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
        reduction: writes ``loss_weight``; the paper's is ``token_mean``.

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
        right = batch["response_mask"] & batch["correct"][:, None]
        return super().prepare(batch.copy().set("response_mask", right))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        right = batch["response_mask"] & batch["correct"][:, None]
        nll = -masked(batch["log_probs"], right)
        record("imitation/nll", nll, where=right)
        return scalars(loss=self.nll_coef * (nll * batch["loss_weight"]).sum())
