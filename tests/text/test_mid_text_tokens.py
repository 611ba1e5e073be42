"""Observations under a SentencePiece-like tokenizer: the text itself, no space in front."""

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rlcomp.errors import DataError
from rlcomp.text.token_bytes import encode_continuation, row_bytes, token_bytes
from rlcomp.text.tokenizer import byte_tokenizer

PIECES = {"<pad>": 0, "<eos>": 1, "▁": 2, "a": 3, "b": 4, "▁a": 5, "|": 6, ".": 7, "▁b": 8}
PIECES |= {"\n": 9, "0": 10}


def wrapped(backend):
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>")


def metaspace(more=(), scheme="always"):
    """As T5 and Gemma write it: a space is ▁, and one is put in front."""
    merges = [("▁", "a"), ("▁", "b"), *more]
    pieces = PIECES | {a + b: len(PIECES) + n for n, (a, b) in enumerate(more)}
    backend = Tokenizer(models.BPE(pieces, merges))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    backend.decoder = decoders.Metaspace(prepend_scheme=scheme, split=False)
    return wrapped(backend)


def prepending():
    """As Llama 2 has it: the same by a normalizer."""
    backend = Tokenizer(models.BPE(PIECES, [("▁", "a"), ("▁", "b")]))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return wrapped(backend)


@pytest.mark.parametrize("tokenizer", [metaspace(), metaspace(scheme="first"), prepending()])
@pytest.mark.parametrize(
    ("text", "ids"), [("ab|", [3, 4, 6]), ("b a", [4, 5]), ("|", [6]), ("", [])]
)
def test_a_continuation_gets_no_leading_space(tokenizer, text, ids):
    result = encode_continuation(tokenizer, token_bytes(tokenizer), text)

    assert result == ids
    assert row_bytes(token_bytes(tokenizer), result) == text.encode()


def test_a_leading_space_of_the_text_stays():
    tokenizer = prepending()
    result = encode_continuation(tokenizer, token_bytes(tokenizer), " a")

    assert result == [5]


def test_a_piece_joined_with_the_preceding_text_is_not_cut():
    tokenizer = metaspace(more=[("\n", "a")])  # behind a new line, "a" is no token of its own

    assert encode_continuation(tokenizer, token_bytes(tokenizer), "ab") == [3, 4]


def test_a_tokenizer_without_leading_space_encodes_as_usual():
    tokenizer = byte_tokenizer()

    result = encode_continuation(tokenizer, token_bytes(tokenizer), " é<eos>")
    assert row_bytes(token_bytes(tokenizer), result) == " é<eos>".encode()
    assert tokenizer.eos_token_id not in result


def test_an_unavoidable_leading_space_raises():
    joined = [(before, "a") for before in ("\n", ".", "▁a", "0")]
    tokenizer = metaspace(more=joined)

    with pytest.raises(DataError, match="puts a space in front of 'a'"):
        encode_continuation(tokenizer, token_bytes(tokenizer), "a")
