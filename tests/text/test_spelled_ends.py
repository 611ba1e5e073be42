"""An EOS that an answer spells ends no response, whoever builds the row."""

import pytest
import torch
from tensordict import TensorDict
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rlcomp.batch import encode_texts
from rlcomp.errors import DataError
from rlcomp.text.answer_ids import answer_ids
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.rows import encode_rows
from rlcomp.text.thoughts import first_targets


def tokenizer(*letters):
    """Of bytes, whose special tokens are read where a text spells them, as those of the hub are."""
    letters = letters or sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<|end|>", "<|pad|>", "<|tool|>", *letters]
    vocabulary = {name: index for index, name in enumerate(names)}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="<|end|>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        additional_special_tokens=["<|tool|>"],
    )


@pytest.mark.parametrize("answer", ["c <|end|> d", "<|end|>", "c<|pad|>", "c <|end|><|end|>"])
def test_one_eos_stands_at_the_end(answer):
    made = encode_rows(tokenizer(), ["a", "a"], [answer, "b"])
    ids = made["tokens"][0][made["response_mask"][0]].tolist()

    assert ids[-1] == 0
    assert not {0, 1} & {*ids[:-1]}
    assert tokenizer().decode(ids[:-1]) == answer


def test_turns_and_targets_have_no_end_of_their_own():
    text = TextPrompt(tokenizer=tokenizer())
    (row,) = text.demonstrations(["a"], [("b<|end|>", "c<|end|>", "d")], [{}])
    answer = "x<|end|>y"
    ends = torch.ones(1, len(answer), dtype=torch.bool)
    batch = TensorDict({"answer": encode_texts([answer]), "answer_ends": ends}, [1])
    (target,) = first_targets(tokenizer(), batch, len(answer))

    assert row.ids.count(0) == 1
    assert row.ids[-1] == 0
    assert 0 not in target


def test_other_special_tokens_are_what_they_spell():
    assert answer_ids(tokenizer(), ["<|tool|>"]) == [[2]]


def test_a_tokenizer_that_cannot_spell_eos_otherwise_refuses_the_answer():
    with pytest.raises(DataError, match="spells"):
        answer_ids(tokenizer("a", "b"), ["a<|end|>"])
