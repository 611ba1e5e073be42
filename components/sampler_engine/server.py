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

from components.sampler_engine.reply import (
    Response,
    WrongReplyError,
    as_sampled,
    read_responses,
)
from components.sampler_engine.weight_folder import check_whole, drop_others, write_weights
from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import SampledResponses
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.files.untrusted import parse_json
from rlcomp.interfaces.sampler_engine import SamplingRequest
from rlcomp.metrics import record_total
from rlcomp.sandbox.http_post import NoAnswer, RequestRefused, api_address, connect, post
from rlcomp.seed import named_seed

_T = TypeVar("_T")

# Most bytes of a reply per token (an id, a log-prob and its text twice), and of the rest.
_TOKEN_BYTES, _REST = 512, 1 << 20


class ServerEngine(metaclass=Checked):
    """Engine that samples by ``POST url/completions``, with a request for each prompt.

    Prompts and responses are token ids, never text; each response token has its log-prob. A request
    is repeated with the same seed, so that results do not change, if there is no connection, no
    whole reply within ``timeout``, a status 429 or 5xx, or no JSON. Without a reply after ``tries``
    the run stops. A reply with wrong rows stops the run at once
    (:func:`components.sampler_engine.reply.read_responses`).

    The weights of a version are sent before its first request: a folder ``folder/version-N``, then
    the requests of ``update`` with its ``{folder}`` and ``{version}``.

    Records ``sampler_engine/requests``, ``time/sampler_engine`` and ``time/weights`` (seconds),
    summed over a step.

    Args:
        url: URL of the API, ``http://127.0.0.1:8000/v1``; the path is added if it is missing.
        model: the server's name of the model.
        folder: folder of the weights; the server must see it under the same path.
        update: requests that make the server read the folder, in order: ``path`` from the server's
            root, and ``body``. Empty: its weights never change.
        versioned: whether replies hold ``weight_version``.
        workers: requests at a time.
        timeout: seconds until the whole reply of a request must be there.
        tries: most requests for one prompt.
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
        """Refuse truncated sampling without replayed sets, and updates with adapters."""
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
            ConfigError: there is no server.
        """
        try:
            connect(self._where)
        except NoAnswer as error:
            raise ConfigError(
                f"sampler_engine.url is {self.url}: nobody is there ({error}), tried before the "
                "run: start the server (docs/engines.md), or set sampler_engine.url=..."
            ) from error

    def update(self, version: int, model: PreTrainedModel) -> None:
        """Send the weights of a version, unless the server has them."""
        if not self.calls or version == self._served:
            return
        start = time.monotonic()
        self._served = None  # after a failure the server may have old weights, or a mix
        folder = Path(self.folder).absolute()
        place = write_weights(folder, version, model)
        for path, body in self.calls:
            filled = _filled(body, {"{folder}": str(place), "{version}": str(version)})
            self._asked(f"take version {version}", partial(self._update, path, filled))
        drop_others(folder, version)
        self._served = version
        record_total("time/weights", time.monotonic() - start)

    def _update(self, path: str, body: Mapping[str, Any]) -> None:
        sent = json.dumps(body).encode()
        answer = post(self._root, path, sent, seconds=self.timeout, max_bytes=_REST)
        reply = _json(answer) if answer.strip() else {}
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
        sent = json.dumps(self._body(request, number)).encode()
        rows = request.group_size * request.max_new_tokens
        each = _TOKEN_BYTES + 2 * math.prod(request.routing or (0,))
        each += -(-request.vocabulary // 8) * 2 if request.decoding.replays else 0
        most = _REST + (rows + len(prompt) * request.group_size) * each

        def once() -> list[Response]:
            answer = post(self._where, "/completions", sent, seconds=self.timeout, max_bytes=most)
            if len(answer) > most:
                raise WrongReplyError(f"it answers with more than {most:,} bytes")
            reply = _json(answer)
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
        """Return the result of a request; repeat it if a second try may succeed."""
        why = ""
        for number in range(self.tries):
            if number:
                time.sleep(self.pause * 2 ** (number - 1))
            try:
                return once()
            except NoAnswer as error:
                why = str(error)
            except (RequestRefused, WrongReplyError) as error:
                raise RlcompError(f"sampler_engine.url={self.url}: to {what}: {error}") from error
        raise RlcompError(
            f"sampler_engine.url={self.url}: it did not {what} in {self.tries} tries "
            f"(sampler_engine.timeout={self.timeout:g} s): {why}. Does the server run? The same "
            "command goes on from the last checkpoint"
        )


def _json(reply: bytes) -> Any:  # noqa: ANN401
    try:
        return parse_json(reply)
    except (ValueError, RecursionError) as error:
        raise NoAnswer(f"it answers with no JSON: {str(error)[:200]}") from error


def _call(entry: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return path and body of a request of ``update``."""
    if {*entry} != {"path", "body"} or not str(entry["path"]).startswith("/"):
        raise ConfigError(
            f"sampler_engine.update: {entry!r:.100} must be a path, which begins with /, and a body"
        )
    return str(entry["path"]), entry["body"]


def _filled(value: Any, words: Mapping[str, str]) -> Any:  # noqa: ANN401
    """Return a value with its placeholders replaced."""
    if isinstance(value, str):
        for word, other in words.items():
            value = value.replace(word, other)
        return value
    if isinstance(value, Mapping):
        return {key: _filled(each, words) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_filled(each, words) for each in value]
    return value
