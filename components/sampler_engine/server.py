"""Sampling by a server of the completions API (vLLM, or rlcomp's own), with token ids."""

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

from components.sampler_engine.reply import Response, WrongReplyError, as_sampled, read_responses
from components.sampler_engine.weight_folder import check_no_adapters, drop_others, write_weights
from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import SampledResponses
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.files.untrusted import parse_json
from rlcomp.interfaces.sampler_engine import SamplingRequest
from rlcomp.metrics import record_total
from rlcomp.sandbox.http_post import NoAnswer, RequestRefused, api_address, check_connection, post
from rlcomp.seed import named_seed

_T = TypeVar("_T")

# Largest number of bytes of a reply: for each token (an id, a log-prob, and its text twice), and
# for everything else.
_TOKEN_BYTES, _OTHER_BYTES = 512, 1 << 20


class ServerEngine(metaclass=Checked):
    """Engine that samples by ``POST url/completions``, with a request for each prompt.

    Prompts and responses are token ids, never text; each response token has its log-prob. A request
    is repeated with the same seed if there is no connection, if the whole reply does not arrive
    within ``timeout``, if it is not JSON, or if its status is 429 or 5xx. The run stops after
    ``tries`` such failures. A malformed reply stops the run at once
    (:func:`components.sampler_engine.reply.read_responses`).

    The weights of a version are sent before its first request. The engine writes the folder
    ``folder/version-N``, then sends the requests of ``update``, in which this folder and ``N``
    replace ``{folder}`` and ``{version}``.

    Records ``sampler_engine/requests``, ``time/sampler_engine`` and ``time/weights`` (seconds),
    summed over a step.

    Args:
        url: URL of the API, ``http://127.0.0.1:8000/v1``; the path is added if it is missing.
        model: the server's name of the model.
        folder: folder of the weights, under the same path on the server.
        update: requests that make the server read the folder, in order: ``path`` from the server's
            root, and ``body``. Empty: its weights never change.
        versioned: whether replies hold ``weight_version``.
        workers: requests at a time.
        timeout: time limit of a whole reply, in seconds.
        tries: maximum number of requests for one prompt.
        pause: seconds before the second try; doubled for each further one.

    Raises:
        ConfigError: ``url`` is not an address, or ``update`` is not a list of requests.
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
        self._address = api_address(url, "sampler_engine.url", "/completions")
        self.url = self._address.geturl()
        self.model = model
        self.folder = folder
        self.calls = [_parse_call(entry) for entry in update]
        self.versioned = versioned
        self.workers = workers
        self.timeout = timeout
        self.tries = tries
        self.pause = pause
        self._root = self._address._replace(path=self._address.path.removesuffix("/v1"))
        self._server_version: int | None = None

    def check(self, decoding: Decoding, model: PreTrainedModel) -> None:
        """Refuse a decoding or a model that the server cannot serve.

        Truncated sampling needs the replay of its candidate sets (``decoding.replay``); weights
        with adapters cannot be sent.

        Raises:
            ConfigError: the message names the setting.
        """
        if self.calls:
            check_no_adapters(model)
        if decoding.truncates and not decoding.replay:
            raise ConfigError(
                f"decoding is {decoding}: the log-probs of sampler_engine.url={self.url} are over "
                "a subset of the tokens that it does not return; set decoding=full, or "
                "decoding.replay=true with a server that supports return_sampling_mask"
            )

    def reach(self) -> None:
        """Connect to the server once, before the run.

        Raises:
            ConfigError: there is no server.
        """
        try:
            check_connection(self._address)
        except NoAnswer as error:
            raise ConfigError(
                f"sampler_engine.url is {self.url}: no server answers ({error}): start it before "
                "the run (docs/engines.md), or set sampler_engine.url=..."
            ) from error

    def update(self, version: int, model: PreTrainedModel) -> None:
        """Send the weights of a version, unless the server has them."""
        if not self.calls or version == self._server_version:
            return
        start = time.monotonic()
        self._server_version = None  # after a failure the server may have old weights, or a mix
        folder = Path(self.folder).absolute()
        weights = write_weights(folder, version, model)
        for path, template in self.calls:
            body = _fill(template, {"{folder}": str(weights), "{version}": str(version)})
            self._retry(f"take version {version}", partial(self._post_update, path, body))
        drop_others(folder, version)
        self._server_version = version
        record_total("time/weights", time.monotonic() - start)

    def _post_update(self, path: str, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        answer = post(self._root, path, data, seconds=self.timeout, max_bytes=_OTHER_BYTES)
        reply = _parse_reply(answer) if answer.strip() else {}
        if isinstance(reply, dict) and reply.get("success") is False:
            raise RequestRefused(f"{path}: {reply.get('message')!r:.200}", 200)

    def generate(self, request: SamplingRequest, model: PreTrainedModel) -> SampledResponses:
        """Request the responses to each prompt."""
        del model
        start = time.monotonic()
        numbers = range(len(request.prompts))
        pool = ThreadPoolExecutor(min(self.workers, len(numbers)))
        try:
            groups = list(pool.map(partial(self._responses, request), numbers))
        finally:
            pool.shutdown(cancel_futures=True)
        record_total("sampler_engine/requests", len(numbers))
        record_total("time/sampler_engine", time.monotonic() - start)
        return as_sampled([response for group in groups for response in group])

    def _responses(self, request: SamplingRequest, number: int) -> list[Response]:
        prompt = list(request.prompts[number])
        data = json.dumps(self._body(request, number)).encode()
        tokens = request.group_size * (request.max_new_tokens + len(prompt))
        # Base64 writes 4 characters for 3 bytes of routes and masks; 2 for each byte leave room.
        token_bytes = _TOKEN_BYTES + 2 * math.prod(request.routing or (0,))
        token_bytes += -(-request.vocabulary // 8) * 2 if request.decoding.replays else 0
        limit = _OTHER_BYTES + tokens * token_bytes

        def send() -> list[Response]:
            answer = post(
                self._address, "/completions", data, seconds=self.timeout, max_bytes=limit
            )
            if len(answer) > limit:
                raise WrongReplyError(f"it answers with more than {limit:,} bytes")
            reply = _parse_reply(answer)
            if not isinstance(reply, dict):
                raise WrongReplyError("it answers with no JSON object")
            return read_responses(reply, request, prompt, versioned=self.versioned)

        return self._retry(f"answer prompt {number}", send)

    def _body(self, request: SamplingRequest, number: int) -> dict[str, Any]:
        decoding = request.decoding
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": list(request.prompts[number]),
            "n": request.group_size,
            "max_tokens": request.max_new_tokens,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "top_k": decoding.top_k or -1,  # vLLM's and SGLang's value for all tokens
            "min_p": decoding.min_p,
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": list(request.stops),
            "logit_bias": {str(token): -100 for token in request.suppressed},
            "seed": named_seed(request.seed, f"prompt {number}"),
        }
        if decoding.replays:
            body["return_sampling_mask"] = True
        if request.routing is not None:
            body["return_routed_experts"] = True
        return body

    def _retry(self, task: str, send: Callable[[], _T]) -> _T:
        """Return the result of a request; repeat it if a second try may succeed."""
        reason = ""
        for number in range(self.tries):
            if number:
                time.sleep(self.pause * 2 ** (number - 1))
            try:
                return send()
            except NoAnswer as error:
                reason = str(error)
            except (RequestRefused, WrongReplyError) as error:
                raise RlcompError(f"sampler_engine.url={self.url}: to {task}: {error}") from error
        raise RlcompError(
            f"sampler_engine.url={self.url}: it did not {task} in {self.tries} tries "
            f"(sampler_engine.timeout={self.timeout:g} s): {reason}. Does the server run? The same "
            "command continues from the last checkpoint"
        )


def _parse_reply(reply: bytes) -> Any:  # noqa: ANN401
    try:
        return parse_json(reply)
    except (ValueError, RecursionError) as error:
        raise NoAnswer(f"it answers with no JSON: {str(error)[:200]}") from error


def _parse_call(entry: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the path and the body of an entry of ``update``."""
    if {*entry} != {"path", "body"} or not str(entry["path"]).startswith("/"):
        raise ConfigError(
            f"sampler_engine.update: {entry!r:.100} must be a path, which begins with /, and a body"
        )
    return str(entry["path"]), entry["body"]


def _fill(value: Any, placeholders: Mapping[str, str]) -> Any:  # noqa: ANN401
    """Return a value with its placeholders replaced."""
    if isinstance(value, str):
        for placeholder, text in placeholders.items():
            value = value.replace(placeholder, text)
        return value
    if isinstance(value, Mapping):
        return {key: _fill(item, placeholders) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_fill(item, placeholders) for item in value]
    return value
