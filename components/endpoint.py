"""OpenAI-compatible endpoint of chat completions."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import SplitResult

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError, RlcompError, RlcompWarning
from rlcomp.interfaces.protocols import ModelReply
from rlcomp.metrics import record_total
from rlcomp.sandbox.http_post import NoAnswer, RequestRefused, api_address, post
from rlcomp.verify.chat_completion import Completion, completion

_PATH = "/chat/completions"
_MAX_BYTES = 1 << 22  # of an answer
# Statuses that refuse one request: it is too long, or its content is not allowed.
_REQUEST_ERRORS = (400, 413, 422)


class _EndpointAnswer(NamedTuple):
    """Completion of a prompt, or the reason for none; and the number of requests."""

    completion: Completion | None
    reason: str
    tries: int


class ChatEndpoint(metaclass=Checked):
    """Model behind ``POST url/chat/completions`` (OpenAI's protocol; vLLM, llama.cpp, Ollama).

    A prompt is the user's message of its own conversation. A request is repeated if there is no
    connection, no whole answer in time, a status 429 or 5xx, or an answer that is no completion. A
    prompt whose tries are used up, or whose request is refused (400, 413, 422), has no answer, and
    no reward is computed from it. Any other refusal (a wrong key, an unknown model) stops the run,
    and so does a server that never answers. Redirects and proxies are not followed.

    Records ``endpoint/requests``, ``endpoint/failed`` (prompts without an answer),
    ``endpoint/tokens`` (if the server counts them) and ``time/endpoint`` (seconds), summed over
    a step.

    Args:
        url: URL of the API, such as ``http://127.0.0.1:8000/v1``.
        model: the server's name of the model.
        key_variable: the environment variable that holds the key, or None. The key is sent to
            the server and shown nowhere else.
        workers: maximum number of concurrent requests.
        timeout: time limit of a request, with the whole answer, in seconds.
        tries: maximum number of requests for one prompt.
        pause: seconds before the second try; doubled before each further try.
        temperature: sampling temperature.
        system: the system message, or None.
        fields: further fields of a request, such as ``{seed: 0}``.
        allow_remote: whether ``url`` may name another machine.

    Raises:
        ConfigError: ``url`` is not an address, or is remote without ``allow_remote``; or the key is
            missing.
    """

    def __init__(
        self,
        *,
        url: NonEmptyText,
        model: NonEmptyText,
        key_variable: NonEmptyText | None = None,
        workers: PositiveInt = 8,
        timeout: PositiveFloat = 60.0,
        tries: PositiveInt = 3,
        pause: NonNegativeFloat = 1.0,
        temperature: NonNegativeFloat = 1.0,
        system: NonEmptyText | None = None,
        fields: dict[str, object] | None = None,
        allow_remote: bool = False,
    ) -> None:
        self.url = url
        self.model = model
        self.workers = workers
        self.timeout = timeout
        self.tries = tries
        self.pause = pause
        self.temperature = temperature
        self.system = system
        self.fields = dict(fields or {})
        self._address = api_address(url, "endpoint.url", _PATH)
        if not (allow_remote or _is_local(self._address.hostname or "")):
            raise ConfigError(
                f"endpoint.url={url}: not this machine (127.0.0.1, ::1, localhost): prompts and "
                "answers would leave it; set allow_remote=true if they may"
            )
        self._headers = _authorization(key_variable, self._address)
        self._answered = False
        self._warned = False

    def ask(
        self, prompts: Sequence[str], *, max_tokens: int, alternatives: int = 0
    ) -> list[ModelReply | None]:
        """Return a reply for each prompt; None if it has no answer.

        Args:
            prompts: the user's messages.
            max_tokens: largest number of tokens of an answer.
            alternatives: number of likely first tokens whose log-probs are requested; 0: none.

        Raises:
            RlcompError: the server refused a request for another reason than its content, or no
                prompt has ever been answered.
        """
        if not prompts:
            return []
        start = time.monotonic()
        scores = {"logprobs": True, "top_logprobs": alternatives} if alternatives else {}
        bodies = [self._body(prompt, {"max_tokens": max_tokens, **scores}) for prompt in prompts]
        pool = ThreadPoolExecutor(min(self.workers, len(bodies)))
        try:
            answers = list(pool.map(self._answer, bodies))
        finally:
            pool.shutdown(cancel_futures=True)
        self._record(answers, time.monotonic() - start)
        completions = [answer.completion for answer in answers]
        return [ModelReply(reply.text, reply.first) if reply else None for reply in completions]

    def _body(self, prompt: str, fields: Mapping[str, object]) -> bytes:
        system = [{"role": "system", "content": self.system}] if self.system else []
        messages = [*system, {"role": "user", "content": prompt}]
        request = {"model": self.model, "messages": messages, "temperature": self.temperature}
        # The user's ``fields`` come first, so that they cannot replace the entries after them.
        return json.dumps({**self.fields, **request, "n": 1, **fields}).encode()

    def _answer(self, body: bytes) -> _EndpointAnswer:
        reason = ""
        for number in range(self.tries):
            if number:
                time.sleep(self.pause * 2 ** (number - 1))
            try:
                return _EndpointAnswer(self._post(body), "", number + 1)
            except NoAnswer as error:
                reason = str(error)
            except RequestRefused as error:
                if error.status not in _REQUEST_ERRORS:
                    raise RlcompError(f"endpoint.url={self.url}: {error}") from error
                return _EndpointAnswer(None, str(error), number + 1)
        return _EndpointAnswer(None, reason, self.tries)

    def _post(self, body: bytes) -> Completion:
        answer = post(
            self._address,
            _PATH,
            body,
            seconds=self.timeout,
            max_bytes=_MAX_BYTES,
            headers=self._headers,
        )
        if len(answer) > _MAX_BYTES:
            raise NoAnswer(f"it answers with more than {_MAX_BYTES:,} bytes")
        try:
            return completion(answer)
        except ValueError as error:
            raise NoAnswer(f"it answers with no completion: {str(error)[:200]}") from error

    def _record(self, answers: Sequence[_EndpointAnswer], seconds: float) -> None:
        # A server that has never answered stops the run; a missing answer gives one warning.
        failed = [answer for answer in answers if answer.completion is None]
        completions = [answer.completion for answer in answers if answer.completion]
        record_total("endpoint/requests", sum(answer.tries for answer in answers))
        record_total("endpoint/failed", len(failed))
        record_total("endpoint/tokens", sum(reply.tokens for reply in completions))
        record_total("time/endpoint", seconds)
        if failed and not completions and not self._answered:
            raise RlcompError(
                f"endpoint.url={self.url}: none of {len(failed)} prompts was answered; the first: "
                f"{failed[0].reason}. Does the server run, with the model {self.model!r}?"
            )
        self._answered = self._answered or bool(completions)
        if failed and not self._warned:
            self._warned = True
            warnings.warn(
                f"endpoint.url={self.url}: {len(failed)} of {len(answers)} prompts have no answer; "
                f"the first: {failed[0].reason}. endpoint/failed counts further ones",
                RlcompWarning,
                stacklevel=3,
            )


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name may resolve to another machine
        return False


def _authorization(variable: str | None, address: SplitResult) -> dict[str, str]:
    """Return the header with the key of a variable; error messages never show the key."""
    if variable is None:
        return {}
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable):
        raise ConfigError(
            "endpoint.key_variable: must be the name of an environment variable, such as "
            "OPENAI_API_KEY, never the key, which would be in the run's record"
        )
    key = os.environ.get(variable, "")
    if not key or not key.isascii() or not key.isprintable():
        fault = "holds no key" if not key else "has characters that a key cannot have"
        raise ConfigError(f"endpoint.key_variable={variable}: this environment variable {fault}")
    if address.scheme != "https" and not _is_local(address.hostname or ""):
        raise ConfigError(
            "endpoint.url: use https, because the key would go to another machine as plain text"
        )
    return {"Authorization": f"Bearer {key}"}
