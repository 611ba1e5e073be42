"""Completions server of a policy: prompts as ids, responses as ids with their log-probs."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import AutoModelForCausalLM

from rlcomp.endpoint.request import parse_body
from rlcomp.endpoint.server import HttpLimits, HttpReply, RefusedError, Server, serving
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import RlcompError
from rlcomp.files.progress_bars import no_progress_bars
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.pretrained import check_filled, read_config, read_weights

_LIMITS = HttpLimits(body=64 * 2**20, seconds=600.0)
_SUPPRESSED = -100  # value of ``logit_bias`` that suppresses a token
# Maximum number of tokens of a request's rows, with prompts: a bound of its memory.
_MOST_TOKENS = 2**22
_REMEDY = "write one with model.save_pretrained"


@contextlib.contextmanager
def serving_policy(policy: LanguageModel) -> Iterator[Server]:
    """Serve a policy on a port of this machine's loopback within a context.

    Args:
        policy: ``POST /weights`` changes its weights.

    Examples:
        >>> from rlcomp.testing import tiny_policy
        >>> with serving_policy(tiny_policy()) as server:
        ...     server.address.startswith("http://127.0.0.1:")
        True
    """
    with serving(Completions(policy), _LIMITS) as server:
        yield server


class Completions:
    """Route of ``POST /v1/completions`` and ``POST /weights``; handles one request at a time.

    A request of completions has ``prompt`` (ids), ``n``, ``max_tokens``, ``seed``,
    ``stop_token_ids``, and optionally ``temperature``, ``top_p``, ``top_k``, ``min_p``,
    ``logit_bias`` (-100 suppresses an id), ``return_sampling_mask`` and ``return_routed_experts``.
    Responses are bitwise equal to responses of :meth:`LanguageModel.generate` with a generator of
    this seed. A choice has ``sampling_mask`` ``[tokens of the response, V/8]`` and
    ``routed_experts`` ``[tokens of the row, L, E]`` as base64 of uint8, if they are requested.
    ``POST /weights`` with ``folder`` and ``version`` loads the weights of a transformers folder;
    replies have the version as ``weight_version``.

    Args:
        policy: samples the responses.
    """

    def __init__(self, policy: LanguageModel) -> None:
        self.policy = policy
        self.version = str(policy.version)
        self._lock = threading.Lock()
        self._posts = {"/v1/completions": self._complete, "/weights": self._load}

    def admits(self, path: str) -> bool:
        """Return whether the path exists."""
        return path in self._posts

    def __call__(self, method: str, path: str, body: bytes) -> HttpReply:
        """Return the reply to a request.

        Raises:
            RefusedError: the request is invalid.
        """
        if method != "POST":
            raise RefusedError("use POST", 405)
        with self._lock:
            try:
                answer = self._posts[path](parse_body(body))
            except KeyError as error:
                raise RefusedError(f"the request has no {error}") from error
            except (TypeError, ValueError, AttributeError, OverflowError, RlcompError) as error:
                raise RefusedError(f"{type(error).__name__}: {error}") from error
        return HttpReply(json.dumps(answer).encode())

    def _complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if {*body["stop_token_ids"]} != {*self.policy.stops}:
            raise RefusedError(f"stop_token_ids must be the policy's, {list(self.policy.stops)}")
        prompt = body["prompt"]
        if body["n"] * (len(prompt) + body["max_tokens"]) > _MOST_TOKENS:
            raise RefusedError(
                f"n * (prompt tokens + max_tokens) is above {_MOST_TOKENS}: lower n or max_tokens"
            )
        rows = self.policy.generate(
            [prompt],
            group_size=body["n"],
            max_new_tokens=body["max_tokens"],
            decoding=_decoding(body),
            suppressed_tokens=_suppressed(body.get("logit_bias") or {}),
            generator=torch.Generator().manual_seed(int(body["seed"])),
        )
        choices = [self._choice(number, rows[number]) for number in range(len(rows))]
        sampled = int(rows["response_mask"].sum())
        return {
            "object": "text_completion",
            "model": body.get("model"),
            "weight_version": self.version,
            "choices": [{**each, "prompt_token_ids": prompt} for each in choices],
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": sampled},
        }

    def _choice(self, number: int, row: TensorDict) -> dict[str, Any]:
        response = row["response_mask"]
        tokens = row["tokens"][response].tolist()
        choice = {
            "index": number,
            "text": self.policy.tokenizer.decode(tokens),
            "token_ids": tokens,
            "logprobs": {"token_logprobs": row["rollout_log_probs"][response].tolist()},
            "finish_reason": "length" if bool(row["truncated"]) else "stop",
        }
        if "sampling_mask" in row.keys():
            packed = row["sampling_mask"][response].cpu().numpy().tobytes()
            choice["sampling_mask"] = base64.b64encode(packed).decode()
        if "routed_experts" in row.keys():
            packed = row["routed_experts"][row["attention_mask"]].cpu().numpy().tobytes()
            choice["routed_experts"] = base64.b64encode(packed).decode()
        return choice

    def _load(self, body: Mapping[str, Any]) -> dict[str, Any]:
        folder, model = str(Path(body["folder"])), self.policy.model
        if not Path(folder, "config.json").is_file():
            raise RefusedError(f"there is no model in {folder}")
        message, dtype = f"no weights in {folder}", str(model.dtype).removeprefix("torch.")
        with no_progress_bars():
            config = read_config(folder, message, _REMEDY)
            loaded, report = read_weights(
                AutoModelForCausalLM, folder, config, message, _REMEDY, dtype
            )
        check_filled(folder, report)
        state = loaded.state_dict()
        # Checked before any weight is loaded: a partly loaded model would still answer.
        if _shapes(state) != _shapes(model.state_dict()):
            raise RefusedError(f"the weights in {folder} are of another model")
        model.load_state_dict(state)
        self.version = str(body["version"])
        return {"success": True, "weight_version": self.version}


def _shapes(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: each.shape for name, each in state.items()}


def _decoding(body: Mapping[str, Any]) -> Decoding:
    return Decoding(
        temperature=float(body.get("temperature", 1.0)),
        top_k=max(0, body.get("top_k", 0)),
        top_p=float(body.get("top_p", 1.0)),
        min_p=float(body.get("min_p", 0.0)),
        replay=bool(body.get("return_sampling_mask", False)),
        keep_routing="rollout" if body.get("return_routed_experts") else "none",
    )


def _suppressed(bias: Mapping[str, float]) -> list[int]:
    if any(value != _SUPPRESSED for value in bias.values()):
        raise RefusedError(f"logit_bias must be {_SUPPRESSED}, which suppresses a token")
    return [int(token) for token in bias]
