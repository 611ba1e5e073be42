from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from rlcomp.errors import ConfigError, DataError
from rlcomp.text.token_bytes import encode_with_ends, row_bytes, token_bytes
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

LINES = ["the cat sat on the mat\n", "the meter, the parameter = 3\n", "né été\n"] * 3
SPECIAL = ["<pad>", "<eos>"]
ALPHABET = "abé €\n"


def wrapped(backend, **special):
    special = special or {"pad_token": "<pad>", "eos_token": "<eos>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def byte_level_bpe():
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        LINES, BpeTrainer(vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    return wrapped(backend)


def sentencepiece_like():
    """As in Llama 2: a space in front of the text, spaces as ``▁``, unknown characters as bytes."""
    pieces = ["▁", "▁the", "▁cat", "t", "h", "e", "c", "a", "é"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {piece: index for index, piece in enumerate([*SPECIAL, *byte_tokens, *pieces])}
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("c", "a"), ("ca", "t"), ("▁", "cat")]
    for merged in ("th", "the", "ca", "cat"):
        vocabulary[merged] = len(vocabulary)
    backend = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return wrapped(backend)


def metaspace():
    vocabulary = {piece: index for index, piece in enumerate([*SPECIAL, "▁", "a", "b", "▁a"])}
    backend = Tokenizer(models.BPE(vocabulary, [("▁", "a")]))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    backend.decoder = decoders.Metaspace(prepend_scheme="never")
    return wrapped(backend)


def words(decoder=None, normalizer=None):
    backend = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "a": 2, "b": 3}))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    if normalizer is not None:
        backend.normalizer = normalizer
    if decoder is not None:
        backend.decoder = decoder
    return wrapped(backend)


BPE, PIECES = byte_level_bpe(), sentencepiece_like()
CHARACTERS = character_tokenizer(characters=ALPHABET)


def parts(tokenizer, text):
    table = token_bytes(tokenizer)
    return [table[index] for index in encode_with_ends(tokenizer, text)[0]]


def test_a_partial_character_is_its_byte():
    # é is C3 A9 in UTF-8.
    assert parts(byte_tokenizer(), "é\n ") == [b"\xc3", b"\xa9", b"\n", b" "]


def test_all_256_bytes_are_tokens_of_the_byte_tokenizer():
    assert sorted(token_bytes(byte_tokenizer())) == [
        b"",
        b"",
        *[bytes([byte]) for byte in range(256)],
    ]


def test_a_space_in_front_of_a_word_is_part_of_its_token():
    assert parts(BPE, "the the") == [b"the", b" the"]


def test_sentencepiece_spaces_and_byte_tokens():
    # € is E2 82 AC; the first space is the tokenizer's own.
    assert parts(PIECES, "the cat€") == [b" the", b" cat", b"\xe2", b"\x82", b"\xac"]


def test_metaspace_is_a_space():
    assert parts(metaspace(), "a ab") == [b"a", b" a", b"b"]


def test_a_character_token_is_its_utf_8():
    assert parts(CHARACTERS, "é€") == [b"\xc3\xa9", b"\xe2\x82\xac"]


@pytest.mark.parametrize("tokenizer", [BPE, PIECES, CHARACTERS, byte_tokenizer()])
def test_special_tokens_have_no_bytes(tokenizer):
    table = token_bytes(tokenizer)

    assert table[tokenizer.pad_token_id] == table[tokenizer.eos_token_id] == b""
    assert len(table) == len(tokenizer)


def test_an_added_token_is_its_text():
    tokenizer = byte_level_bpe()
    tokenizer.add_tokens([AddedToken("</think>é", special=False)])

    assert token_bytes(tokenizer)[-1] == "</think>é".encode()
    assert encode_with_ends(tokenizer, "a</think>é")[1] == [1, 1 + 10]


def test_an_added_special_token_has_no_bytes():
    tokenizer = byte_level_bpe()
    tokenizer.add_tokens([AddedToken("<call>", special=True)])

    assert token_bytes(tokenizer)[-1] == b""


def test_an_id_without_a_token_has_no_bytes():
    backend = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "a": 4}))
    backend.decoder = decoders.Fuse()

    assert token_bytes(wrapped(backend)) == [b"", b"", b"", b"", b"a"]


@pytest.mark.parametrize(
    ("decoder", "name"),
    [
        (decoders.WordPiece(), "WordPiece"),
        (decoders.BPEDecoder(), "BPEDecoder"),
        (decoders.Sequence([decoders.Strip(" ", 1, 0), decoders.Fuse()]), r"Strip\+Fuse"),
        (decoders.Sequence([decoders.Strip(" ", 1, 0)]), "Strip"),
        (decoders.Replace(Regex("▁"), " "), "Replace"),
        (decoders.Replace("▁", "_"), "Replace"),
        (None, "none"),
    ],
)
def test_a_decoder_that_loses_bytes_raises(decoder, name):
    with pytest.raises(ConfigError, match=rf"decoder is {name}, .* use a byte-level"):
        token_bytes(words(decoder))


def test_a_strip_of_the_whole_text_is_supported():
    steps = [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    assert token_bytes(words(decoders.Sequence(steps)))
    for wrong in ([*steps[::-1]], [steps[0], steps[2], steps[1]], [steps[2], *steps]):
        with pytest.raises(ConfigError, match="Strip"):
            token_bytes(words(decoders.Sequence(wrong)))


def test_a_token_with_a_character_outside_the_byte_alphabet_is_its_text():
    # Of ByteLevel's alphabet Ġ is a space; € is no character of it.
    backend = Tokenizer(models.BPE({"<pad>": 0, "<eos>": 1, "Ġa": 2, "Ġ€": 3}, []))
    backend.decoder = decoders.ByteLevel()

    assert token_bytes(wrapped(backend))[2:] == [b" a", "Ġ€".encode()]


def test_a_slow_tokenizer_raises():
    with pytest.raises(ConfigError, match=r"is a ByT5Tokenizer, .* use a fast one"):
        token_bytes(ByT5Tokenizer())


def test_row_bytes_are_concatenated():
    table = token_bytes(BPE)
    ids = [BPE.eos_token_id, *encode_with_ends(BPE, "the né")[0], BPE.eos_token_id]

    assert row_bytes(table, ids) == "the né".encode()


@pytest.mark.parametrize("index", [3, -1])
def test_an_id_without_a_table_entry_raises(index):
    with pytest.raises(DataError, match=rf"no token with id {index} \(it has 3\)"):
        row_bytes([b"", b"a", b"b"], [1, index])


def test_a_leading_space_of_the_tokenizer_has_no_bytes():
    # "▁the" stands for 4 bytes, of which the text has 3.
    assert encode_with_ends(PIECES, "the cat")[1] == [3, 7]
    # "▁" alone in front of a newline: nothing of the text has been read.
    assert encode_with_ends(PIECES, "\nthe")[1] == [0, 1, 4]


def test_a_leading_space_of_the_text_counts():
    # The tokenizer puts its own in front: "▁", "▁the".
    assert encode_with_ends(PIECES, " the")[1] == [0, 4]


@pytest.mark.parametrize("tokenizer", [BPE, PIECES, CHARACTERS])
def test_an_empty_text_has_no_tokens(tokenizer):
    assert encode_with_ends(tokenizer, "") == ([], [])


def test_a_normaliser_that_changes_the_text_raises_with_the_byte():
    tokenizer = words(decoders.Fuse(), normalizers.Lowercase())

    assert encode_with_ends(tokenizer, "ab")[1] == [1, 2]
    with pytest.raises(DataError, match=r"from byte 1 on its tokens stand for b'b', .* b'B'"):
        encode_with_ends(tokenizer, "aB")


def test_a_spelled_end_is_text():
    ids, ends = encode_with_ends(BPE, "the <eos>")

    assert BPE.eos_token_id not in ids
    assert ends[-1] == len("the <eos>")


def test_a_character_without_a_token_raises():
    with pytest.raises(DataError, match="no token for 'z'"):
        encode_with_ends(CHARACTERS, "abz")


# Surrogates are no text; ▁ is how pieces write a space.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=12)
SOME_WORDS = st.lists(st.sampled_from(["the", " cat", " ", "é", "\n", "€"]), max_size=8)


@pytest.mark.parametrize(
    "tokenizer", [BPE, PIECES, byte_tokenizer()], ids=["bpe", "pieces", "byte"]
)
@given(text=ANY_TEXT | SOME_WORDS.map("".join))
@settings(max_examples=60, deadline=None)
def test_token_bytes_concatenate_to_the_text(tokenizer, text):
    check_bytes(tokenizer, text)


@given(text=st.text(ALPHABET, max_size=12))
@settings(max_examples=30, deadline=None)
def test_character_token_bytes_concatenate_to_the_text(text):
    check_bytes(CHARACTERS, text)


def check_bytes(tokenizer, text):
    ids, ends = encode_with_ends(tokenizer, text)
    table = token_bytes(tokenizer)

    raw = text.encode()
    pieces = [raw[start:end] for start, end in pairwise([0, *ends])]
    # Of pieces, the first one's space is not the text's.
    own = b" " if tokenizer is PIECES and text else b""
    assert b"".join(pieces) == raw
    assert own + raw == row_bytes(table, ids)
    assert [table[index] for index in ids[1:]] == pieces[1:]
