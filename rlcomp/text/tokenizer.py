"""Tokenizers (a small alphabet, bytes, or a pretrained one), and the encoding of texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from rlcomp.arguments import NonEmptyText
from rlcomp.errors import ConfigError, DataError, in_one_line
from rlcomp.text.folder import folder_errors, local_only
from rlcomp.text.preference_tokens import preference_points
from rlcomp.text.untrusted_input import call_within, json_object

if TYPE_CHECKING:  # takes a second to import, and runs without language have no tokenizer
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

# Tokens of every tokenizer made here, and their ids.
SPECIAL = {"<pad>": 0, "<eos>": 1}
# Encoding may take this many seconds, and one more for each so many characters. A usual tokenizer
# encodes a million characters in a second.
_SECONDS, _CHARACTERS_PER_SECOND = 20.0, 20_000


def character_tokenizer(
    *, characters: NonEmptyText = "0123456789+-*/=()>: ,?", words: Sequence[NonEmptyText] = ()
) -> PreTrainedTokenizerFast:
    """Create a tokenizer with one token per character, for tasks with a small alphabet.

    Args:
        characters: the alphabet; the ids follow ``<pad>`` 0 and ``<eos>`` 1.
        words: texts of one token each, such as ``<search>``, with the ids that follow; the longest
            word matches.

    Raises:
        ConfigError: a character or a word occurs twice, or a word is a special token.

    Examples:
        >>> encode_all(character_tokenizer(characters="ab"), ["abba"])
        [[2, 3, 3, 2]]
        >>> encode_all(character_tokenizer(characters="ab", words=["bb"]), ["abba"])
        [[2, 4, 2]]
    """
    pieces = [*characters, *words]
    for piece, count in Counter([*SPECIAL, *pieces]).items():
        if count > 1:
            where = "words" if piece in words else "characters"
            raise ConfigError(f"tokenizer: {where} holds {piece!r} more than once")
    vocabulary = SPECIAL | {piece: 2 + index for index, piece in enumerate(pieces)}
    # No <unk>: a character outside the alphabet is an error, and <unk> would be one more action.
    backend = Tokenizer(models.WordLevel(vocabulary))
    pattern = "|".join([*map(re.escape, sorted(words, key=len, reverse=True)), r"[\s\S]"])
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return small_tokenizer(backend)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Create a tokenizer with one token per UTF-8 byte: it can write every text, without loss."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = SPECIAL | {char: 2 + index for index, char in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return small_tokenizer(backend)


def small_tokenizer(backend: Tokenizer) -> PreTrainedTokenizerFast:
    """Create a transformers tokenizer from one whose first tokens are :data:`SPECIAL`."""
    from transformers import PreTrainedTokenizerFast

    # split_special_tokens: a text that spells "<eos>" is text, not the end of a response.
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="<eos>",
        split_special_tokens=True,
    )


def load_tokenizer(*, path: NonEmptyText) -> PreTrainedTokenizerBase:
    """Load a pretrained tokenizer from a folder or the hub; without a pad token, EOS pads.

    DataError if there is no readable tokenizer, or the hub cannot be reached.
    """
    local = local_only(path)
    message = f"no tokenizer at '{path}' ({'local files only' if local else 'hub'})"
    remedy = (
        f"it needs tokenizer.json; save one with tokenizer.save_pretrained('{path}'), or take that "
        "of the model this one was trained from, tokenizer=pretrained tokenizer.path=DIR"
    )
    if not Path(path).is_dir():
        remedy = "it needs tokenizer.json; look up the name on the hub, or set base=FOLDER"
    with folder_errors(path, message, remedy):
        tokenizer = _class_of(path).from_pretrained(
            path, local_files_only=local, trust_remote_code=False
        )
        if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
            # Beside a model's config.json transformers returns an empty tokenizer.
            raise ValueError("it has no tokens")
        tokenizer("")  # parts that do not fit together fail when called
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _class_of(path: str) -> Any:  # noqa: ANN401
    """Return the tokenizer class: AutoTokenizer, except for folders that name the generic class.

    Beside a model's config.json AutoTokenizer chooses the class of the model's family, which would
    add that family's special tokens to a tokenizer of ours.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    file = Path(path) / "tokenizer_config.json"
    named = json_object(file).get("tokenizer_class") if file.exists() else None
    generic = ("TokenizersBackend", "PreTrainedTokenizerFast")
    return PreTrainedTokenizerFast if named in generic else AutoTokenizer


def encode_all(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    split_special_tokens: bool | None = None,
) -> list[list[int]]:
    """Return the token ids of several texts; no special token is added.

    With ``split_special_tokens`` a special token spelled in a text is read as text; None is the
    tokenizer's own setting. DataError if a text has a character that the tokenizer cannot write, or
    encoding takes too long or fails.
    """
    # Only ids: the other outputs take half of the time.
    options: dict[str, bool] = {"return_attention_mask": False, "return_token_type_ids": False}
    if split_special_tokens is not None:
        options["split_special_tokens"] = split_special_tokens
    encode = partial(tokenizer, list(texts), add_special_tokens=False, **options)
    folder = getattr(tokenizer, "name_or_path", "")  # empty for our own tokenizers
    seconds = _SECONDS + sum(map(len, texts)) / _CHARACTERS_PER_SECOND
    try:
        ids: list[list[int]] = (call_within(seconds, encode) if folder else encode())["input_ids"]
    except TimeoutError as error:
        raise DataError(
            f"the tokenizer at '{folder}' takes {error} for {len(texts)} texts, of "
            f"which the first is {texts[0]!r:.60}: use the tokenizer that belongs to the model"
        ) from None
    except Exception as error:  # the Rust tokenizers raise bare Exception
        for text in texts:
            _check_characters(tokenizer, text, error)
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # the Rust tokenizers panic
            raise
        raise DataError(
            f"the tokenizer at '{folder}' fails on one of {len(texts)} texts, of "
            f"which the first is {texts[0]!r:.60} ({in_one_line(error)}): use the tokenizer that "
            "belongs to the model"
        ) from error
    return ids


def _check_characters(tokenizer: PreTrainedTokenizerBase, text: str, error: BaseException) -> None:
    """Raise DataError for a character that the tokenizer cannot write, the cause of ``error``."""
    surrogates = [char for char in text if "\ud800" <= char <= "\udfff"]
    if surrogates:
        raise DataError(
            f"no tokenizer can write {surrogates[0]!r} in {text!r}: it is a lone surrogate, left "
            "by bytes that are not UTF-8; repair the text"
        ) from error
    vocabulary = tokenizer.get_vocab()
    unknown = [char for char in text if char not in vocabulary]
    if unknown:
        raise DataError(
            f"the tokenizer has no token for {unknown[0]!r} in {text!r}: add it to "
            "tokenizer.characters, or use tokenizer=byte"
        ) from error


def encode_prompts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of prompts as a model reads them, at least one per prompt.

    BOS comes first if the tokenizer itself puts it in front of a text, unless the text spells it.
    An empty prompt is BOS, or EOS if there is no BOS: the model predicts the first token of a
    response from a token before it. DataError as in :func:`encode_all`.

    Examples:
        >>> encode_prompts(character_tokenizer(characters="ab"), ["abba", ""])
        [[2, 3, 3, 2], [1]]
    """
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    rows = encode_all(tokenizer, texts)
    if puts_bos_first(tokenizer):
        return [row if row[:1] == [bos] else [bos, *row] for row in rows]
    return [row or [eos if bos is None else bos] for row in rows]


def puts_bos_first(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether a tokenizer puts BOS in front of every text, so also of an empty one."""
    bos = tokenizer.bos_token_id
    return bos is not None and tokenizer("")["input_ids"][:1] == [bos]


def suppressed_token_mask(
    tokenizer: PreTrainedTokenizerBase,
    vocabulary: int,
    suppressed_tokens: Sequence[int] = (),
    stops: Sequence[int] = (),
) -> Tensor | None:
    """Return the mask ``[V]`` of ids that a policy must never sample; None if there is none.

    These are ids without a token (in a padded vocabulary), preference tokens (a policy only reads
    them), and the pad token unless it is a stop: a pad token in an answer vanishes from its text.

    Args:
        tokenizer: defines the tokens.
        vocabulary: width ``V`` of the model's logits.
        suppressed_tokens: further ids; may include EOS.
        stops: ids that end a response, in addition to EOS.

    Raises:
        ConfigError: one of ``suppressed_tokens`` is not in the vocabulary.

    Examples:
        >>> suppressed_token_mask(character_tokenizer(characters="a"), 5)
        tensor([ True, False, False,  True,  True])
    """
    for token in suppressed_tokens:
        if token not in range(vocabulary):
            raise ConfigError(
                f"suppressed_tokens holds {token}, but the policy's ids are 0 to {vocabulary - 1}"
            )
    suppressed = torch.ones(vocabulary, dtype=torch.bool)
    ids = torch.tensor(sorted(set(tokenizer.get_vocab().values())))
    suppressed[ids[ids < vocabulary]] = False
    suppressed[[*preference_points(tokenizer)]] = True
    if tokenizer.pad_token_id is not None:
        suppressed[tokenizer.pad_token_id] = True
    suppressed[[tokenizer.eos_token_id, *stops]] = False
    suppressed[[*suppressed_tokens]] = True
    return suppressed if bool(suppressed.any()) else None


def decode_rows(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Sequence[int]]) -> list[str]:
    """Decode lists of ids to texts, without special tokens."""
    texts: list[str] = tokenizer.batch_decode(
        [list(row) for row in rows], skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return texts
