"""Routing replay: the experts of each token are recorded, and used again in scoring.

A router gives ``probs = softmax(W x)``, the indices of the ``E`` largest, and their probabilities,
divided by their sum where the model normalises. In a replay the indices are the recorded ones, and
the probabilities come from the current model, so that the router has its gradient.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlcomp.errors import ConfigError, RlcompError, ShapeError
from rlcomp.metrics import record

# Index of an unknown expert: the model chooses. Indices are bytes: at most 255 experts a layer.
UNKNOWN = 255
# Routers of transformers, and whether they normalise the probabilities of the chosen experts.
_NORMALISED: dict[str, Callable[[Any], bool]] = {
    "MixtralTopKRouter": lambda router: True,
    "OlmoeTopKRouter": lambda router: bool(router.norm_topk_prob),
    "Qwen3MoeTopKRouter": lambda router: bool(router.norm_topk_prob),
}


def routers_of(model: nn.Module) -> list[nn.Module]:
    """Return the routers of a mixture of experts, in the order of its layers.

    Args:
        model: a model of transformers: Mixtral, OLMoE or Qwen3-MoE.

    Raises:
        ConfigError: the model has no known router, or more experts than a byte can number.
    """
    routers = [module for module in model.modules() if type(module).__name__ in _NORMALISED]
    if not routers:
        raise ConfigError(
            f"decoding.keep_routing: a {type(model).__name__} has none of the supported routers "
            f"({', '.join(_NORMALISED)}): use keep_routing=none"
        )
    most = max(len(cast("Tensor", router.weight)) for router in routers)
    if most > UNKNOWN:
        raise ConfigError(
            f"decoding.keep_routing: the model has {most} experts per layer, but the limit "
            f"is {UNKNOWN}: use keep_routing=none"
        )
    return routers


def routing_shape(routers: Sequence[nn.Module]) -> tuple[int, int]:
    """Return the number of layers with a router, and of experts per token: ``(L, E)``."""
    return len(routers), int(routers[0].top_k)  # type: ignore[arg-type]


def check_experts(routers: Sequence[nn.Module], routes: Tensor) -> None:
    """Check that the routes of an outside sampler name existing experts, or :data:`UNKNOWN`.

    Raises:
        RlcompError: an expert does not exist.
    """
    experts = min(len(cast("Tensor", router.weight)) for router in routers)
    invalid = routes[(routes >= experts) & (routes != UNKNOWN)]
    if len(invalid):
        raise RlcompError(
            f"the sampler engine returned expert {int(invalid[0])}, but a layer of the policy has "
            f"{experts}: check that it serves the same model"
        )


@contextlib.contextmanager
def record_routes(routers: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Record the routes of each forward pass, ``[N, L, E]``, uint8, in the yielded list.

    ``N`` counts the tokens of the pass, row by row.
    """
    passes, layers = list[Tensor](), list[Tensor]()

    def append(module: nn.Module, arguments: object, output: tuple[Tensor, Tensor, Tensor]) -> None:
        del module, arguments
        layers.append(output[2].detach().to(torch.uint8))
        if len(layers) == len(routers):
            passes.append(torch.stack(layers, 1))
            layers.clear()

    with _hooks(routers, [append] * len(routers)):
        yield passes


@contextlib.contextmanager
def replay_routes(routers: Sequence[nn.Module], routes: Tensor) -> Iterator[None]:
    """Route tokens to the experts of ``routes`` in every forward pass of the context.

    Records ``routing/drift``: the share of known routes that differ from the model's own choice.

    Args:
        routers: the ``L`` routers.
        routes: experts of the tokens of a pass, row by row, shape ``[N, L, E]``, uint8;
            :data:`UNKNOWN` where the model chooses.

    Raises:
        ShapeError: ``L`` or ``E`` does not match the model.
    """
    expected = routing_shape(routers)
    if routes.shape[1:] != expected:
        raise ShapeError(
            f"'routed_experts' has {tuple(routes.shape[1:])} layers and experts per token, the "
            f"model has {expected}"
        )
    with _hooks(routers, [_replay_hook(layer) for layer in routes.long().unbind(1)]):
        yield


def _replay_hook(routes: Tensor) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """Return a hook that computes a router's output for given indices, ``[N, E]``."""

    def replay(
        module: nn.Module, arguments: object, output: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        del arguments
        logits, scores, model_choice = output
        known = routes != UNKNOWN
        indices = torch.where(known, routes, model_choice)
        drift = (indices.sort(-1).values != model_choice.sort(-1).values).any(-1)
        record("routing/drift", drift.float(), where=known.all(-1))
        # Gather from all probabilities, so that an expert outside the E largest has a gradient.
        chosen = logits.softmax(-1, dtype=torch.float32).gather(-1, indices)
        if _NORMALISED[type(module).__name__](module):
            chosen = chosen / chosen.sum(-1, keepdim=True)
        return logits, chosen.to(scores.dtype), indices

    return replay


@contextlib.contextmanager
def _hooks(routers: Sequence[nn.Module], hooks: Sequence[Callable[..., Any]]) -> Iterator[None]:
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

    The first pass computes the prompts, padded on the left, each once or once per row. Each later
    pass computes one token of every row. The last token of a row is not computed.

    Args:
        passes: results of :func:`record_routes`.
        prompts: ``P`` lists of ids.
        lengths: number of tokens of each of the ``B = P * G`` responses.

    Returns:
        Shape ``[B, T, L, E]``, uint8, padded on the right; ``T`` is the length of the longest row,
        prompt and response. :data:`UNKNOWN` where no token was computed.
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
        start, num_computed = len(prompts[row // group]), length - 1
        routes[row, :start] = first[row, width - start :]
        routes[row, start : start + num_computed] = steps[row, :num_computed]
    return routes
