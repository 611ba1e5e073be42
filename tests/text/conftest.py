"""Chat tokenizers: small byte-level BPE with the special tokens and the template of a family.

What is written down are facts of the formats: which tokens are special, which one is EOS, what the
template writes where. The templates carry ``{% generation %}`` marks, which transformers passes
over but where it is asked for the mask of assistant tokens.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TEMPLATES = Path(__file__).parent / "templates"

# DeepSeek's tokens are written with a wide bar.
BAR = "\uff5c"
# BOS, EOS, other special tokens.
FAMILIES = {
    "chatml": (None, "<|im_end|>", ["<|im_start|>"]),
    "llama3": (
        "<|begin_of_text|>",
        "<|eot_id|>",
        ["<|start_header_id|>", "<|end_header_id|>", "<|end_of_text|>"],
    ),
    "mistral": ("<s>", "</s>", ["[INST]", "[/INST]"]),
    "gemma": ("<bos>", "<eos>", ["<start_of_turn>", "<end_of_turn>"]),
    "qwen3": (None, "<|im_end|>", ["<|im_start|>", "<|endoftext|>"]),
    "phi3": ("<s>", "<|endoftext|>", ["<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]),
    "deepseek_r1": (
        f"<{BAR}begin▁of▁sentence{BAR}>",
        f"<{BAR}end▁of▁sentence{BAR}>",
        [f"<{BAR}User{BAR}>", f"<{BAR}Assistant{BAR}>"],
    ),
    # The words for roles are no tokens of their own here.
    "zephyr": ("<s>", "</s>", []),
}

LINES = [
    "user\nassistant\nsystem\n\nWhat is the sum of two and two? The sum is four.",
    "Think: the answer is that the user asks for the answer.\n\nThe answer is four, user.",
    "<think>\n\n</think>\n\n<think>\nthe thought\n</think>\n\n <|im <|user",
]


# How Llama 3 and Qwen cut texts before they merge: line ends stay together.
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@cache
def _tokenizer(family: str) -> PreTrainedTokenizerFast:
    bos, eos, others = FAMILIES[family]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(LINES * 5, trainer)
    special = [token for token in (bos, eos, *others) if token]
    backend.add_special_tokens([AddedToken(each, normalized=False) for each in special])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=bos, eos_token=eos)
    tokenizer.chat_template = (TEMPLATES / f"{family}.jinja").read_text(encoding="utf-8")
    return tokenizer


@pytest.fixture(scope="session")
def chat_tokenizer() -> Callable[[str], PreTrainedTokenizerFast]:
    """The tokenizer of a family, the same at every call."""
    return _tokenizer
