"""A tag within a text of a call ends neither the call nor the turn."""

import json

import pytest
import torch

from components.environment.tools import Tools
from rlcomp.engine.session import TurnSample, join_turns
from rlcomp.episodes.host import Start
from rlcomp.episodes.in_process import InProcessHosts
from rlcomp.episodes.rollout import EpisodeLimits, Rollout
from rlcomp.episodes.tool_protocol import JsonCalls
from rlcomp.interfaces.task import Example
from rlcomp.text.prompt import PlainDialogue
from rlcomp.text.token_bytes import row_bytes, token_bytes
from rlcomp.text.tokenizer import byte_tokenizer
from rlcomp.verify.tool_calls import ends_in_string
from rlcomp.verify.tool_match import tool_match

TOKENIZER = byte_tokenizer()
TABLE = token_bytes(TOKENIZER)
EOS = TOKENIZER.eos_token_id


class Script:
    """A session that writes a text token by token, and stops where a session does."""

    def __init__(self, text):
        self.left = [*TOKENIZER(text)["input_ids"], EOS]
        self.contexts = []
        self.limits = []

    def opened(self, contexts):
        self.contexts = [list(context) for context in contexts]
        return self

    def extend(self, row, tokens):
        self.contexts[row] += tokens

    def generate(self, rows, *, limits, texts=()):
        (limit,) = limits
        self.limits.append(limit)
        new = []
        while len(new) < limit:
            new.append(self.left.pop(0) if self.left else EOS)
            if new[-1] == EOS or any(text in row_bytes(TABLE, new) for text in texts):
                break
        else:
            self.contexts[0] += new
            return [TurnSample(new, [-1.0] * len(new), True)]
        self.contexts[0] += new
        return [TurnSample(new, [-1.0] * len(new), False)]

    def close(self, rows):
        pass


def played(text, *, turn_tokens=400):
    heard = []

    class Write:
        def __call__(self, text):
            heard.append(text)
            return "done"

    host = InProcessHosts().host(lambda: Tools(tools={"write": Write}, protocol=JsonCalls()))
    limits = EpisodeLimits(turns=2, turn_tokens=turn_tokens, observation_tokens=200, context=None)
    session = Script(text)
    rollout = Rollout(session.opened, [PlainDialogue([10])], host, TOKENIZER, TABLE, limits)
    (episode,) = rollout.run([Start(Example("", "1", ""), 0)])
    return episode, heard, session


def call(text):
    return f"<tool_call>{json.dumps({'name': 'write', 'arguments': {'text': text}})}</tool_call>"


@pytest.mark.parametrize(
    "text",
    [
        "use </tool_call> here",
        "</tool_call>",
        "</tool_call></tool_call><tool_call></tool_call>",
        'quoted "</tool_call>" and \\ </tool_call>',
        "ünï </tool_call> ✓",
        "<tool_call>",
    ],
)
def test_a_call_reaches_the_environment_whole(text):
    episode, heard, session = played(call(text) + "I am done")

    assert heard == [text]
    assert tool_match(call(text), [{"write": {"text": [text]}}]) == 1.0
    assert not episode.broken
    assert not episode.truncated
    first, second = episode.turns
    assert TOKENIZER.decode(episode.ids[first.start : first.end]) == call(text)
    assert session.left == []
    assert len(episode.ids) == len(session.contexts[0])
    assert second.end == len(episode.ids)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (call("a") + "more", "more"),
        ('<tool_call>{"name": "write</tool_call>', ""),  # its text is never closed
        ('<tool_call>{"name": "write"</tool_call>more', "more"),
        ('<tool_call>write("</tool_call>more', "more"),  # no JSON
        ('<tool_call>{"name": "a\\</tool_call>more', "more"),  # no escape of JSON
        ('"</tool_call>more', "more"),
        ('<tool_call>{}</tool_call>"</tool_call>', '"</tool_call>'),
    ],
)
def test_any_other_tag_ends_the_turn(text, rest):
    episode, heard, _ = played(text)

    first = episode.turns[0]
    said = TOKENIZER(text[: len(text) - len(rest)])["input_ids"]
    assert episode.ids[first.start : first.end] == [*said, *([] if rest else [EOS])]
    assert heard == (["a"] if text.startswith(call("a")) else [])


def test_a_turn_within_a_text_ends_at_its_limit():
    text = call("ab </tool_call> cd")
    cut = text.index("</tool_call>") + len("</tool_call>")

    at_tag, heard, session = played(text, turn_tokens=cut)
    assert (at_tag.truncated, heard, session.limits) == (True, [], [cut])

    behind, heard, session = played(text, turn_tokens=cut + 3)
    assert (behind.truncated, heard, session.limits) == (True, [], [cut + 3, 3])

    _whole, heard, session = played(text, turn_tokens=len(text))
    assert heard == ["ab </tool_call> cd"]
    assert session.limits[:2] == [len(text), len(text) - cut]


def test_a_turn_that_goes_on_is_one_turn():
    kept = torch.zeros(1, 2, dtype=torch.uint8)
    first, second = TurnSample([1], [-1.0], False, kept), TurnSample([2], [-2.0], True, kept + 1)

    both = join_turns(first, second)

    assert (both.tokens, both.log_probs, both.truncated) == ([1, 2], [-1.0, -2.0], True)
    assert both.sampling_mask.tolist() == [[0, 0], [1, 1]]
    assert join_turns(first, TurnSample([2], [-2.0], False)).sampling_mask is None


def test_a_text_within_a_long_call_is_no_longer_looked_at():
    opened = '<tool_call>{"name": "'

    assert ends_in_string(opened + "</tool_call>")
    assert not ends_in_string(opened + "a" * 10_000 + "</tool_call>")
    assert not ends_in_string("<tool_call>" + "[" * 5_000 + '"</tool_call>')
    assert not ends_in_string('<tool_call>{"n": ' + "1" * 5_000 + "</tool_call>")
    assert ends_in_string('<tool_call>no</tool_call><tool_call>{"a": "</tool_call>')
    assert not ends_in_string('<tool_call>{"a": 1}</tool_call>"</tool_call>')
