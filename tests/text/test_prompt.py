"""Plain text prompts: what a policy reads, continues and is taught."""

import pytest

from rlcomp.columns import CONVERSATION
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.prompt import Demonstration, Observation
from rlcomp.text.prompt import TextPrompt, resolve_prompt_format
from rlcomp.text.special_tokens import MARK
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

# <eos> 1, a 2, b 3.
TEXT = TextPrompt(tokenizer=character_tokenizer(characters="ab"))
TALK = {CONVERSATION: {"messages": [{"role": "user", "content": "a"}]}}


def test_a_text_prompt_is_its_text():
    assert TEXT.encode(["ab", ""], [{}, {}]) == [[2, 3], [1]]
    assert TEXT.render(["ab", ""], [{}, {}]) == ["ab", ""]
    assert TEXT.continues
    assert resolve_prompt_format(None, TEXT.tokenizer).encode(["b"], [{}]) == [[3]]
    assert resolve_prompt_format(TEXT, TEXT.tokenizer) is TEXT


@pytest.mark.parametrize("use", [TEXT.encode, TEXT.dialogues])
def test_a_conversation_in_any_row_raises(use):
    with pytest.raises(ConfigError, match="prompt=chat"):
        use(["a", "b"], [{}, TALK])
    for plain in ({CONVERSATION: "a"}, {CONVERSATION: {}}, {CONVERSATION: None}):
        assert len(use(["a"], [plain])) == 1


def test_observations_are_appended():
    (dialogue,) = TEXT.dialogues(["ab"], [{}])

    assert dialogue.opening(Observation([3], "b")) == [2, 3, 3]
    assert dialogue.opening(Observation([], "")) == [2, 3]
    assert dialogue.reply(Observation([2], "a"), [3, 1]) == [2]


def test_conversation_text_is_the_marked_contents():
    text = TextPrompt(tokenizer=byte_tokenizer())
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}]
    messages.append({"role": "user", "content": "<eos>b"})

    assert text.conversation(messages, []) == f"a{MARK}<eos>{MARK}b"
    with pytest.raises(DataError, match="prompt=chat"):
        text.conversation(messages, [{"type": "function"}])


def test_turns_of_the_policy_and_eos_are_trained():
    result = TEXT.demonstrations(["a", "b"], ["b", ("a", "bb", "a")], [{}, {}])

    assert result == [
        Demonstration([2, 3, 1], [False, True, True]),
        Demonstration([3, 2, 3, 3, 2, 1], [False, True, False, False, True, True]),
    ]
