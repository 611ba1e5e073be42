"""Sampling by the continuous batching of transformers, in this process."""

from __future__ import annotations

import logging
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, PreTrainedModel

from components.sampler_engine.reply import Response, as_sampled
from rlcomp.arguments import Checked, PositiveInt
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import SampledResponses
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.interfaces.sampler_engine import SamplingRequest

_LOGGER = "ContinuousBatchingLogger"  # transformers' logger, which warns at every batch


class TransformersBatching(metaclass=Checked):
    """Engine that samples by transformers' ``model.generate_batch`` (paged attention).

    It is for GPUs, and for architectures that rlcomp's own loop does not support. On a CPU it is
    about fifty times slower than that loop. The model is the policy's own, adapters included.

    Args:
        num_blocks: pages of the cache; null: on a GPU as many as memory holds, elsewhere as many as
            all rows need.
        page_size: tokens per page.
    """

    def __init__(
        self, *, num_blocks: PositiveInt | None = None, page_size: PositiveInt = 256
    ) -> None:
        self.num_blocks = num_blocks
        self.page_size = page_size

    def check(self, decoding: Decoding, model: PreTrainedModel) -> None:
        """Refuse truncated sampling and replay of expert routes from the rollout.

        transformers returns neither the kept tokens of each step nor the routes.
        """
        del model
        if decoding.truncates:
            raise ConfigError(
                f"decoding is {decoding}: the log-probs of sampler_engine=transformers_batching "
                "are over a subset of the tokens that it does not return: set decoding=full, or "
                "sampler_engine=own"
            )
        if decoding.keep_routing == "rollout":
            raise ConfigError(
                "decoding.keep_routing is rollout, but sampler_engine=transformers_batching "
                "returns no routes: set keep_routing=proximal, or sampler_engine=own"
            )

    def update(self, version: int, model: PreTrainedModel) -> None:
        """No-op: the model is the policy's own."""

    def generate(self, request: SamplingRequest, model: PreTrainedModel) -> SampledResponses:
        """Sample with the request's seed; torch's global generator is restored."""
        settings = ContinuousBatchingConfig(
            return_logprobs=True,
            page_size=self.page_size,
            num_blocks=self._pages(request, model),
            seed=request.seed,
        )
        inputs = [list(prompt) for prompt in request.prompts for _ in range(request.group_size)]
        logger, attention = logging.getLogger(_LOGGER), model.config._attn_implementation
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            with torch.random.fork_rng():
                torch.manual_seed(request.seed)
                outputs = model.generate_batch(
                    inputs,
                    generation_config=_config(request),
                    continuous_batching_config=settings,
                )
        finally:
            logger.setLevel(level)
            # generate_batch sets an attention of its own, with pages.
            model.set_attn_implementation(attention)
        if len(outputs) != len(inputs):
            raise RlcompError(
                f"generate_batch gave {len(outputs)} responses of {len(inputs)}: see its log"
            )
        # In the order of the inputs, which generate_batch restores.
        return as_sampled([_response(output, request) for output in outputs.values()])

    def _pages(self, request: SamplingRequest, model: PreTrainedModel) -> int | None:
        """Return the number of pages of the cache; None: as many as memory holds."""
        if self.num_blocks is not None or model.device.type != "cpu":
            return self.num_blocks
        lengths = [len(prompt) + request.max_new_tokens for prompt in request.prompts]
        return request.group_size * sum(-(-length // self.page_size) for length in lengths)


def _config(request: SamplingRequest) -> GenerationConfig:
    decoding = request.decoding
    sampling: dict[str, Any] = {"do_sample": False}
    if decoding.temperature > 0:
        sampling = {
            "do_sample": True,
            "temperature": decoding.temperature,
            "top_k": decoding.top_k,
            "top_p": decoding.top_p,
            "min_p": decoding.min_p or None,
        }
    return GenerationConfig(
        **sampling,
        max_new_tokens=request.max_new_tokens,
        eos_token_id=list(request.stops),
        pad_token_id=request.stops[0],
        suppress_tokens=list(request.suppressed) or None,
    )


def _response(output: Any, request: SamplingRequest) -> Response:  # noqa: ANN401
    if output.error is not None:
        raise RlcompError(f"generate_batch failed: {output.error}")
    tokens = list(output.generated_tokens)
    greedy = request.decoding.temperature == 0
    log_probs = [0.0] * len(tokens) if greedy else list(output.logprobs)
    return Response(tokens, log_probs, tokens[-1] not in request.stops)
