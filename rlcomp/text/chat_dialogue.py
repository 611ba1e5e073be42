"""Episodes as chats: an observation is a message, in the frame of the chat template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import NO_OBSERVATION, Demonstration, Dialogue, Observation
from rlcomp.text.chat_template import Chat, ChatTemplate

Message = dict[str, Any]
Make = Callable[[list[Message]], Chat]

# Placeholder for the assistant's message in conversations that are rendered to read its frame.
SAID = "Zyzzyva"


class ChatDialogue:
    """The ids of an episode in a chat; new turns are appended as the template writes them.

    Behind a turn comes the text that the template writes from the end of an assistant's message on:
    the token that ends a turn, unless the policy sampled it, the observation as a message, and the
    opening of the assistant's next turn. The first observation is the end of the last message of
    the prompt.

    Args:
        template: writes it.
        make: makes a conversation of messages, with its system message and tools.
        asked: the messages of the prompt.
        role: of the messages that hold observations.
    """

    def __init__(self, template: ChatTemplate, make: Make, asked: list[Message], role: str) -> None:
        self.template = template
        self.make = make
        self.asked = asked
        self.role = role
        self._opened: dict[str, list[int]] = {}  # a group's episodes often begin alike

    def opening(self, observed: Observation) -> list[int]:
        """Return the ids of the prompt, with the first observation behind its last message.

        Raises:
            DataError: the template cannot render it, or the tokenizer cannot write it.
        """
        if observed.text not in self._opened:
            *before, last = self.asked
            chat = self.make([*before, {**last, "content": last["content"] + observed.text}])
            self._opened[observed.text] = chat.ids(rendered(chat))
        return [*self._opened[observed.text]]

    def reply(self, observed: Observation, said: Sequence[int]) -> list[int]:
        """Return the ids from the end of a turn up to the next one.

        Raises:
            DataError: the template cannot render the observation, or the tokenizer cannot write it.
        """
        chat = self.make(turns_of(SAID, self.role, observed.text))
        end, frame = behind(self.template, chat)
        # From a special token on, ids do not depend on the text before it.
        ids = chat.ids(frame)
        if self.template.stop_id in said[-1:]:
            return ids[1:]
        return [*chat.ids(end), *ids] if end else ids


def demonstration_in_turns(
    template: ChatTemplate, dialogue: Dialogue, turns: Sequence[str]
) -> Demonstration:
    """Return an episode to imitate: trained turns of the policy, and observations between them.

    The token that ends a turn is trained only behind the last turn: others may end by a stop text.

    Args:
        template: defines that token.
        dialogue: writes the episode.
        turns: turns and observations in turn; the policy's come first.

    Raises:
        DataError: a text cannot be written.
    """
    row = Demonstration.of(dialogue.opening(NO_OBSERVATION), [])
    for number, text in enumerate(turns):
        ids, by_policy = template.plain_ids(text), number % 2 == 0
        if not by_policy:
            ids = dialogue.reply(Observation(ids, text), ())
        row.ids.extend(ids)
        row.trained.extend([by_policy] * len(ids))
    return Demonstration([*row.ids, template.stop_id], [*row.trained, True])


def turns_of(answer: str, role: str, following: str) -> list[Message]:
    """Return a question, an answer, and the message that follows."""
    turns = (("user", "?"), ("assistant", answer), (role, following))
    return [{"role": name, "content": content} for name, content in turns]


def rendered(chat: Chat) -> str:
    """Return the text of a conversation up to the beginning of the assistant's turn."""
    return chat.text(len(chat.messages), due=True)


def behind(template: ChatTemplate, chat: Chat) -> tuple[str, str]:
    """Return the frame behind an assistant's message, split before the token that ends turns.

    Raises:
        DataError: the template leaves the message out, or cannot render it.
    """
    end, stop, frame = rendered(chat).partition(SAID)[2].partition(template.stop)
    if not stop:
        raise DataError(f"{template.name} leaves turns of the assistant out once others follow")
    return end, stop + frame
