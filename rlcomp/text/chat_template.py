"""Chat templates: messages as text and token ids, by the Jinja that comes with a tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlcomp.errors import ConfigError, DataError, in_one_line
from rlcomp.files.untrusted import read_bounded
from rlcomp.text.special_tokens import MARK, special_tokens
from rlcomp.text.token_bytes import special_ids
from rlcomp.text.tokenizer import encode_all
from rlcomp.text.untrusted_input import LARGEST_TEMPLATE, untrusted_call

# Limit of the characters that a template may write for one conversation.
_LONGEST_TEXT = 1 << 24
# Limit of the seconds that the rendering of a conversation may take.
_SECONDS = 10.0
# Characters of private use, one on each side of a placeholder of a spelled special token.
_DELIMITERS = [chr(code) for code in range(0xE000, 0xE100)]
# Placeholder for an assistant's message, a word that no template writes: it shows the text around
# the message.
ANSWER_PLACEHOLDER = "Zyzzyva"


class ChatTemplate:
    """A tokenizer's chat template.

    Messages are untrusted, and so is the template; transformers renders it in a sandbox. A special
    token spelled in a message stays text: the template does not see it, and it is tokenised
    separately. If no message spells one, the ids are those of
    ``tokenizer.apply_chat_template(messages, tokenize=True)``.

    Args:
        tokenizer: the policy's tokenizer; only the template writes its BOS token.
        file: path of a template; None: the tokenizer's own template.
        arguments: other variables of the template, such as ``{"enable_thinking": False}``.

    Attributes:
        source: the Jinja template; or several templates by name, of which transformers takes one.
        special: pattern of the texts that spell a special token.
        stop: the special token that the template writes after an assistant's message.

    Raises:
        ConfigError: there is no template, it cannot be used, or it ends turns with no token.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        file: str | None,
        arguments: Mapping[str, object],
    ) -> None:
        self.tokenizer = tokenizer
        self.arguments = dict(arguments)
        self.name = "the tokenizer's chat template" if file is None else f"the template {file}"
        self.source = tokenizer.chat_template if file is None else _read(file)
        if not self.source:
            raise ConfigError(
                "prompt is chat, but the tokenizer has no chat template (a base model?): take "
                f"an instruction-tuned model, or write one, {_remedy(tokenizer)}"
            )
        self._check_size()
        self.special = special_tokens(tokenizer)
        self._special_ids = special_ids(tokenizer)
        self.stop = self._find_stop()

    @property
    def stop_id(self) -> int:
        """Return the id of :attr:`stop`."""
        return int(self.tokenizer.convert_tokens_to_ids(self.stop))

    def chat(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = ()) -> Chat:
        """Return a conversation, ready to be rendered in this template."""
        return Chat(self, messages, tools)

    def render(
        self, messages: Sequence[Any], tools: Sequence[Any], add_generation_prompt: bool
    ) -> str:
        """Render messages as text, with ``add_generation_prompt`` up to the start of a response.

        DataError if the template refuses them, fails, or writes more than 16 million characters.
        """
        outcome = self._render_untrusted(list(messages), list(tools) or None, add_generation_prompt)
        if "error" in outcome:
            roles = ", ".join(str(message["role"]) for message in messages)
            raise DataError(
                f"{self.name} cannot render the turns {roles:.200} ({outcome['error']}): give it "
                "messages that it takes (some know no system turn, or want users and assistants to "
                "take turns), set prompt.arguments, or another template, prompt.template=FILE"
            )
        if not 0 < outcome["length"] <= _LONGEST_TEXT:
            raise DataError(
                f"{self.name} makes {outcome['length']} characters of a conversation: must be 1 to "
                f"{_LONGEST_TEXT:,}; give another, prompt.template=FILE"
            )
        return str(outcome["text"])

    def _render_untrusted(
        self, messages: list[Any], tools: list[Any] | None, add_generation_prompt: bool
    ) -> dict[str, Any]:
        """Return the result of :func:`rlcomp.text.template_rendering.render_template`."""
        source = self.source if isinstance(self.source, str) else None
        try:
            source = self.tokenizer.get_chat_template(source, tools)
        except ValueError as error:
            return {"error": in_one_line(error)}  # none of several templates fits
        arguments = {
            "source": source,
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
            "arguments": {**self.tokenizer.special_tokens_map, **self.arguments},
            "longest": _LONGEST_TEXT,
        }
        outcome: dict[str, Any] = untrusted_call(
            "rlcomp.text.template_rendering.render_template",
            json.loads(json.dumps(arguments, default=str)),
            seconds=_SECONDS,
            subject=f"{self.name}, of one conversation,",
            remedy="give another, prompt.template=FILE",
        )
        return outcome

    def ids(self, text: str) -> list[int]:
        """Return the token ids of text that the template wrote, special tokens included."""
        return encode_all(self.tokenizer, [text], split_special_tokens=False)[0]

    def plain_ids(self, text: str) -> list[int]:
        """Return the token ids of text that a person wrote, none of them special.

        DataError if the tokenizer can write it only with a special token.
        """
        for parts in ([text], [*text]):  # the whole text, else each character by itself
            rows = encode_all(self.tokenizer, parts, split_special_tokens=True)
            ids = [token for row in rows for token in row]
            if not self._special_ids & {*ids}:
                return ids
        raise DataError(
            f"the tokenizer can write {text!r} only as a special token: take it out of the data"
        )

    def _check_size(self) -> None:
        size = len(str(self.source))
        if size > LARGEST_TEMPLATE:
            raise ConfigError(
                f"{self.name} has {size:,} characters, more than {LARGEST_TEMPLATE:,}: give "
                "another, prompt.template=FILE"
            )

    def _find_stop(self) -> str:
        """Return the first special token after an assistant's message."""
        turns = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": ANSWER_PLACEHOLDER},
        ]
        try:
            text = self.render(turns, (), add_generation_prompt=False)
        except DataError as error:
            raise ConfigError(str(error)) from error
        _, answer, after = text.rpartition(ANSWER_PLACEHOLDER)
        stop = self.special.search(after) if answer else None
        if stop is None:
            raise ConfigError(
                f"{self.name} writes no special token after an assistant's turn, so that a policy "
                "would never stop: give a template that ends a turn, prompt.template=FILE"
            )
        return stop[0]


class Chat:
    """A conversation whose ``messages`` have placeholders for spelled special tokens."""

    def __init__(
        self,
        template: ChatTemplate,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any],
    ) -> None:
        self._template = template
        self._spelled: list[str] = []
        texts = [messages, tools, template.source]
        self._delimiter = (
            _unused_delimiter(texts) if template.special.search(_json(texts[:2])) else ""
        )
        self.messages: list[dict[str, Any]] = [self._escape(message) for message in messages]
        self._tools = [self._escape(tool) for tool in tools]
        self._placeholder = re.compile(f"{self._delimiter}([0-9]+){self._delimiter}")

    def text(self, count: int, *, add_generation_prompt: bool) -> str:
        """Render the first messages in the template, placeholders included."""
        return self._template.render(self.messages[:count], self._tools, add_generation_prompt)

    def prompt_text(self) -> str:
        """Render all messages up to the beginning of the assistant's turn."""
        return self.text(len(self.messages), add_generation_prompt=True)

    def unescape(self, text: str) -> str:
        """Return a text of this conversation with its placeholders resolved."""
        if not self._spelled:
            return text
        return self._placeholder.sub(lambda match: self._spelled[self._index(match[1])], text)

    def mark(self, text: str) -> str:
        """Return a text of this conversation, marked (:mod:`rlcomp.text.special_tokens`).

        DataError if the template splits the text that a person wrote.
        """
        pieces = self._pieces(text)
        pieces[1::2] = [f"{MARK}{piece}{MARK}" for piece in pieces[1::2]]
        return "".join(pieces)

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text of this conversation; spelled special tokens stay text.

        DataError if the template splits the text that a person wrote.
        """
        encoders = (self._template.ids, self._template.plain_ids)
        pieces = [*enumerate(self._pieces(text))]
        return [token for n, piece in pieces if piece for token in encoders[n % 2](piece)]

    def _pieces(self, text: str) -> list[str]:
        """Split a text at its placeholders; every second piece is a spelled special token."""
        if not self._spelled:
            return [text]
        pieces = self._placeholder.split(text)
        if any(self._delimiter in piece for piece in pieces[::2]):
            raise self._split_error()
        pieces[1::2] = [self._spelled[self._index(number)] for number in pieces[1::2]]
        return pieces

    def _index(self, number: str) -> int:
        """Return the index in a placeholder; a template may have changed its digits."""
        if int(number) >= len(self._spelled):
            raise self._split_error()
        return int(number)

    def _split_error(self) -> DataError:
        return DataError(
            f"{self._template.name} cuts a message within a special token that it spells, such as "
            f"{self._spelled[0]!r}: take that out of the data"
        )

    def _escape(self, value: Any) -> Any:  # noqa: ANN401
        if not self._delimiter:
            return value
        if isinstance(value, str):
            return self._template.special.sub(self._escape_match, value)
        if isinstance(value, Mapping):
            return {self._escape(key): self._escape(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._escape(part) for part in value]
        return value

    def _escape_match(self, match: re.Match[str]) -> str:
        self._spelled.append(match[0])
        return f"{self._delimiter}{len(self._spelled) - 1}{self._delimiter}"


def _remedy(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a command that writes a small template for the tokenizer, and its setting."""
    start, end, note = "{{ m.role }}: ", '{{ "\\n" }}', ""
    opening = "{% if add_generation_prompt %}assistant: {% endif %}"
    try:
        encode_all(tokenizer, ["system: user: assistant: \n"])
    except DataError:
        start = end = opening = ""
        note = "; it names no roles, since the tokenizer has no tokens for such words"
    stop = '{% if m.role == "assistant" %}{{ eos_token }}{% endif %}'
    template = (
        f"{{% for m in messages %}}{start}{{{{ m.content }}}}{stop}{end}{{% endfor %}}{opening}"
    )
    return f"echo '{template}' > chat.jinja, and set prompt.template=chat.jinja{note}"


def _read(file: str) -> str:
    try:
        return read_bounded(Path(file).expanduser(), LARGEST_TEMPLATE).decode()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"prompt.template {file!r} cannot be read ({in_one_line(error)}): name a file of a "
            "Jinja template, in UTF-8"
        ) from error


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _unused_delimiter(value: object) -> str:
    text = _json(value)
    free = next((delimiter for delimiter in _DELIMITERS if delimiter not in text), None)
    if free is None:
        raise DataError("a conversation holds 256 characters of private use: take them out")
    return free
