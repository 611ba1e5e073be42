"""Plain text prompts: the policy continues a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rlcomp.arguments import Checked
from rlcomp.columns import CONVERSATION
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import (
    Columns,
    Demonstration,
    Dialogue,
    Message,
    Observation,
    PromptFormat,
    Response,
)
from rlcomp.text.answer_tokens import answer_ids
from rlcomp.text.special_tokens import mark_special_tokens, special_tokens
from rlcomp.text.tokenizer import encode_prompts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PlainDialogue:
    """Episode as one text: an observation is appended to the ids before it."""

    def __init__(self, prompt_ids: Sequence[int]) -> None:
        self.prompt_ids = list(prompt_ids)

    def opening(self, observed: Observation) -> list[int]:
        """Return the ids of the prompt and the first observation."""
        return self.prompt_ids + observed.ids

    def reply(self, observed: Observation, turn_ids: Sequence[int]) -> list[int]:
        """Return the ids of the observation."""
        del turn_ids
        return observed.ids


class TextPrompt(metaclass=Checked):
    """Prompts without template (:func:`rlcomp.text.tokenizer.encode_prompts`); EOS ends a response.

    Args:
        tokenizer: the policy's tokenizer.
    """

    continues = True

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.special = special_tokens(tokenizer)

    def check_policy(self, policy: Policy) -> None:
        """Do nothing: every policy stops at EOS."""

    def render(self, texts: Sequence[str], columns: Columns) -> list[str]:
        """Return the texts."""
        return list(texts)

    def encode(self, texts: Sequence[str], columns: Columns) -> list[list[int]]:
        """Return the token ids of the texts.

        ConfigError if an example is a conversation; DataError if the tokenizer cannot write a text.
        """
        for row in columns:
            _refuse_conversation(row)
        return encode_prompts(self.tokenizer, texts)

    def conversation(self, messages: Sequence[Message], tools: Sequence[Message]) -> str:
        """Concatenate the marked contents of messages; DataError if there are tools."""
        if tools:
            raise DataError(
                "the policy reads plain text (prompt=text), which has no place for tools: set "
                "prompt=chat, or describe them in a message"
            )
        text = "".join(str(message.get("content") or "") for message in messages)
        return mark_special_tokens(self.special, text)

    def dialogues(self, texts: Sequence[str], columns: Columns) -> list[Dialogue]:
        """Return encoders that concatenate turns and observations; errors as in :meth:`encode`."""
        return [PlainDialogue(ids) for ids in self.encode(texts, columns)]

    def demonstrations(
        self, texts: Sequence[str], responses: Sequence[Response], columns: Columns
    ) -> list[Demonstration]:
        """Return prompt, response and EOS; the last two are trained. Errors as in :meth:`encode`.

        Prompt, response and the turns of a response are tokenised separately, as in sampling.
        Turns of the environment are not trained. An EOS spelled in a response is text.

        Examples:
            >>> from rlcomp.text.tokenizer import character_tokenizer
            >>> text = TextPrompt(tokenizer=character_tokenizer(characters="ab"))
            >>> text.demonstrations(["a"], ["b"], [{}])
            [Demonstration(ids=[2, 3, 1], trained=[False, True, True])]
            >>> text.demonstrations(["a"], [("b", "a", "b")], [{}])[0].trained
            [False, True, False, True, True]
        """
        heads, eos = self.encode(texts, columns), int(self.tokenizer.eos_token_id)
        # Policy and environment take turns; the policy comes first.
        turns = [(response,) if isinstance(response, str) else response for response in responses]
        pieces = iter(answer_ids(self.tokenizer, [text for response in turns for text in response]))
        rows = []
        for head, response in zip(heads, turns, strict=True):
            row = Demonstration.of(head, [])
            for number in range(len(response)):
                ids = next(pieces)
                row.ids.extend(ids)
                row.trained.extend([number % 2 == 0] * len(ids))
            rows.append(Demonstration([*row.ids, eos], [*row.trained, True]))
        return rows


def resolve_prompt_format(
    prompt: PromptFormat | None, tokenizer: PreTrainedTokenizerBase
) -> PromptFormat:
    """Return the prompt format; plain text by default."""
    return TextPrompt(tokenizer=tokenizer) if prompt is None else prompt


def _refuse_conversation(row: Mapping[str, object]) -> None:
    value = row.get(CONVERSATION)
    if isinstance(value, Mapping) and "messages" in value:
        raise ConfigError(
            "prompt is text, but the task's rows are conversations (messages of roles): use "
            "prompt=chat, which renders them by the tokenizer's chat template"
        )
