"""Checked replies of a completions server: sampled ids, log-probs and reasons of the end."""

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
    """Error of a reply that cannot be a row; a second request would give the same."""


@dataclass(frozen=True)
class Response:
    """Sampled response.

    Attributes:
        tokens: ids, at least one; includes the stop token that ended it.
        log_probs: log-prob of each token, nats.
        truncated: whether the limit ended it.
        sampling_mask: the set of tokens that each was drawn from, packed, shape
            ``[len(tokens), ceil(V / 8)]``, uint8; None if not requested.
        routes: the experts of each token, prompt included, shape ``[P + S, L, K]``, uint8; None if
            not requested.
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
        request: the request.
        prompt: the ids that were sent.
        versioned: whether the reply must hold ``weight_version``.

    Raises:
        WrongReplyError: the reply is wrong; names the option of the server that corrects it.
    """
    _check_version(reply, request.version, versioned)
    choices = reply.get("choices")
    if not isinstance(choices, list) or not all(isinstance(each, dict) for each in choices):
        raise WrongReplyError("it has no list of choices: is its API that of /v1/completions?")
    places = sorted(each.get("index", -1) for each in choices if type(each.get("index")) is int)
    if places != list(range(request.group_size)) or len(choices) != request.group_size:
        raise WrongReplyError(
            f"{request.group_size} responses were asked for, it has those numbered {places}"
        )
    responses = [
        _response(each, request, prompt) for each in sorted(choices, key=lambda each: each["index"])
    ]
    count, there = (
        _part(reply, "usage").get("completion_tokens"),
        sum(len(r.tokens) for r in responses),
    )
    if count is not None and count != there:
        raise WrongReplyError(f"it counts {count} sampled tokens and has the ids of {there}")
    return responses


def _check_version(reply: Mapping[str, Any], version: int, versioned: bool) -> None:
    elsewhere = _part(reply, "metadata").get("weight_version")  # the place in SGLang's replies
    actual = reply.get("weight_version", elsewhere)
    if actual is None and versioned:
        raise WrongReplyError(
            "it does not tell weight_version, so that nobody knows which weights sampled: set "
            "sampler_engine.versioned=false for a server that knows none (vLLM)"
        )
    if actual is not None and str(actual) != str(version):
        raise WrongReplyError(
            f"it is of weight_version {actual!r:.40}, and version {version} was asked: does "
            "another run use the server?"
        )


def _part(reply: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object of a reply; an empty one if it is no object."""
    value = reply.get(name)
    return value if isinstance(value, Mapping) else {}


def _response(
    choice: Mapping[str, Any], request: SamplingRequest, prompt: Sequence[int]
) -> Response:
    tokens, scores = choice.get("token_ids"), choice.get("logprobs")
    if not isinstance(tokens, list) or not tokens:
        raise WrongReplyError(
            "a choice has no token_ids: the server has to know return_token_ids (vLLM from 0.10.2 "
            "on); texts are not tokenised again, which may give other ids"
        )
    if choice.get("prompt_token_ids") not in (None, list(prompt)):
        raise WrongReplyError(
            "it read other prompt_token_ids than were sent: it must add no BOS and no template"
        )
    _check_ids(tokens, request)
    log_probs = _log_probs(
        scores.get("token_logprobs") if isinstance(scores, dict) else None, tokens
    )
    truncated = _truncated(choice.get("finish_reason"), tokens, request)
    greedy = request.decoding.temperature == 0
    sets = None
    if request.decoding.replays:
        bits = (len(tokens), -(-request.vocabulary // 8))
        sets = _packed(choice, "sampling_mask", bits, "decoding.replay", "=false decoding=full")
        if not bool(mask_contains(sets, torch.tensor(tokens)).all()):
            raise WrongReplyError(
                "its sampling_mask bars a token that it sampled: which set is it?"
            )
    # A greedy policy takes its token with probability 1.
    routes = None
    if request.routing is not None:
        shape = (len(prompt) + len(tokens), *request.routing)
        routes = _packed(choice, "routed_experts", shape, "decoding.keep_routing", "=proximal")
    return Response(tokens, [0.0] * len(tokens) if greedy else log_probs, truncated, sets, routes)


def _check_ids(tokens: Sequence[object], request: SamplingRequest) -> None:
    known, barred = range(request.vocabulary), {*request.suppressed}
    wrong = [one for one in tokens if type(one) is not int or one not in known]
    if wrong:
        raise WrongReplyError(
            f"it sampled token id {wrong[0]!r:.40}, the policy has {request.vocabulary}: does it "
            "serve another model?"
        )
    lost = [one for one in tokens if one in barred]
    if lost:
        raise WrongReplyError(
            f"it sampled token id {lost[0]}, which the policy never does: it must heed logit_bias"
        )


def _log_probs(log_probs: object, tokens: Sequence[int]) -> list[float]:
    if not isinstance(log_probs, list) or len(log_probs) != len(tokens):
        there = len(log_probs) if isinstance(log_probs, list) else "no"
        raise WrongReplyError(f"it has {len(tokens)} token_ids and {there} token_logprobs")
    for place, value in enumerate(log_probs):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise WrongReplyError(f"the log-prob of its token {place} is {value!r:.40}: no number")
        if not _LOWEST < value <= _ROUNDING:  # also true for NaN
            raise WrongReplyError(
                f"the log-prob of its token {place} is {value!r:.40}: not one of a sampled token "
                "(vLLM needs --logprobs-mode processed_logprobs)"
            )
    return [float(value) for value in log_probs]  # JSON writes 0 for 0.0


def _truncated(finish: object, tokens: Sequence[int], request: SamplingRequest) -> bool:
    """Return whether the limit ended a response; refuse one without a reason of its end."""
    ends = [place for place, token in enumerate(tokens) if token in request.stops]
    if ends and ends[0] < len(tokens) - 1:
        raise WrongReplyError(
            f"it went on behind stop token {tokens[ends[0]]}: it must heed stop_token_ids"
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


def _packed(
    choice: Mapping[str, Any], name: str, shape: tuple[int, ...], setting: str, otherwise: str
) -> Tensor:
    """Decode an entry of a choice from base64 to a tensor of bytes."""
    try:
        raw = base64.b64decode(choice.get(name, ""), validate=True)
    except (binascii.Error, TypeError, ValueError):
        raw = b""
    if len(raw) != math.prod(shape):
        raise WrongReplyError(
            f"a choice has no {name} of its tokens, which {setting} needs: the server has to know "
            f"return_{name} (rlcomp's own does); use {setting}{otherwise}"
        )
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(shape)


def as_sampled(responses: Sequence[Response]) -> SampledResponses:
    """Convert responses to the rows of a decode loop.

    Examples:
        >>> as_sampled([Response([5, 1], [-1.0, -2.0], False), Response([7], [-3.0], True)]).tokens
        tensor([[5, 1],
                [7, 0]])
    """
    steps = max(len(each.tokens) for each in responses)
    sets = [each.sampling_mask for each in responses if each.sampling_mask is not None]
    routes = [each.routes for each in responses if each.routes is not None]
    return SampledResponses(
        tokens=torch.tensor([_filled(each.tokens, steps) for each in responses]),
        log_probs=torch.tensor([_filled(each.log_probs, steps) for each in responses]),
        lengths=torch.tensor([len(each.tokens) for each in responses]),
        truncated=torch.tensor([each.truncated for each in responses]),
        sampling_mask=pad_sequence(sets, True) if sets else None,
        routes=pad_sequence(routes, True, UNKNOWN) if routes else None,
    )


def _filled(values: Sequence[Any], steps: int) -> list[Any]:
    return [*values, *[0] * (steps - len(values))]
