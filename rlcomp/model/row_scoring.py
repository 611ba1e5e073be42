"""Scoring of rows by a language model, piece by piece, and the routes that it records."""

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
from rlcomp.model.causal_forward import CausalForward
from rlcomp.model.token_rows import token_rows


class RowScoring:
    """Scores rows with a forward pass; without gradient, some rows at a time.

    Under top-k, top-p or min-p the kept set is that of the scoring model, plus the taken token.
    On-policy that is exactly the set it was sampled from. Once the policy has moved, or for a
    reference, the sets differ, and so does the normalisation of the log-probs. With
    ``decoding.replay`` the sampler's own sets are recorded in ``sampling_mask`` ``[B, T, V/8]`` and
    scored over, wherever a batch holds them. With ``decoding.keep_routing`` the same holds for the
    experts that read a token, in ``routed_experts`` ``[B, T, L, E]``; other weights than the
    model's own choose for themselves.

    Args:
        forward: the forward pass.
        decoding: of the policy; says whether routes are recorded and replayed.

    Raises:
        ConfigError: routing is to be kept, and the model has no known routers, or its layers are
            computed again.
    """

    # A copy of the policy gets a copy of this object, which reads the weights of the copy.
    reads_weights = True

    def __init__(self, forward: CausalForward, decoding: Decoding) -> None:
        self.forward = forward
        self.routers = _recording_routers(forward, decoding)

    def columns(self, owner: str, batch: TensorDict, decoding: Decoding) -> TensorDict:
        """Return the checked entries of a batch that a forward pass reads, on the model's device.

        Args:
            owner: class of the policy, for messages.
            batch: any batch with rows of tokens.
            decoding: says which recorded choices are replayed.
        """
        replayed = [
            *(["sampling_mask"] if decoding.replays else []),
            *(["routed_experts"] if decoding.keep_routing != "none" else []),
        ]
        vocabulary = self.forward.signature.vocabulary
        rows = token_rows(owner, batch, optional=replayed, vocabulary=vocabulary)
        device = self.forward.model.device
        # Rows that no model has sampled are on the CPU.
        return rows if rows["tokens"].device == device else rows.to(device)

    def score(self, columns: TensorDict) -> ScoredTokens:
        """Return the states that predict the response tokens of rows, from one forward pass."""
        return self.forward.score(columns, None, self.routers)

    def write(self, batch: TensorDict, scored: ScoredTokens, decoding: Decoding) -> TensorDict:
        """Write ``log_probs``, ``entropy``, and ``log_distribution`` if asked for, to a batch."""
        makers: dict[str, LogitFunctionMaker] = {
            "log_probs": log_prob_function,
            "entropy": entropy_function,
        }
        if is_loss_input("log_distribution"):
            makers["log_distribution"] = distribution_function
        wanted = [is_loss_input(key) for key in makers]
        values = self.forward.compute_logit_functions(
            scored, list(makers.values()), wanted, decoding
        )
        for key, entry in zip(makers, values, strict=True):
            batch[key] = entry.to(batch["tokens"].device)
        return batch

    def read_once(
        self,
        columns: TensorDict,
        make: LogitFunctionMaker,
        decoding: Decoding,
        weights: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Return the values of a logit function of rows from one forward pass."""
        scored = self.forward.score(columns, weights, self.routers)
        return self.forward.compute_logit_functions(scored, [make], [True], decoding)[0]

    def read(
        self,
        columns: TensorDict,
        make: LogitFunctionMaker,
        decoding: Decoding,
        weights: Mapping[str, Tensor] | None,
        device: torch.device,
    ) -> Tensor:
        """Return the values of a logit function of rows; without gradient, from several passes.

        Args:
            columns: of :meth:`columns`.
            make: maker of the logit function.
            decoding: the distribution.
            weights: parameters of the model to use in place of its own, by name.
            device: of the result.
        """
        budget = self.forward.budget()
        if torch.is_grad_enabled() or columns["tokens"].numel() <= budget:
            return self.read_once(columns, make, decoding, weights).to(device)
        order = self.forward.split(columns, budget)
        parts = [
            self.read_once(columns[rows], make, decoding, weights).to(device) for rows in order
        ]
        return torch.cat(parts)[torch.cat(order).argsort()]

    def pieces(self, columns: TensorDict, tokens: int | None) -> Iterator[TensorDict]:
        """Yield rows in pieces of at most ``tokens``, or as one pass without gradient reads."""
        budget = self.forward.budget()
        budget = budget if tokens is None else min(tokens, budget)
        return (columns[rows] for rows in self.forward.split(columns, budget))

    def same_on_ranks(self, make: LogitFunctionMaker) -> bool:
        """Return whether other ranks would read the same, and the values are few enough to send.

        Adapters may be switched off here only, and hooks may change a pass here only.
        """
        adapted = any(not parameter.requires_grad for parameter in self.forward.model.parameters())
        return not (make is distribution_function or adapted or self.forward.has_hooks())

    @torch.no_grad()
    def log_probs_and_routes(
        self, columns: TensorDict, width: int, decoding: Decoding
    ) -> tuple[Tensor, Tensor]:
        """Return log-probs ``[B, T]`` and the experts ``[B, T, L, E]`` that the model chose.

        Args:
            columns: of :meth:`columns`; recorded routes are not replayed.
            width: ``T``.
            decoding: the distribution.
        """
        columns = columns.exclude("routed_experts")
        log_probs, routes = list[Tensor](), list[Tensor]()
        order = self.forward.split(columns, self.forward.budget())
        for rows in order:
            with record_routes(self.routers) as passes:
                log_probs.append(self.read_once(columns[rows], log_prob_function, decoding))
            chosen = passes[0].view(len(rows), -1, *passes[0].shape[1:])
            missing = width - chosen.shape[1]
            routes.append(F.pad(chosen, (0, 0, 0, 0, 0, missing), value=UNKNOWN))
        back = torch.cat(order).argsort()
        padding = ~columns["attention_mask"][..., None, None]
        return torch.cat(log_probs)[back], torch.cat(routes)[back].masked_fill(padding, UNKNOWN)


def _recording_routers(forward: CausalForward, decoding: Decoding) -> list[nn.Module]:
    """Return the routers whose choices are recorded and replayed; none without ``keep_routing``."""
    if decoding.keep_routing == "none":
        return []
    if forward.engine.checkpointing:
        raise ConfigError(
            "engine.checkpointing computes layers again in the backward pass, when no route is "
            "replayed any more: set it to false, or decoding.keep_routing=none"
        )
    return routers_of(forward.model)
