"""Routes of the endpoint: paths and bodies to calls of the queue, and answers to replies."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcomp.endpoint.reply import RawToolCallCache, choice_of_turn, reply_body, reply_events
from rlcomp.endpoint.request import CompletionRequest, parse_body, read_chat, read_completion
from rlcomp.endpoint.request_queue import QueuedRequest, RequestQueue
from rlcomp.endpoint.server import HttpReply, RefusedError
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import PromptFormat

_LARGEST_REWARD = 3.4e38  # float32 can hold it


class Routes:
    """Routes by path; a path begins with the secret of an episode.

    Args:
        queue: the queue of calls.
        prompt: encodes conversations.
        table: the bytes of each token.
        decodings: distributions of the policy that may be requested, the default one first.
        max_new_tokens: maximum number of tokens of an answer.
        context: maximum number of tokens of a row; None for no limit.
    """

    def __init__(
        self,
        queue: RequestQueue,
        prompt: PromptFormat,
        table: Sequence[bytes],
        *,
        decodings: tuple[Decoding, ...],
        max_new_tokens: int,
        context: int | None,
    ) -> None:
        self.queue, self.prompt, self.table = queue, prompt, table
        self.decodings = decodings
        self.max_new_tokens, self.context = max_new_tokens, context
        self.secrets = [secrets.token_urlsafe(24) for _ in queue.traces]
        self._episodes = {secret: number for number, secret in enumerate(self.secrets)}
        self._raw_tool_calls = [RawToolCallCache() for _ in queue.traces]
        self._posts: dict[str, Callable[[int, Mapping[str, Any]], HttpReply]] = {
            "chat/completions": self._chat,
            "completions": self._complete,
            "reward": self._add_reward,
            "begin": self._begin,
            "end": self._end,
        }

    def path(self, episode: int) -> str:
        """Return the base path of an episode's API."""
        return f"/{self.secrets[episode]}/v1"

    def admits(self, path: str) -> bool:
        """Return whether a path begins with the secret of an episode and ``v1``."""
        return self._split(path)[0] is not None

    def _split(self, path: str) -> tuple[int | None, str]:
        """Return the episode of a path, None if there is none, and the rest of the path."""
        empty, secret, version, name = [*path.partition("?")[0].split("/", 3), "", "", ""][:4]
        episode = self._episodes.get(secret)
        return (None, "") if empty or version != "v1" else (episode, name)

    def __call__(self, method: str, path: str, body: bytes) -> HttpReply:
        """Return the reply to a request.

        Raises:
            RefusedError: the path does not exist, or the request is invalid.
        """
        episode, name = self._split(path)
        if episode is None:
            raise RefusedError("the path does not exist", 404, "not_found")
        if method == "GET" and name == "models":
            models = [{"id": "policy", "object": "model", "created": 0, "owned_by": "policy"}]
            return _json({"object": "list", "data": models})
        if name not in self._posts:
            raise RefusedError(f"there is no path {name[:60]!r}", 404, "not_found")
        if method != "POST":
            raise RefusedError("use POST", 405)
        return self._posts[name](episode, parse_body(body))

    def _begin(self, episode: int, body: Mapping[str, Any]) -> HttpReply:
        del body
        self.queue.begin(episode)
        self._raw_tool_calls[episode] = RawToolCallCache()
        return _json({})

    def _end(self, episode: int, body: Mapping[str, Any]) -> HttpReply:
        reward = None if body.get("reward") is None else _number(body["reward"])
        failed = str(body.get("failed") or "")[:1000].encode("utf-8", "replace").decode()
        self.queue.end(episode, reward=reward, failed=failed)
        return _json({})

    def _add_reward(self, episode: int, body: Mapping[str, Any]) -> HttpReply:
        self.queue.add_reward(episode, _number(body.get("reward")))
        return _json({})

    def _chat(self, episode: int, body: Mapping[str, Any]) -> HttpReply:
        request = read_chat(body, self.decodings)
        messages = self._raw_tool_calls[episode].as_sampled(request.messages)

        def text() -> str:
            return self.prompt.conversation(messages, request.tools)

        return self._reply(episode, request, text, leads=self.prompt.continues)

    def _complete(self, episode: int, body: Mapping[str, Any]) -> HttpReply:
        request = read_completion(body, self.decodings)
        texts = self.queue.traces[episode].texts
        return self._reply(episode, request, lambda: texts.mark(request.prompt), leads=True)

    def _reply(
        self, episode: int, request: CompletionRequest, text: Callable[[], str], *, leads: bool
    ) -> HttpReply:
        trace = self.queue.count_call(episode)
        try:
            context = trace.context(text(), leads=leads)
        except DataError as error:
            raise RefusedError(str(error), code="cannot_be_written") from error
        limit = min(self._limit(len(context.ids)), request.max_tokens or self.max_new_tokens)
        call = QueuedRequest(episode, trace, context, limit, request.stops, request.n, request.seed)
        turns = self.queue.wait_for_answers(call)
        name = secrets.token_hex(8)
        answers = [
            choice_of_turn(each, request, self.table, f"{name}_{choice}")
            for choice, each in enumerate(turns)
        ]
        for each, turn in zip(answers, turns, strict=True):
            self._raw_tool_calls[episode].store(each, turn, self.table)
        body_of_reply = reply_body(request, answers, len(context.ids), name)
        if request.stream:
            return HttpReply(reply_events(request, body_of_reply), "text/event-stream")
        return _json(body_of_reply)

    def _limit(self, tokens: int) -> int:
        """Return the maximum number of tokens of an answer after a context.

        Raises:
            RefusedError: the context is full.
        """
        if self.context is None:
            return self.max_new_tokens
        if tokens >= self.context:
            raise RefusedError(
                f"the context has {tokens} tokens, and a row of the policy at most {self.context} "
                "with the answer: shorten the conversation",
                code="context_length_exceeded",
            )
        return min(self.max_new_tokens, self.context - tokens)


def _number(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or abs(value) > _LARGEST_REWARD
    ):
        raise RefusedError(f"reward is {value!r:.60}: must be a number, finite in float32")
    return float(value)


def _json(body: object) -> HttpReply:
    return HttpReply(json.dumps(body).encode())
