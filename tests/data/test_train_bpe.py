"""A byte-level BPE learnt from a task's documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.task.text import TextTask
from rlcomp.data.train_bpe import bpe_tokenizer
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.text.token_bytes import encode_with_ends, token_bytes
from rlcomp.text.tokenizer import load_tokenizer

WORDS = ["<think>", "</think>", "\\boxed{"]


class Corpus:
    """Texts as a task."""

    def __init__(self, *documents, held_out=0.0):
        self.documents = documents
        self.held_out = held_out

    def __len__(self):
        return len(self.documents)

    def example(self, index):
        text = self.documents[index]
        return Example("", answer=text, demonstration=text, source=text)


@pytest.fixture(scope="module")
def tokenizer():
    return bpe_tokenizer(corpus=TextTask(), vocab_size=400, words=WORDS)


def test_the_first_merge_is_the_most_frequent_pair():
    # "ab" occurs 3 times, "bb" and "ba" once.
    made = bpe_tokenizer(corpus=Corpus("abbabab"), vocab_size=259, words=[])

    assert made.tokenize("abbabab") == ["ab", "b", "ab", "ab"]
    assert made.get_vocab()["ab"] == 258


def test_pad_and_eos_come_first_and_the_words_last(tokenizer):
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, len(tokenizer)) == (0, 1, 400)
    assert tokenizer.convert_tokens_to_ids(WORDS) == [397, 398, 399]


def test_a_word_is_one_ordinary_token(tokenizer):
    ids = tokenizer("sun<think>moon</think>\\boxed{ sun}")["input_ids"]

    assert [tokenizer.convert_ids_to_tokens(i) for i in ids if i >= 397] == WORDS
    assert tokenizer.decode(ids, skip_special_tokens=True) == "sun<think>moon</think>\\boxed{ sun}"
    assert token_bytes(tokenizer)[398] == b"</think>"


def test_a_text_that_spells_eos_is_text(tokenizer):
    assert tokenizer.eos_token_id not in tokenizer("<eos>")["input_ids"]


@given(st.text(max_size=40))
def test_every_text_comes_back_unchanged(tokenizer, text):
    ids, ends = encode_with_ends(tokenizer, text)

    assert tokenizer.decode(ids) == text
    assert ends[-1:] == [len(text.encode())][: len(text)]


def test_the_same_documents_give_the_same_tokens(tokenizer):
    again = bpe_tokenizer(corpus=TextTask(), vocab_size=400, words=WORDS)

    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_held_out_documents_teach_nothing():
    # By its hash the second is held out; "uv" in it is more frequent than "xy" in the first.
    corpus = Corpus("xyxyxy", "uvuvuvuvuvuv", held_out=0.5)

    made = bpe_tokenizer(corpus=corpus, vocab_size=259, words=[])

    assert [corpus.example(n).is_held_out(0.5) for n in range(2)] == [False, True]
    assert "xy" in made.get_vocab()


def test_it_is_saved_and_loaded_unchanged(tokenizer, tmp_path):
    text = "First <think>\\boxed{<eos> é"
    tokenizer.save_pretrained(tmp_path)

    loaded = load_tokenizer(path=str(tmp_path))

    assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert (loaded.pad_token_id, loaded.eos_token_id) == (0, 1)
    assert loaded.decode([398, 1, 399], skip_special_tokens=True) == "</think>\\boxed{"


@pytest.mark.parametrize(
    ("size", "words", "message"),
    [
        (
            258,
            ["<think>"],
            "vocab_size is 258: 256 bytes, 2 special tokens and 1 words need .* 259",
        ),
        (400, ["a", "a"], "has an entry more than once"),
    ],
)
def test_what_cannot_be_is_refused(size, words, message):
    with pytest.raises(ConfigError, match=message):
        bpe_tokenizer(corpus=Corpus("ab"), vocab_size=size, words=words)


def test_by_itself_it_has_at_most_512_tokens():
    text = " ".join(f"{a}{b}{c}" for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx")

    made = bpe_tokenizer(corpus=Corpus(*[text * 3] * 4), words=[])

    assert len(made) == 512
