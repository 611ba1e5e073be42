"""Chat prompts: conversations rendered by a chat template, and their trained tokens."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import Checked, NonEmptyText, Unbuilt
from rlcomp.columns import CONVERSATION
from rlcomp.errors import ConfigError, DataError, RlcompWarning
from rlcomp.interfaces.policy import Policy, StopsAtTokens
from rlcomp.interfaces.prompt import (
    Columns,
    Demonstration,
    Dialogue,
    Message,
    PromptFormat,
    Response,
)
from rlcomp.interfaces.tool import Tool
from rlcomp.text.chat_dialogue import ChatDialogue, check_appends, demonstration_in_turns
from rlcomp.text.chat_spans import Spans, assistant_spans
from rlcomp.text.chat_template import Chat, ChatTemplate
from rlcomp.text.prompt import PlainDialogue, TextPrompt
from rlcomp.text.tool_schemas import tool_schemas

_THOUGHT_END = "</think>"
# Keys of a message that hold its reasoning, for transformers.
_REASONING = ("reasoning_content", "thinking", "reasoning")


class ChatPrompt(metaclass=Checked):
    """Prompts in the tokenizer's chat template, up to the beginning of the assistant's turn.

    A text prompt becomes a user's message. A conversation
    (:func:`rlcomp.data.conversations.conversation_of`) keeps its turns; the prompt's text replaces
    the text of its last message. A response ends with the token that the template writes after an
    assistant's turn.

    In demonstrations every assistant turn is trained, from the end of its header to the token that
    ends it. Some templates rewrite a turn when later turns follow (Qwen3 and DeepSeek drop its
    thought). Such a turn is not the text that the policy would write there: it is not trained, and
    a warning says so once.

    Args:
        tokenizer: tokenizer of the policy.
        template: a Jinja file that replaces the tokenizer's own template; at most 256 KiB.
        system: the system message of conversations that have none.
        thinking: ``keep`` the assistant's thoughts as they are in the data, or ``strip`` them
            (``<think>...</think>``, ``reasoning_content``). Some templates write an empty thought
            into the last turn only; with ``strip`` earlier turns are trained without it.
        arguments: other variables of the template, such as ``{enable_thinking: false}``.
        observations: form of an environment's observation in an episode: a message of the ``user``
            or of a ``tool``, as the template writes it, with the assistant's header; or plain
            text within the assistant's turn, ``inline``.
        tools: the environment's tools by name. The template gets them as JSON schemas
            (:func:`rlcomp.text.tool_schemas.tool_schemas`) if a conversation has none of its own.
            Calls have the form that ``tool_protocol=json`` reads.

    Raises:
        ConfigError: there is no template, it cannot be used, it writes no token at the end of a
            turn, or it does not write the tools.
    """

    continues = False

    def __init__(
        self,
        *,
        tokenizer: PreTrainedTokenizerBase,
        template: NonEmptyText | None = None,
        system: str | None = None,
        thinking: Literal["keep", "strip"] = "keep",
        arguments: dict[str, Any] | None = None,
        observations: Literal["user", "tool", "inline"] = "user",
        tools: dict[str, Callable[..., Tool] | Unbuilt] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.system = system
        self.thinking = thinking
        self.template = ChatTemplate(tokenizer, template, arguments or {})
        self.observations = observations
        self.tools = tool_schemas(tools or {})
        self._check_tools()
        self._warned = False
        # Whether the template was checked for episodes: without tools (False), with tools (True).
        self._checked = set[bool]()

    def _check_tools(self) -> None:
        """Refuse a template that does not write the tools."""
        question = [{"role": "user", "content": "?"}]
        if self.tools and self.template.render(question, self.tools, True) == self.template.render(
            question, (), True
        ):
            raise ConfigError(
                f"prompt.tools: {self.template.name} leaves tools out: describe them in "
                "prompt.system, or give a template that lists them, prompt.template=FILE"
            )

    def check_policy(self, policy: Policy) -> None:
        """Raise ConfigError if a policy does not stop at the token that ends a turn."""
        eos = int(policy.tokenizer.eos_token_id)
        stops = policy.stops if isinstance(policy, StopsAtTokens) else [eos]
        if self.template.stop_id not in stops:
            names = ", ".join(map(repr, policy.tokenizer.convert_ids_to_tokens([*stops])))
            raise ConfigError(
                f"{self.template.name} ends a turn by {self.template.stop!r}, but the policy stops "
                f"at {names} only, and would continue: set policy.stop_tokens="
                f"['{self.template.stop}'], or give a template that ends turns by EOS, "
                "prompt.template=FILE"
            )

    def render(self, texts: Sequence[str], columns: Columns) -> list[str]:
        """Return the prompts as the policy reads them; DataError if one cannot be rendered."""
        chats = map(self._prompt_chat, texts, columns)
        return [chat.unescape(chat.prompt_text()) for chat in chats]

    def encode(self, texts: Sequence[str], columns: Columns) -> list[list[int]]:
        """Return the token ids of the prompts.

        DataError if the template cannot render a conversation, or the tokenizer cannot write it.
        """
        chats = map(self._prompt_chat, texts, columns)
        return [chat.ids(chat.prompt_text()) for chat in chats]

    def conversation(self, messages: Sequence[Message], tools: Sequence[Message]) -> str:
        """Return a conversation up to the beginning of the assistant's turn, as marked text.

        Marks: :mod:`rlcomp.text.special_tokens`. DataError if the template cannot render it.
        """
        chat = self._chat([*messages], {"tools": [*tools]})
        return chat.mark(chat.prompt_text())

    def dialogues(self, texts: Sequence[str], columns: Columns) -> list[Dialogue]:
        """Return a dialogue of an episode for each prompt; warn of a template that drops thoughts.

        ConfigError if the template rewrites turns when later turns follow, or does not write
        observations.
        """
        return [self._dialogue(*row) for row in zip(texts, columns, strict=True)]

    def demonstrations(
        self, texts: Sequence[str], responses: Sequence[Response], columns: Columns
    ) -> list[Demonstration]:
        """Return whole conversations, in which the assistant's turns are trained.

        The response to a text is the assistant's message. The response to a conversation is its own
        last turn. A response in turns is written like an episode; of its stop tokens only the last
        is trained.

        ConfigError as in :meth:`dialogues`, for a response in turns. DataError if a conversation
        has no response, or as in :meth:`encode`.
        """
        rows = zip(texts, responses, columns, strict=True)
        return [self._demonstration(*row) for row in rows]

    def _demonstration(
        self, text: str, response: Response, columns: Mapping[str, object]
    ) -> Demonstration:
        conversation = _conversation(columns)
        if not isinstance(response, str):
            dialogue = self._dialogue(text, columns)
            return demonstration_in_turns(self.template, dialogue, response)
        completion = [{"role": "assistant", "content": response}]
        if conversation is not None:
            completion = _messages(conversation, "completion")
        if not completion:
            raise DataError(
                f"the conversation that ends in {text[-60:]!r} has no response to imitate: let "
                "'messages' end in a turn of the assistant, add a column 'completion', or imitate "
                "nothing: '~phases.warm_start' '~demonstrations'"
            )
        chat = self._chat([*self._prompt_messages(text, conversation), *completion], conversation)
        spans = assistant_spans(self.template, chat, unchanged_only=self.thinking == "keep")
        self._warn_of_rewriting(spans)
        return spans.demonstration(chat)

    def _dialogue(self, text: str, columns: Mapping[str, object]) -> Dialogue:
        if self.observations == "inline":
            return PlainDialogue(self.encode([text], [columns])[0])
        conversation = _conversation(columns)
        make_chat = partial(self._chat, conversation=conversation)
        has_tools = bool((conversation and conversation.get("tools")) or self.tools)
        if has_tools not in self._checked:
            check_appends(self.template, make_chat, self.observations)
            self._checked.add(has_tools)
        messages = self._prompt_messages(text, conversation)
        return ChatDialogue(self.template, make_chat, messages, self.observations)

    def _prompt_chat(self, text: str, columns: Mapping[str, object]) -> Chat:
        conversation = _conversation(columns)
        return self._chat(self._prompt_messages(text, conversation), conversation)

    def _chat(self, messages: list[Message], conversation: Mapping[str, Any] | None) -> Chat:
        if self.system is not None and messages[0]["role"] not in ("system", "developer"):
            messages = [{"role": "system", "content": self.system}, *messages]
        if self.thinking == "strip":
            messages = [_without_thought(message) for message in messages]
        tools = () if conversation is None else conversation.get("tools", ())
        return self.template.chat(messages, tools or self.tools)

    def _prompt_messages(self, text: str, conversation: Mapping[str, Any] | None) -> list[Message]:
        if conversation is None:
            return [{"role": "user", "content": text}]
        *before, last = _messages(conversation, "messages")
        return [*before, {**last, "content": text}]

    def _warn_of_rewriting(self, spans: Spans) -> None:
        """Warn once of a template that rewrites earlier turns."""
        if spans.rewritten is None or self._warned:
            return
        self._warned = True
        new, later = spans.rewritten
        strip = "prompt.thinking=strip, which takes thoughts out, or " * (self.thinking == "keep")
        warnings.warn(
            f"{self.template.name} rewrites a turn of the assistant when later turns "
            f"follow ({new[:60]!r} becomes {later[:60]!r}): such turns are not trained, only those "
            f"in the form that the policy writes; use {strip}a template that does not rewrite "
            "turns, prompt.template=FILE",
            RlcompWarning,
            stacklevel=2,
        )


def prompt_format_of_model(
    prompt: PromptFormat | None, tokenizer: PreTrainedTokenizerBase
) -> PromptFormat:
    """Return the prompt format; by default the tokenizer's chat template, or plain text."""
    if prompt is not None:
        return prompt
    has_template = bool(tokenizer.chat_template)
    return ChatPrompt(tokenizer=tokenizer) if has_template else TextPrompt(tokenizer=tokenizer)


def _conversation(columns: Mapping[str, object]) -> Mapping[str, Any] | None:
    conversation = columns.get(CONVERSATION)
    if conversation is None:
        return None
    if not isinstance(conversation, Mapping) or not conversation.get("messages"):
        raise DataError(
            f"an example has a text and a column {CONVERSATION!r}, {conversation!r:.60}: "
            f"rename it, or set task.prompt_field={CONVERSATION} if that holds the messages"
        )
    return conversation


def _messages(conversation: Mapping[str, Any], name: str) -> list[Message]:
    return [dict(message) for message in conversation.get(name, ())]


def _without_thought(message: Message) -> Message:
    if message["role"] != "assistant":
        return message
    stripped = {key: value for key, value in message.items() if key not in _REASONING}
    content = stripped.get("content")
    if isinstance(content, str) and _THOUGHT_END in content:
        stripped["content"] = content.rpartition(_THOUGHT_END)[2].lstrip()
    return stripped
