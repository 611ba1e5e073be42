"""Sampling by a server of the completions API: vLLM, or rlcomp's own; ids in and ids out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from transformers import PreTrainedModel

from components.sampler_engine.reply import (
    Response,
    WrongReplyError,
    as_sampled,
    read_responses,
)
from components.sampler_engine.weight_folder import check_whole, drop_others, write_weights
from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import Sampled
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.files.untrusted import parse_json
from rlcomp.interfaces.sampler_engine import SamplingRequest
from rlcomp.metrics import record_total
from rlcomp.sandbox.http_post import Lost, Refused, api_address, connect, post
from rlcomp.seed import named_seed

_T = TypeVar("_T")

# Bytes of a reply: of each token an id, a log-prob and its text twice; and of the rest.
_TOKEN_BYTES, _REST = 512, 1 << 20


class ServerEngine(metaclass=Checked):
    """Responses by ``POST url/completions``, a request for each prompt.

    A prompt is sent as ids and comes back as ids with the log-prob of each; never as text. No
    connection, no whole reply within ``timeout``, 429, 5xx and what is no JSON are tried again,
    with the seed of the request, so that nothing depends on it; without a reply after ``tries`` the
    run stops. A reply that cannot be the asked rows stops it at once
    (:func:`components.sampler_engine.reply.read_responses`).

    The weights of a version are handed over before its first request: a folder
    ``folder/version-N``, then the requests of ``update``, in which ``{folder}`` and ``{version}``
    stand for it.

    Records ``sampler_engine/requests``, ``time/sampler_engine`` and ``time/weights`` (seconds),
    summed over a step.

    Args:
        url: of the API: ``http://127.0.0.1:8000/v1``; that of the server alone is completed.
        model: as the server calls it.
        folder: where weights are written; the server has to see it under the same path.
        update: requests that make the server read the folder, in order: ``path``, from the
            server's root, and ``body``. Empty: its weights stay as they are.
        versioned: whether replies tell ``weight_version``.
        workers: requests under way at a time.
        timeout: of a request, in seconds, until its whole reply is there.
        tries: requests for one prompt at most.
        pause: seconds before the second try; doubled for each further one.

    Raises:
        ConfigError: ``url`` is no address, or ``update`` is no list of requests.
    """

    def __init__(
        self,
        *,
        url: NonEmptyText,
        model: NonEmptyText = "policy",
        folder: NonEmptyText,
        update: list[dict[str, Any]],
        versioned: bool = True,
        workers: PositiveInt = 32,
        timeout: PositiveFloat = 600.0,
        tries: PositiveInt = 3,
        pause: NonNegativeFloat = 1.0,
    ) -> None:
        self._where = api_address(url, "sampler_engine.url", "/completions")
        self.url = self._where.geturl()
        self.model = model
        self.folder = folder
        self.calls = [_call(each) for each in update]
        self.versioned = versioned
        self.workers = workers
        self.timeout = timeout
        self.tries = tries
        self.pause = pause
        self._root = self._where._replace(path=self._where.path.removesuffix("/v1"))
        self._served: int | None = None

    def check(self, decoding: Decoding, model: PreTrainedModel) -> None:
        """Refuse truncated sampling whose sets are not replayed, and adapters to hand over."""
        if self.calls:
            check_whole(model)
        if decoding.truncates and not decoding.replay:
            raise ConfigError(
                f"decoding is {decoding}, and sampler_engine.url={self.url} samples: it tells "
                "log-probs over the tokens that it kept, and not which these are; use "
                "decoding=full, or decoding.replay=true with a server that knows "
                "return_sampling_mask"
            )

    def reach(self) -> None:
        """Connect to the server once, before the run.

        Raises:
            ConfigError: nobody is there.
        """
        try:
            connect(self._where)
        except Lost as error:
            raise ConfigError(
                f"sampler_engine.url is {self.url}: nobody is there ({error}), tried before the "
                "run: start the server (docs/engines.md), or set sampler_engine.url=..."
            ) from error

    def update(self, version: int, model: PreTrainedModel) -> None:
        """Hand over the weights of a version, unless the server has them."""
        if not self.calls or version == self._served:
            return
        started = time.monotonic()
        self._served = None  # whatever fails: the server may have the old weights, or some of each
        folder = Path(self.folder).absolute()
        place = write_weights(folder, version, model)
        for path, body in self.calls:
            told = _filled(body, {"{folder}": str(place), "{version}": str(version)})
            self._asked(f"take version {version}", partial(self._update, path, told))
        drop_others(folder, version)
        self._served = version
        record_total("time/weights", time.monotonic() - started)

    def _update(self, path: str, body: Mapping[str, Any]) -> None:
        sent = json.dumps(body).encode()
        told = post(self._root, path, sent, seconds=self.timeout, most=_REST)
        reply = _json(told) if told.strip() else {}
        if isinstance(reply, dict) and reply.get("success") is False:
            raise Refused(f"{path}: {reply.get('message')!r:.200}", 200)

    def generate(self, request: SamplingRequest, model: PreTrainedModel) -> Sampled:
        """Ask for the responses to each prompt."""
        del model
        started = time.monotonic()
        numbers = range(len(request.prompts))
        pool = ThreadPoolExecutor(min(self.workers, len(numbers)))
        try:
            found = list(pool.map(partial(self._responses, request), numbers))
        finally:
            pool.shutdown(cancel_futures=True)
        record_total("sampler_engine/requests", len(numbers))
        record_total("time/sampler_engine", time.monotonic() - started)
        return as_sampled([response for group in found for response in group])

    def _responses(self, request: SamplingRequest, number: int) -> list[Response]:
        prompt = list(request.prompts[number])
        sent = json.dumps(self._body(request, number)).encode()
        rows = request.group_size * request.max_new_tokens
        each = _TOKEN_BYTES + 2 * math.prod(request.routing or (0,))
        each += -(-request.vocabulary // 8) * 2 if request.decoding.replays else 0
        most = _REST + (rows + len(prompt) * request.group_size) * each

        def once() -> list[Response]:
            told = post(self._where, "/completions", sent, seconds=self.timeout, most=most)
            if len(told) > most:
                raise WrongReplyError(f"it answers with more than {most:,} bytes")
            reply = _json(told)
            if not isinstance(reply, dict):
                raise WrongReplyError("it answers with no JSON object")
            return read_responses(reply, request, prompt, versioned=self.versioned)

        return self._asked(f"answer prompt {number}", once)

    def _body(self, request: SamplingRequest, number: int) -> dict[str, Any]:
        decoding = request.decoding
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": list(request.prompts[number]),
            "n": request.group_size,
            "max_tokens": request.max_new_tokens,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "top_k": decoding.top_k or -1,  # OpenAI has none, vLLM and SGLang write -1 for all
            "min_p": decoding.min_p,
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": list(request.stops),
            "logit_bias": {str(one): -100 for one in request.suppressed},
            "seed": named_seed(request.seed, f"prompt {number}"),
        }
        if decoding.replays:
            body["return_sampling_mask"] = True
        if request.routing is not None:
            body["return_routed_experts"] = True
        return body

    def _asked(self, what: str, once: Callable[[], _T]) -> _T:
        """What a request gives, tried again where another time it may."""
        why = ""
        for number in range(self.tries):
            if number:
                time.sleep(self.pause * 2 ** (number - 1))
            try:
                return once()
            except Lost as error:
                why = str(error)
            except (Refused, WrongReplyError) as error:
                raise RlcompError(f"sampler_engine.url={self.url}: to {what}: {error}") from error
        raise RlcompError(
            f"sampler_engine.url={self.url}: it did not {what} in {self.tries} tries "
            f"(sampler_engine.timeout={self.timeout:g} s): {why}. Does the server run? The same "
            "command goes on from the last checkpoint"
        )


def _json(told: bytes) -> Any:  # noqa: ANN401
    try:
        return parse_json(told)
    except (ValueError, RecursionError) as error:
        raise Lost(f"it answers with no JSON: {str(error)[:200]}") from error


def _call(told: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A request of ``update``."""
    if {*told} != {"path", "body"} or not str(told["path"]).startswith("/"):
        raise ConfigError(
            f"sampler_engine.update: {told!r:.100} must be a path, which begins with /, and a body"
        )
    return str(told["path"]), told["body"]


def _filled(value: Any, words: Mapping[str, str]) -> Any:  # noqa: ANN401
    """A value in which words that stand for others are replaced."""
    if isinstance(value, str):
        for word, other in words.items():
            value = value.replace(word, other)
        return value
    if isinstance(value, Mapping):
        return {key: _filled(each, words) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_filled(each, words) for each in value]
    return value
