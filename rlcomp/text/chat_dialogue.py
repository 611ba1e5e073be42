"""Episodes as chats: an observation is a message, in the frame of the chat template."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence

from rlcomp.errors import ConfigError, DataError, RlcompWarning
from rlcomp.interfaces.prompt import NO_OBSERVATION, Demonstration, Dialogue, Message, Observation
from rlcomp.text.chat_spans import difference
from rlcomp.text.chat_template import ANSWER_PLACEHOLDER, Chat, ChatTemplate

MakeChat = Callable[[list[Message]], Chat]

# Placeholder for an observation, a word that no template writes.
_OBSERVATION_PLACEHOLDER = "Quokka"
_THOUGHT = "<think>\nHm.\n</think>\n\n"


class ChatDialogue:
    """The ids of an episode in a chat; new turns are appended as the template writes them.

    After a turn of the policy, these parts follow as the template writes them: the token that ends
    a turn (unless the policy sampled it), the observation as a message, and the opening of the
    assistant's next turn. The first observation is appended to the last message of the prompt.

    Args:
        template: renders the messages.
        make_chat: makes a conversation of messages, with its system message and tools.
        prompt_messages: the messages of the prompt.
        role: role of the messages that hold observations.
    """

    def __init__(
        self,
        template: ChatTemplate,
        make_chat: MakeChat,
        prompt_messages: list[Message],
        role: str,
    ) -> None:
        self.template = template
        self.make_chat = make_chat
        self.prompt_messages = prompt_messages
        self.role = role
        self._openings: dict[str, list[int]] = {}  # a group's episodes often begin alike

    def opening(self, observed: Observation) -> list[int]:
        """Return the ids of the prompt, with the first observation after its last message.

        DataError if the template cannot render it, or the tokenizer cannot write it.
        """
        if observed.text not in self._openings:
            *before, last = self.prompt_messages
            chat = self.make_chat([*before, {**last, "content": last["content"] + observed.text}])
            self._openings[observed.text] = chat.ids(chat.prompt_text())
        return [*self._openings[observed.text]]

    def reply(self, observed: Observation, turn_ids: Sequence[int]) -> list[int]:
        """Return the ids between a turn of the policy, ``turn_ids``, and its next turn.

        DataError as in :func:`frame_after_answer`, or if the tokenizer cannot write it.
        """
        chat = self.make_chat(turns_of(ANSWER_PLACEHOLDER, self.role, observed.text))
        end, frame = frame_after_answer(self.template, chat)
        # From a special token on, ids do not depend on the text before it.
        ids = chat.ids(frame)
        if self.template.stop_id in turn_ids[-1:]:
            return ids[1:]
        return [*chat.ids(end), *ids] if end else ids


def demonstration_in_turns(
    template: ChatTemplate, dialogue: Dialogue, turns: Sequence[str]
) -> Demonstration:
    """Return an episode to imitate: trained turns of the policy, and observations between them.

    ``turns`` alternate between the policy, which comes first, and observations. The token that ends
    a turn is trained only after the last turn: others may end by a stop text. DataError if a text
    cannot be written.
    """
    row = Demonstration.of(dialogue.opening(NO_OBSERVATION), [])
    for number, text in enumerate(turns):
        ids, by_policy = template.plain_ids(text), number % 2 == 0
        if not by_policy:
            ids = dialogue.reply(Observation(ids, text), ())
        row.ids.extend(ids)
        row.trained.extend([by_policy] * len(ids))
    return Demonstration([*row.ids, template.stop_id], [*row.trained, True])


def turns_of(answer: str, role: str, reply: str) -> list[Message]:
    """Return a question, an answer, and the message that follows."""
    turns = (("user", "?"), ("assistant", answer), (role, reply))
    return [{"role": name, "content": content} for name, content in turns]


def frame_after_answer(template: ChatTemplate, chat: Chat) -> tuple[str, str]:
    """Return the text between an assistant's message and the next one, in two parts.

    The first part is the text before the token that ends a turn, the second part begins with this
    token. The message is :data:`rlcomp.text.chat_template.ANSWER_PLACEHOLDER`.

    DataError if the template leaves the message out, or cannot render it.
    """
    text_after_answer = chat.prompt_text().partition(ANSWER_PLACEHOLDER)[2]
    end, stop, frame = text_after_answer.partition(template.stop)
    if not stop:
        raise DataError(
            f"{template.name} leaves out turns of the assistant when later turns follow"
        )
    return end, stop + frame


def check_appends(template: ChatTemplate, make_chat: MakeChat, role: str) -> None:
    """Check that a template appends to its earlier text, as the ids of episodes require.

    The check uses conversations of two answers, each with an observation after it. It warns of a
    template that drops the thoughts of earlier turns: in episodes they stay. ConfigError if the
    template rewrites anything else, or does not write messages of the ``role``.
    """
    for text in (ANSWER_PLACEHOLDER, _THOUGHT + ANSWER_PLACEHOLDER):
        try:
            chat, appended, whole = _three_turns(template, make_chat, role, text)
        except DataError as error:
            raise ConfigError(_refusal(role, str(error))) from error
        if appended == whole:
            continue
        new, later = difference(chat, appended, whole)
        change = f"when later turns follow ({new[:60]!r} becomes {later[:60]!r})"
        has_thought = text != ANSWER_PLACEHOLDER
        if not has_thought and _without_thoughts(appended) != _without_thoughts(whole):
            why = f"{template.name} rewrites turns {change}, and ids are only appended"
            raise ConfigError(_refusal(role, why))
        alternative = (
            "prompt.observations=tool, as some keep thoughts before what tools say, or "
            if role == "user"
            else ""
        )
        warnings.warn(
            f"{template.name} rewrites the thought of a turn {change}: in episodes it "
            "stays as the policy wrote it, in training and in evaluation, which a server of the "
            f"model will not do; use {alternative}a template that does not rewrite turns, "
            "prompt.template=FILE",
            RlcompWarning,
            stacklevel=2,
        )
        return


def _three_turns(
    template: ChatTemplate, make_chat: MakeChat, role: str, answer: str
) -> tuple[Chat, str, str]:
    """Return a chat up to the policy's third turn, its text as appended, and as one rendering.

    Question, then twice an answer and an observation. Episodes append to the prompt's ids; the one
    rendering shows what the template makes of the whole chat.
    """
    turns = turns_of(answer, role, _OBSERVATION_PLACEHOLDER)
    prompt = make_chat(turns[:1]).prompt_text()
    before = make_chat(turns).prompt_text().partition(answer)[0]
    frame_turns = turns_of(ANSWER_PLACEHOLDER, role, _OBSERVATION_PLACEHOLDER)
    end, frame = frame_after_answer(template, make_chat(frame_turns))
    if _OBSERVATION_PLACEHOLDER not in frame:
        raise DataError(f"{template.name} leaves messages of the role {role!r} out")
    # Mistral's template puts a space before an assistant's text, and the policy writes the space.
    space = before.removeprefix(prompt)
    answer = answer if space.strip() else space + answer
    chat = make_chat([*turns, *turns[1:]])
    return chat, prompt + (answer + end + frame) * 2, chat.prompt_text()


def _without_thoughts(text: str) -> str:
    """Remove thoughts and white space from a text."""
    return "".join(re.sub(r"(?s)<think>.*?</think>|<think>", "", text).split())


def _refusal(role: str, why: str) -> str:
    return (
        f"prompt.observations is {role!r}, but {why}; set prompt.observations=inline, which writes "
        "what an environment says as plain text into the assistant's turn, or give another "
        "template, prompt.template=FILE"
    )
