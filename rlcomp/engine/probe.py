"""Probe of a causal LM: call signature, cache type and causality, from one small forward."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import torch
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from rlcomp.errors import ConfigError, add_note

# Names of the cache in a model's output and among the arguments of its forward pass.
_CACHES = ("past_key_values", "cache_params")


@dataclass(frozen=True)
class ModelSignature:
    """Call signature and cache type of a causal LM.

    Attributes:
        vocabulary: width of its logits; may exceed the number of tokens of the tokenizer.
        keeps_columns: whether it can give the logits of chosen columns only.
        takes_positions: whether it takes ``position_ids``; others need none, or count the mask.
        cache: name of its cache, in its output and among its arguments.
        repeats_cache: whether its cache can be repeated for the answers of a group. Otherwise
            (recurrent layers) a prompt is read once per answer.
    """

    vocabulary: int
    keeps_columns: bool
    takes_positions: bool
    cache: str
    repeats_cache: bool

    @property
    def recurrent(self) -> bool:
        """Return whether its cache is purely recurrent (state-space models)."""
        return self.cache == "cache_params"


@torch.no_grad()
def probe(model: PreTrainedModel) -> ModelSignature:
    """Probe a model with two rows of four tokens that differ in the last one.

    Args:
        model: in eval mode.

    Raises:
        ConfigError: the model is not causal, or it returns no cache.
    """
    rows = torch.tensor([[0, 1, 0, 1], [0, 1, 0, 0]], device=model.device)
    name = model.config.model_type
    try:
        with torch.random.fork_rng(devices=[]):
            output = model(input_ids=rows, use_cache=True)
    except Exception as error:
        add_note(error, f"policy: the model ({name}) failed to read four tokens; check its config")
        raise
    logits = output.logits
    _check_causal(logits, name)
    caches = [key for key in _CACHES if isinstance(output.get(key), Cache)]
    if not caches:
        raise ConfigError(
            f"policy: the model ({name}) hands out no cache to go on from, so nothing can be "
            "sampled with it: choose another architecture"
        )
    parameters = inspect.signature(model.forward).parameters
    plain = (DynamicLayer, DynamicSlidingWindowLayer)
    return ModelSignature(
        vocabulary=logits.shape[-1],
        keeps_columns="logits_to_keep" in parameters,
        takes_positions="position_ids" in parameters,
        cache=caches[0],
        # Exact types: a hybrid layer inherits the method, but the method does not repeat its
        # recurrent state.
        repeats_cache=all(type(layer) in plain for layer in output[caches[0]].layers),
    )


def _check_causal(logits: torch.Tensor, name: str) -> None:
    """Check causality: the logits of the first three columns must agree.

    Raises:
        ConfigError: they differ by more than rounding.
    """
    earlier = logits[:, :3].double()
    rounding = torch.finfo(logits.dtype).eps ** 0.75 * earlier.abs().max()
    if (earlier[0] - earlier[1]).abs().max() > rounding:
        raise ConfigError(
            f"policy: the model ({name}) is not causal: changing a token changes what it says of "
            "earlier ones. Choose an architecture that generates text from left to right (for "
            "BERT and its kin, a config with is_decoder: true)"
        )
