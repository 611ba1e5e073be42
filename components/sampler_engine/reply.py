"""Parser of the replies of a completions server: sampled ids and their log-probs."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rlcomp.engine.decoding import mask_contains
from rlcomp.engine.draw import SampledResponses
from rlcomp.engine.routing import UNKNOWN
from rlcomp.errors import RlcompError
from rlcomp.interfaces.sampler_engine import SamplingRequest

# A log-prob may exceed 0 by the rounding of a softmax in bfloat16, but not by more.
_ROUNDING = 0.01
# vLLM writes -9999 for a log-prob of -inf, because JSON has no infinity.
_LOWEST = -9999.0


class WrongReplyError(RlcompError):
    """Error of a malformed reply, which a second request would not mend."""


@dataclass(frozen=True)
class Response:
    """Sampled response.

    Attributes:
        tokens: ids, at least one, with the stop token.
        log_probs: log-prob of each token, nats.
        truncated: whether the limit of tokens ended the response.
        sampling_mask: the candidate set of each token, packed, shape
            ``[len(tokens), ceil(V / 8)]``, uint8; None if not requested.
        routes: indices of the ``K`` experts in each of ``L`` layers, for every token of prompt and
            response, shape ``[len(prompt) + len(tokens), L, K]``, uint8; None if not requested.
    """

    tokens: list[int]
    log_probs: list[float]
    truncated: bool
    sampling_mask: Tensor | None = None
    routes: Tensor | None = None


def read_responses(
    reply: Mapping[str, Any], request: SamplingRequest, prompt: Sequence[int], *, versioned: bool
) -> list[Response]:
    """Return the responses to one prompt, in the order of their index.

    Args:
        reply: the JSON of ``POST /v1/completions`` with ``return_token_ids``.
        request: the answered request.
        prompt: ids of the prompt.
        versioned: whether the reply must hold ``weight_version``.

    Raises:
        WrongReplyError: the reply is wrong; the message names the server's option that corrects it.
    """
    _check_version(reply, request.version, versioned)
    choices = reply.get("choices")
    if not isinstance(choices, list) or not all(isinstance(each, dict) for each in choices):
        raise WrongReplyError("it has no list of choices: is its API that of /v1/completions?")
    indices = sorted(choice["index"] for choice in choices if type(choice.get("index")) is int)
    if indices != list(range(request.group_size)) or len(choices) != request.group_size:
        raise WrongReplyError(
            f"{request.group_size} responses were requested, it has those numbered {indices}"
        )
    ordered = sorted(choices, key=lambda choice: choice["index"])
    responses = [_parse_choice(choice, request, prompt) for choice in ordered]
    count = _object(reply, "usage").get("completion_tokens")
    total = sum(len(response.tokens) for response in responses)
    if count is not None and count != total:
        raise WrongReplyError(f"it counts {count} sampled tokens and has the ids of {total}")
    return responses


def _check_version(reply: Mapping[str, Any], version: int, versioned: bool) -> None:
    nested = _object(reply, "metadata").get("weight_version")  # SGLang's form
    actual = reply.get("weight_version", nested)
    if actual is None and versioned:
        raise WrongReplyError(
            "it has no weight_version, so that the weights that sampled are unknown: set "
            "sampler_engine.versioned=false for a server without versions (vLLM)"
        )
    if actual is not None and str(actual) != str(version):
        raise WrongReplyError(
            f"it has weight_version {actual!r:.40}, not the requested {version}: does another run "
            "use the server?"
        )


def _object(reply: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an entry of a reply; an empty mapping if it is no object."""
    value = reply.get(name)
    return value if isinstance(value, Mapping) else {}


def _parse_choice(
    choice: Mapping[str, Any], request: SamplingRequest, prompt: Sequence[int]
) -> Response:
    tokens = choice.get("token_ids")
    if not isinstance(tokens, list) or not tokens:
        raise WrongReplyError(
            "a choice has no token_ids: the server must support return_token_ids (vLLM from 0.10.2 "
            "on); to tokenise its text again may give other ids"
        )
    if choice.get("prompt_token_ids") not in (None, list(prompt)):
        raise WrongReplyError(
            "it read other prompt_token_ids than were sent: it must add no BOS and no template"
        )
    _check_ids(tokens, request)
    log_probs = _parse_log_probs(_object(choice, "logprobs").get("token_logprobs"), tokens)
    truncated = _is_truncated(choice.get("finish_reason"), tokens, request)
    if request.decoding.temperature == 0:  # a greedy policy has probability 1
        log_probs = [0.0] * len(tokens)
    masks = routes = None
    if request.decoding.replays:
        shape: tuple[int, ...] = (len(tokens), -(-request.vocabulary // 8))
        masks = _decode_bytes(
            choice, "sampling_mask", shape, "decoding.replay", "=false decoding=full"
        )
        if not bool(mask_contains(masks, torch.tensor(tokens)).all()):
            raise WrongReplyError("its sampling_mask excludes a token that it sampled")
    if request.routing is not None:
        shape = (len(prompt) + len(tokens), *request.routing)
        routes = _decode_bytes(
            choice, "routed_experts", shape, "decoding.keep_routing", "=proximal"
        )
    return Response(tokens, log_probs, truncated, masks, routes)


def _check_ids(tokens: Sequence[object], request: SamplingRequest) -> None:
    for token in tokens:
        if type(token) is not int or token not in range(request.vocabulary):
            raise WrongReplyError(
                f"it sampled token id {token!r:.40}, the policy has {request.vocabulary}: does it "
                "serve another model?"
            )
    if suppressed := {*request.suppressed}.intersection(tokens):
        raise WrongReplyError(
            f"it sampled the suppressed token id {min(suppressed)}: it must heed logit_bias"
        )


def _parse_log_probs(log_probs: object, tokens: Sequence[int]) -> list[float]:
    if not isinstance(log_probs, list) or len(log_probs) != len(tokens):
        count = len(log_probs) if isinstance(log_probs, list) else "no"
        raise WrongReplyError(f"it has {len(tokens)} token_ids and {count} token_logprobs")
    for index, value in enumerate(log_probs):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise WrongReplyError(f"the log-prob of its token {index} is {value!r:.40}: no number")
        if not _LOWEST < value <= _ROUNDING:  # also true for NaN
            raise WrongReplyError(
                f"the log-prob of its token {index} is {value!r:.40}: not one of a sampled token "
                "(vLLM needs --logprobs-mode processed_logprobs)"
            )
    return [float(value) for value in log_probs]  # JSON writes 0 for 0.0


def _is_truncated(finish: object, tokens: Sequence[int], request: SamplingRequest) -> bool:
    """Return whether the limit of tokens ended a response, not a stop token.

    Raises:
        WrongReplyError: something else ended the response, or it goes on after a stop token.
    """
    ends = [index for index, token in enumerate(tokens) if token in request.stops]
    if ends and ends[0] < len(tokens) - 1:
        raise WrongReplyError(
            f"it sampled more after stop token {tokens[ends[0]]}: it must heed stop_token_ids"
        )
    if len(tokens) > request.max_new_tokens:
        raise WrongReplyError(
            f"a response has {len(tokens)} tokens: it must heed max_tokens, which is "
            f"{request.max_new_tokens}"
        )
    if ends:
        return False
    if finish == "length" and len(tokens) == request.max_new_tokens:
        return True
    raise WrongReplyError(
        f"a response of {len(tokens)} tokens (finish_reason {finish!r:.40}, max_tokens "
        f"{request.max_new_tokens}) has no stop token at its end: token_ids must hold EOS, and "
        "nothing else may end a response"
    )


def _decode_bytes(
    choice: Mapping[str, Any], name: str, shape: tuple[int, ...], setting: str, fallback: str
) -> Tensor:
    """Decode an entry of a choice from base64 to a tensor of bytes.

    Args:
        choice: the choice.
        name: key of the entry.
        shape: shape of the tensor.
        setting: the config key that requests the entry, for the message.
        fallback: what follows the key in a command line that does without the entry.

    Raises:
        WrongReplyError: the entry is missing or has another size.
    """
    try:
        raw = base64.b64decode(choice.get(name, ""), validate=True)
    except (binascii.Error, TypeError, ValueError):
        raw = b""
    if len(raw) != math.prod(shape):
        raise WrongReplyError(
            f"a choice has no {name} of its tokens for {setting}: the server must support "
            f"return_{name}, like rlcomp's own; or set {setting}{fallback}"
        )
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(shape)


def as_sampled(responses: Sequence[Response]) -> SampledResponses:
    """Convert responses to the rows of a decode loop, padded with 0 and routes with UNKNOWN.

    Examples:
        >>> as_sampled([Response([5, 1], [-1.0, -2.0], False), Response([7], [-3.0], True)]).tokens
        tensor([[5, 1],
                [7, 0]])
    """
    masks = [each.sampling_mask for each in responses if each.sampling_mask is not None]
    routes = [each.routes for each in responses if each.routes is not None]
    return SampledResponses(
        tokens=pad_sequence([torch.tensor(each.tokens) for each in responses], True),
        log_probs=pad_sequence([torch.tensor(each.log_probs) for each in responses], True),
        lengths=torch.tensor([len(each.tokens) for each in responses]),
        truncated=torch.tensor([each.truncated for each in responses]),
        sampling_mask=pad_sequence(masks, True) if masks else None,
        routes=pad_sequence(routes, True, UNKNOWN) if routes else None,
    )
