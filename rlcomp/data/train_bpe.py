"""Byte-level BPE tokenizer, trained on a task's documents."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.data.examples import training_examples
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Task
from rlcomp.text.tokenizer import SPECIAL, small_tokenizer


def bpe_tokenizer(
    *, corpus: Task, vocab_size: PositiveInt = 512, words: Sequence[NonEmptyText]
) -> PreTrainedTokenizerFast:
    r"""Train a byte-level BPE on the documents of a corpus that are not held out.

    Every text can be encoded and decodes unchanged. The same documents give the same tokens.

    Args:
        corpus: the task whose answers are the documents.
        vocab_size: maximum number of tokens: ``<pad>`` 0, ``<eos>`` 1, 256 bytes, the merges, then
            the words; fewer if the documents are too small for that many merges.
        words: texts that are always one token, such as ``</think>`` and ``\boxed{``, so that a
            small model need not spell them. They are ordinary tokens: decoding keeps them.

    Raises:
        ConfigError: ``vocab_size`` has no room for the bytes and the words, or a word occurs twice.

    Source:
        Sennrich et al. 2016, arXiv:1508.07909; on bytes: Radford et al. 2019, section 2.2.

    Examples:
        >>> from rlcomp.interfaces.task import Example
        >>> class Corpus:
        ...     held_out = 0.0
        ...
        ...     def __len__(self):
        ...         return 1
        ...
        ...     def example(self, index):
        ...         return Example("", "aab aab", "")
        >>> tokenizer = bpe_tokenizer(corpus=Corpus(), vocab_size=261, words=["<think>"])
        >>> tokenizer.tokenize("aabaa<think>")
        ['aab', 'aa', '<think>']
    """
    minimum = len(SPECIAL) + 256 + len(words)
    if vocab_size < minimum:
        raise ConfigError(
            f"tokenizer: vocab_size is {vocab_size}: 256 bytes, {len(SPECIAL)} special tokens and "
            f"{len(words)} words need at least {minimum}"
        )
    if len(set(words)) < len(words):
        raise ConfigError(f"tokenizer: words has an entry more than once: {list(words)}")
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(words),
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    documents = (example.answer for example in training_examples(corpus, range(len(corpus))))
    backend.train_from_iterator(documents, trainer)
    backend.add_tokens([AddedToken(word, normalized=False, special=False) for word in words])
    return small_tokenizer(backend)
