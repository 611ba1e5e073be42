"""Episodes as chats: what an environment says is a message, in the frame of the chat template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import SILENT, Demonstration, Dialogue, Observed
from rlcomp.text.chat_template import Chat, ChatTemplate

Message = dict[str, Any]
Make = Callable[[list[Message]], Chat]

# What the assistant says in conversations that are rendered to see what comes behind it.
SAID = "Zyzzyva"


class ChatDialogue:
    """The ids of an episode in a chat: appended to as the template goes on.

    Behind a turn comes what the template writes from the end of an assistant's message on: the
    token that ends a turn, unless the policy sampled it, the observation as a message, and what
    opens the assistant's next turn. What the environment says first is the end of the last message
    of the prompt.

    Args:
        template: writes it.
        make: a conversation of messages, with the system message and tools of this one.
        asked: the messages of the prompt.
        role: of the messages that observations become.
    """

    def __init__(self, template: ChatTemplate, make: Make, asked: list[Message], role: str) -> None:
        self.template = template
        self.make = make
        self.asked = asked
        self.role = role
        self._opened: dict[str, list[int]] = {}  # a group's episodes often begin alike

    def opening(self, observed: Observed) -> list[int]:
        """The prompt, with what the environment said first behind its last message.

        Raises:
            DataError: the template cannot render it, or the tokenizer not write it.
        """
        if observed.text not in self._opened:
            *before, last = self.asked
            chat = self.make([*before, {**last, "content": last["content"] + observed.text}])
            self._opened[observed.text] = chat.ids(rendered(chat))
        return [*self._opened[observed.text]]

    def reply(self, observed: Observed, said: Sequence[int]) -> list[int]:
        """The ids from behind a turn up to the next one.

        Raises:
            DataError: the template cannot render the observation, or the tokenizer not write it.
        """
        chat = self.make(turns_of(SAID, self.role, observed.text))
        end, frame = behind(self.template, chat)
        # From a special token on the ids are those of the whole text, whatever stands before it.
        ids = chat.ids(frame)
        if self.template.stop_id in said[-1:]:
            return ids[1:]
        return [*chat.ids(end), *ids] if end else ids


def demonstration_in_turns(
    template: ChatTemplate, dialogue: Dialogue, turns: Sequence[str]
) -> Demonstration:
    """An episode to imitate: turns of the policy, which are trained, and between them observations.

    The token that ends a turn is trained behind the last one only: the others may end by a text.

    Args:
        template: tells that token.
        dialogue: writes the episode.
        turns: the policy's first.

    Raises:
        DataError: a text cannot be written.
    """
    row = Demonstration.of(dialogue.opening(SILENT), [])
    for number, text in enumerate(turns):
        ids, trained = template.plain_ids(text), number % 2 == 0
        if not trained:
            ids = dialogue.reply(Observed(ids, text), ())
        row.ids.extend(ids)
        row.trained.extend([trained] * len(ids))
    return Demonstration([*row.ids, template.stop_id], [*row.trained, True])


def turns_of(said: str, role: str, told: str) -> list[Message]:
    """A question, an answer, and what is told then."""
    turns = (("user", "?"), ("assistant", said), (role, told))
    return [{"role": name, "content": content} for name, content in turns]


def rendered(chat: Chat) -> str:
    """The text of a conversation up to where the assistant's turn begins."""
    return chat.text(len(chat.messages), due=True)


def behind(template: ChatTemplate, chat: Chat) -> tuple[str, str]:
    """What stands behind what the assistant said: up to the token that ends turns, and from it.

    Raises:
        DataError: the template leaves out what he said, or cannot render it.
    """
    end, stop, frame = rendered(chat).partition(SAID)[2].partition(template.stop)
    if not stop:
        raise DataError(f"{template.name} leaves turns of the assistant out once others follow")
    return end, stop + frame
