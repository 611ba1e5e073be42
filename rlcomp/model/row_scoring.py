"""Scoring of rows by a language model, and recording of its routes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.component import is_loss_input
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.routing import UNKNOWN, record_routes, routers_of
from rlcomp.engine.scoring import (
    LogitFunctionMaker,
    ScoredTokens,
    distribution_function,
    entropy_function,
    log_prob_function,
)
from rlcomp.errors import ConfigError
from rlcomp.model.backbone import token_rows
from rlcomp.model.causal_forward import CausalForward


class RowScoring:
    """Scoring of rows by a forward pass; without gradient, by several smaller passes.

    Under top-k, top-p or min-p, log-probs are normalised over the tokens that the scoring model
    keeps, and the sampled token. For a changed policy or a reference, this set differs from the
    sampler's set. With ``decoding.replay`` the sampler's sets are recorded in
    ``sampling_mask`` ``[B, T, V/8]``, and log-probs are normalised over them if a batch has them.
    With ``decoding.keep_routing`` the experts of each token are recorded in ``routed_experts``
    ``[B, T, L, E]``, and replayed with the model's own weights.

    Args:
        forward: the forward pass.
        decoding: the policy's settings; they determine whether routes are recorded and replayed.

    Raises:
        ConfigError: under ``keep_routing``, the model has no known routers, or checkpoints its
            layers.
    """

    # rlcomp.parallel.sharded reads this flag: a copy of the policy needs a copy of this object.
    reads_weights = True

    def __init__(self, forward: CausalForward, decoding: Decoding) -> None:
        self.forward = forward
        self.routers = _recording_routers(forward, decoding)

    def columns(self, owner: str, batch: TensorDict, decoding: Decoding) -> TensorDict:
        """Return the checked entries of a batch that a forward pass reads, on the model's device.

        Args:
            owner: class of the policy, for messages.
            batch: rows of tokens.
            decoding: settings that determine the recorded choices to replay.
        """
        replayed = [
            *(["sampling_mask"] if decoding.replays else []),
            *(["routed_experts"] if decoding.keep_routing != "none" else []),
        ]
        vocabulary = self.forward.signature.vocabulary
        rows = token_rows(owner, batch, optional=replayed, vocabulary=vocabulary)
        device = self.forward.model.device
        # Rows that were not sampled are on the CPU.
        return rows if rows["tokens"].device == device else rows.to(device)

    def score(self, columns: TensorDict) -> ScoredTokens:
        """Return the states that predict the response tokens of rows, from one forward pass."""
        return self.forward.score(columns, None, self.routers)

    def write(self, batch: TensorDict, scored: ScoredTokens, decoding: Decoding) -> TensorDict:
        """Write ``log_probs``, ``entropy``, and ``log_distribution`` if a loss reads it."""
        makers: dict[str, LogitFunctionMaker] = {
            "log_probs": log_prob_function,
            "entropy": entropy_function,
        }
        if is_loss_input("log_distribution"):
            makers["log_distribution"] = distribution_function
        differentiable = [is_loss_input(key) for key in makers]
        values = self.forward.compute_logit_functions(
            scored, list(makers.values()), differentiable, decoding
        )
        for key, entry in zip(makers, values, strict=True):
            batch[key] = entry.to(batch["tokens"].device)
        return batch

    def compute_once(
        self,
        columns: TensorDict,
        make: LogitFunctionMaker,
        decoding: Decoding,
        weights: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Compute a logit function of rows in one forward pass."""
        scored = self.forward.score(columns, weights, self.routers)
        return self.forward.compute_logit_functions(scored, [make], [True], decoding)[0]

    def compute(
        self,
        columns: TensorDict,
        make: LogitFunctionMaker,
        decoding: Decoding,
        weights: Mapping[str, Tensor] | None,
        device: torch.device,
    ) -> Tensor:
        """Compute a logit function of rows; without gradient, in several passes.

        Args:
            columns: result of :meth:`columns`.
            make: maker of the logit function.
            decoding: the distribution.
            weights: parameters to use in place of the model's, by name; None: the model's.
            device: device of the result.
        """
        budget = self.forward.budget()
        if torch.is_grad_enabled() or columns["tokens"].numel() <= budget:
            return self.compute_once(columns, make, decoding, weights).to(device)
        order = self.forward.split(columns, budget)
        parts = [
            self.compute_once(columns[rows], make, decoding, weights).to(device) for rows in order
        ]
        return torch.cat(parts)[torch.cat(order).argsort()]

    def split_rows(self, columns: TensorDict, tokens: int | None) -> Iterator[TensorDict]:
        """Yield parts of the rows for passes without gradient.

        A part has at most ``tokens`` tokens, and never more than a pass reads; None: as many as a
        pass reads. A single row may have more.
        """
        budget = self.forward.budget()
        budget = budget if tokens is None else min(tokens, budget)
        return (columns[rows] for rows in self.forward.split(columns, budget))

    def same_on_ranks(self, make: LogitFunctionMaker) -> bool:
        """Return whether other ranks compute the same values, few enough to send.

        Adapters may be disabled, and hooks may change a pass, on this rank alone.
        """
        adapted = any(not parameter.requires_grad for parameter in self.forward.model.parameters())
        return not (make is distribution_function or adapted or self.forward.has_hooks())

    @torch.no_grad()
    def log_probs_and_routes(
        self, columns: TensorDict, width: int, decoding: Decoding
    ) -> tuple[Tensor, Tensor]:
        """Compute log-probs ``[B, T]`` and the routed experts ``[B, T, L, E]``, uint8.

        Padding, and a token that predicts no other one, may have the expert
        :data:`rlcomp.engine.routing.UNKNOWN`.

        Args:
            columns: result of :meth:`columns`; recorded routes are not replayed.
            width: ``T``.
            decoding: the distribution.
        """
        columns = columns.exclude("routed_experts")
        log_probs, routes = list[Tensor](), list[Tensor]()
        order = self.forward.split(columns, self.forward.budget())
        for rows in order:
            with record_routes(self.routers) as passes:
                log_probs.append(self.compute_once(columns[rows], log_prob_function, decoding))
            experts = passes[0].view(len(rows), -1, *passes[0].shape[1:])
            missing = width - experts.shape[1]
            routes.append(F.pad(experts, (0, 0, 0, 0, 0, missing), value=UNKNOWN))
        inverse = torch.cat(order).argsort()
        padding = ~columns["attention_mask"][..., None, None]
        return torch.cat(log_probs)[inverse], torch.cat(routes)[inverse].masked_fill(
            padding, UNKNOWN
        )


def _recording_routers(forward: CausalForward, decoding: Decoding) -> list[nn.Module]:
    """Return the routers to record and replay; none without ``keep_routing``."""
    if decoding.keep_routing == "none":
        return []
    if forward.engine.checkpointing:
        raise ConfigError(
            "engine.checkpointing computes layers again in the backward pass, when no route is "
            "replayed any more: set it to false, or decoding.keep_routing=none"
        )
    return routers_of(forward.model)
