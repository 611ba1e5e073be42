"""Keep routing: the experts of each token are recorded, and used again when it is scored.

A router gives ``probs = softmax(W x)``, the indices of the ``K`` largest, and their probabilities,
divided by their sum where the model normalises. In a replay the indices are the recorded ones, and
the probabilities are those of the current model, so that the router has its gradient.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlcomp.errors import ConfigError, RlcompError, ShapeError
from rlcomp.metrics import record

# Marks a token whose experts are unknown: the model chooses.
UNKNOWN = 255
# Routers of transformers, and whether they divide by the sum of the chosen probabilities.
_NORMALISED: dict[str, Callable[[Any], bool]] = {
    "MixtralTopKRouter": lambda router: True,
    "OlmoeTopKRouter": lambda router: bool(router.norm_topk_prob),
    "Qwen3MoeTopKRouter": lambda router: bool(router.norm_topk_prob),
}


def routers_of(model: nn.Module) -> list[nn.Module]:
    """Return the routers of a mixture of experts, in the order of its layers.

    Args:
        model: of transformers: Mixtral, OLMoE or Qwen3-MoE.

    Raises:
        ConfigError: it has no known router, or more experts than a byte can number.
    """
    routers = [module for module in model.modules() if type(module).__name__ in _NORMALISED]
    if not routers:
        raise ConfigError(
            f"decoding.keep_routing: a {type(model).__name__} has no router that is known here "
            f"({', '.join(_NORMALISED)}): use keep_routing=none"
        )
    most = max(len(cast("Tensor", router.weight)) for router in routers)
    if most > UNKNOWN:
        raise ConfigError(
            f"decoding.keep_routing: the model has {most} experts a layer, more than {UNKNOWN}, "
            "which a byte numbers: use keep_routing=none"
        )
    return routers


def routing_shape(routers: Sequence[nn.Module]) -> tuple[int, int]:
    """Return the number of layers with a router, and of experts per token: ``(L, K)``."""
    return len(routers), int(routers[0].top_k)  # type: ignore[arg-type]


def check_experts(routers: Sequence[nn.Module], routes: Tensor) -> None:
    """Check that routes name existing experts; an outside sampler may send any number.

    Args:
        routers: of the model that scores.
        routes: uint8; :data:`UNKNOWN` is no expert.

    Raises:
        RlcompError: names the expert that does not exist.
    """
    experts = min(len(cast("Tensor", router.weight)) for router in routers)
    wrong = routes[(routes >= experts) & (routes != UNKNOWN)]
    if len(wrong):
        raise RlcompError(
            f"the sampler engine tells of expert {int(wrong[0])}, and a layer of the policy has "
            f"{experts}: does it serve another model?"
        )


@contextlib.contextmanager
def record_routes(routers: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Record the routes of each forward pass, ``[N, L, K]``, uint8, in the list it yields.

    ``N`` counts the tokens of the pass, row by row.
    """
    passes, layers = list[Tensor](), list[Tensor]()

    def note(module: nn.Module, arguments: object, output: tuple[Tensor, Tensor, Tensor]) -> None:
        del module, arguments
        layers.append(output[2].detach().to(torch.uint8))
        if len(layers) == len(routers):
            passes.append(torch.stack(layers, 1))
            layers.clear()

    with _hooked(routers, [note] * len(routers)):
        yield passes


@contextlib.contextmanager
def replay_routes(routers: Sequence[nn.Module], routes: Tensor) -> Iterator[None]:
    """Route tokens to the experts of ``routes`` in every forward pass of the context.

    Records ``routing/drift``: among the tokens and layers with known experts, the share in which
    the model would have chosen other ones.

    Args:
        routers: ``L`` of them.
        routes: shape ``[N, L, K]``, uint8, of the tokens of a pass, row by row; the model chooses
            where it is :data:`UNKNOWN`.

    Raises:
        ShapeError: the routes have other layers, or another number of experts per token.
    """
    wanted = routing_shape(routers)
    if routes.shape[1:] != wanted:
        raise ShapeError(
            f"'routed_experts' has {tuple(routes.shape[1:])} layers and experts a token, the model "
            f"has {wanted}"
        )
    with _hooked(routers, [_taking(layer) for layer in routes.long().unbind(1)]):
        yield


def _taking(routes: Tensor) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """Return a hook that computes a router's output for given indices, ``[N, K]``."""

    def take(
        module: nn.Module, arguments: object, output: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        del arguments
        logits, scores, own = output
        known = routes != UNKNOWN
        indices = torch.where(known, routes, own)
        drift = (indices.sort(-1).values != own.sort(-1).values).any(-1)
        record("routing/drift", drift.float(), where=known.all(-1))
        # As the routers compute it, from all probabilities: an index that is no longer among the
        # largest keeps its value and its gradient.
        chosen = logits.softmax(-1, dtype=torch.float32).gather(-1, indices)
        if _NORMALISED[type(module).__name__](module):
            chosen = chosen / chosen.sum(-1, keepdim=True)
        return logits, chosen.to(scores.dtype), indices

    return take


@contextlib.contextmanager
def _hooked(routers: Sequence[nn.Module], hooks: Sequence[Callable[..., Any]]) -> Iterator[None]:
    pairs = zip(routers, hooks, strict=True)
    handles = [router.register_forward_hook(hook) for router, hook in pairs]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def routes_of_rows(
    passes: Sequence[Tensor], prompts: Sequence[Sequence[int]], lengths: Sequence[int]
) -> Tensor:
    """Return the routes of a decode loop by row and token, from the routes of its passes.

    The first pass reads the prompts, padded on the left, each once or once a row. Each later pass
    reads one token of every row. The last token of a row is never read.

    Args:
        passes: results of :func:`record_routes`.
        prompts: ``P`` lists of ids.
        lengths: of each response, ``B = P * G``.

    Returns:
        Shape ``[B, T, L, K]``, uint8, padded on the right. ``T`` is the longest row;
        :data:`UNKNOWN` where no token was read.
    """
    rows, group = len(lengths), len(lengths) // len(prompts)
    width = max(len(prompt) for prompt in prompts)
    first = passes[0].view(-1, width, *passes[0].shape[1:])
    if len(first) < rows:
        first = first.repeat_interleave(group, 0)
    longest = max(len(prompts[row // group]) + length for row, length in enumerate(lengths))
    routes: Tensor = first.new_full((rows, longest, *first.shape[2:]), UNKNOWN)
    steps = torch.stack(list(passes[1:]), 1) if len(passes) > 1 else first[:, :0]
    for row, length in enumerate(lengths):
        start, read = len(prompts[row // group]), length - 1
        routes[row, :start] = first[row, width - start :]
        routes[row, start : start + read] = steps[row, :read]
    return routes
