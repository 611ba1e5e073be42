"""Byte strings of tokens: lossless where decoding to text is not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from tokenizers import pre_tokenizers

from rlcomp.errors import ConfigError, DataError
from rlcomp.text.answer_tokens import answer_ids
from rlcomp.text.tokenizer import encode_all

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")


def special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Return the ids of special tokens: of tokens with a role, such as EOS, or added as special.

    Examples:
        >>> from rlcomp.text.tokenizer import character_tokenizer
        >>> sorted(special_ids(character_tokenizer(characters="ab")))
        [0, 1]
    """
    added = tokenizer.added_tokens_decoder.items()
    return {*tokenizer.all_special_ids} | {index for index, token in added if token.special}


def token_bytes(tokenizer: PreTrainedTokenizerBase) -> list[bytes]:
    r"""Return the byte string of every token, by its id; partial characters stay partial.

    The tokenizer's decoder defines the bytes: bytes written as characters (GPT-2's alphabet),
    pieces in which ``▁`` is a space, with or without byte tokens (``<0xC3>``), or tokens that are
    their own text. A special token has no bytes, nor does an id without a token. The bytes of
    another token added to the vocabulary are its text in UTF-8.

    Raises:
        ConfigError: the tokenizer is not a fast one, or its decoder does not define the bytes of a
            token.

    Examples:
        >>> from rlcomp.text.tokenizer import byte_tokenizer
        >>> tokenizer = byte_tokenizer()
        >>> table = token_bytes(tokenizer)
        >>> [table[token] for token in tokenizer("é\n")["input_ids"]]
        [b'\xc3', b'\xa9', b'\n']
        >>> table[tokenizer.eos_token_id]
        b''
    """
    read = _reader(tokenizer)
    tokens: dict[int, str] = {index: token for token, index in tokenizer.get_vocab().items()}
    return [
        read(index, tokens[index]) if index in tokens else b"" for index in range(max(tokens) + 1)
    ]


def row_bytes(table: Sequence[bytes], ids: Iterable[int]) -> bytes:
    """Return the concatenated bytes of tokens, by the table of :func:`token_bytes`.

    DataError if an id is not in the table.

    Examples:
        >>> row_bytes([b"", b"a", b"b"], [2, 0, 1])
        b'ba'
    """
    ids = list(ids)
    beyond = [index for index in ids if not 0 <= index < len(table)]
    if beyond:
        raise DataError(
            f"the tokenizer has no token with id {beyond[0]} (it has {len(table)}): use the "
            "tokenizer of the policy that wrote the tokens"
        )
    return b"".join(table[index] for index in ids)


def encode_with_ends(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[int], list[int]]:
    """Return the tokens of a text, and the number of its bytes up to the end of each.

    A space that the tokenizer itself puts in front of the text does not count: a first token that
    is only this space ends after 0 bytes.

    Raises:
        ConfigError: as :func:`token_bytes`.
        DataError: the text has a character that the tokenizer cannot write, or the tokenizer
            rewrites the text before it splits it.

    Examples:
        >>> from rlcomp.text.tokenizer import byte_tokenizer
        >>> encode_with_ends(byte_tokenizer(), "né")[1]
        [1, 2, 3]
    """
    return encode_all_with_ends(tokenizer, [text])[0]


def encode_all_with_ends(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]
) -> list[tuple[list[int], list[int]]]:
    """Compute :func:`encode_with_ends` of many texts, in a fraction of the time."""
    read = _reader(tokenizer)
    encoded = answer_ids(tokenizer, texts) if texts else []
    tokens = {index: tokenizer.convert_ids_to_tokens(index) for ids in encoded for index in ids}
    table = {index: read(index, token) for index, token in tokens.items()}
    return [_add_ends(ids, table, text) for ids, text in zip(encoded, texts, strict=True)]


def _add_ends(ids: list[int], table: Mapping[int, bytes], text: str) -> tuple[list[int], list[int]]:
    """Return the ids and the end of each token; check that the bytes of the tokens are the text."""
    parts = [table[index] for index in ids]
    joined, expected = b"".join(parts), text.encode()
    added = int(joined == b" " + expected)
    if not added and joined != expected:
        raise DataError(_difference(joined, expected))
    return ids, [end - added for end in accumulate(map(len, parts))]


def _difference(joined: bytes, expected: bytes) -> str:
    pairs = enumerate(zip(joined, expected, strict=False))
    shorter = min(len(joined), len(expected))
    start = next((index for index, (a, b) in pairs if a != b), shorter)
    token_part, text_part = joined[start : start + 20], expected[start : start + 20]
    return (
        f"the tokenizer rewrites the text {expected[:60].decode(errors='replace')!r}: from byte "
        f"{start} on its tokens stand for {token_part!r}, and the text holds {text_part!r}; "
        "normalise the text as the tokenizer does (often to Unicode NFC), take special tokens out "
        "of it, or use tokenizer=byte"
    )


def _reader(tokenizer: PreTrainedTokenizerBase) -> Callable[[int, str], bytes]:
    """Return the function from a token's id and text to its bytes."""
    from transformers import PreTrainedTokenizerFast

    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ConfigError(
            f"the tokenizer is a {type(tokenizer).__name__}, which does not say what bytes its "
            "tokens stand for: use a fast one (a folder with tokenizer.json), or tokenizer=byte"
        )
    read_plain = _plain_reader(_decoding_steps(tokenizer))
    added, special = tokenizer.added_tokens_decoder, special_ids(tokenizer)

    def read(index: int, token: str) -> bytes:
        if index in special:
            return b""
        return token.encode() if index in added else read_plain(token)

    return read


def _decoding_steps(tokenizer: PreTrainedTokenizerFast) -> list[Mapping[str, object]]:
    """Return the settings of the decoder's steps, as ``tokenizer.json`` has them."""
    decoder = tokenizer.backend_tokenizer.decoder
    # The decoder's own state: writing out a large tokenizer takes a second.
    state = {"type": "none"} if decoder is None else json.loads(decoder.__getstate__())
    steps: list[Mapping[str, object]] = state.get("decoders", [state])
    return steps


def _plain_reader(steps: list[Mapping[str, object]]) -> Callable[[str], bytes]:
    """Return the function from the text of a token that is not added to its bytes."""
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return _alphabet_reader()
    spaces = {_space(step) for step in steps if step["type"] in ("Replace", "Metaspace")}
    # Strip after Fuse removes the space in front of the whole text; before Fuse, of every token.
    strips_whole = "Fuse" in kinds and kinds[-1] == "Strip"
    token_steps = kinds[:-1] if strips_whole else kinds
    supported = {"Replace", "Metaspace", "ByteFallback", "Fuse"}
    if None in spaces or not set(token_steps) <= supported:
        raise ConfigError(
            f"the tokenizer's decoder is {'+'.join(map(str, kinds))}, which does not say what "
            "bytes a token stands for: use a byte-level or sentencepiece tokenizer, or "
            "tokenizer=byte"
        )
    return _piece_reader({space for space in spaces if space}, "ByteFallback" in kinds)


def _space(step: Mapping[str, object]) -> str | None:
    """Return the character that a decoder step turns into a space; None for other steps."""
    if step["type"] == "Metaspace":
        return str(step["replacement"])
    pattern = step["pattern"]
    if step["content"] != " " or not isinstance(pattern, dict) or "String" not in pattern:
        return None
    return str(pattern["String"])


def _piece_reader(spaces: set[str], byte_tokens: bool) -> Callable[[str], bytes]:
    """Return a reader of SentencePiece tokens; ``spaces`` are the characters for a space."""

    def read(token: str) -> bytes:
        byte = _BYTE_TOKEN.fullmatch(token) if byte_tokens else None
        if byte:
            return bytes.fromhex(byte[1])
        for space in spaces:
            token = token.replace(space, " ")
        return token.encode()

    return read


def _alphabet_reader() -> Callable[[str], bytes]:
    """Return a reader of GPT-2's alphabet: printable Latin-1 is itself, other bytes 256, ..."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = sorted(set(range(256)) - set(printable))
    meaning = {chr(byte): byte for byte in printable}
    meaning |= {chr(256 + index): byte for index, byte in enumerate(others)}
    assert set(meaning) == set(pre_tokenizers.ByteLevel.alphabet())

    def read(token: str) -> bytes:
        # The decoder takes a token with any other character literally.
        in_alphabet = all(char in meaning for char in token)
        return bytes(meaning[char] for char in token) if in_alphabet else token.encode()

    return read


# To encode a text without a space in front, it is encoded after one of these, the first that shares
# no token with the text; the tokens of the preceding text are then dropped.
_PRECEDING = ("\n", ".", "a", "0")


def encode_continuation(
    tokenizer: PreTrainedTokenizerBase, table: Sequence[bytes], text: str
) -> list[int]:
    """Return tokens of a text in the middle of a row; no special token is read in it.

    SentencePiece tokenizers put a space in front of every text. Such a tokenizer encodes the text
    after another one, whose tokens are dropped. DataError if the tokenizer cannot write the text,
    or only with such a space.
    """
    if not text:
        return []
    (ids,) = encode_all(tokenizer, [text], split_special_tokens=True)
    expected = text.encode()
    if row_bytes(table, ids) != b" " + expected:
        return ids
    for preceding in _PRECEDING:
        both, first = encode_all(
            tokenizer, [preceding + text, preceding], split_special_tokens=True
        )
        ids = both[len(first) :]
        if both[: len(first)] == first and row_bytes(table, ids) == expected:
            return ids
    raise DataError(f"the tokenizer puts a space in front of {text!r:.60}: use tokenizer=byte")
