"""Next-token prediction."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from components.position import EveryToken, PatternMatches, Sentences
from components.sampler.prompts import Uniform
from components.task.next_token import NextToken
from components.worlds.running_sum.task import RunningSum, RunningSums
from rlcomp.batch import decode_texts
from rlcomp.data.train_bpe import bpe_tokenizer
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example
from rlcomp.text.token_bytes import encode_with_ends
from rlcomp.text.tokenizer import byte_tokenizer

BYTES = byte_tokenizer()


class Corpus:
    """Texts as a task."""

    held_out = 0.0

    def __init__(self, *documents):
        self.documents = documents

    def __len__(self):
        return len(self.documents)

    def example(self, index):
        text = self.documents[index]
        return Example("", text, "", source=text)


def words_tokenizer():
    """A token for each word of the worked example: " para", "meter", " =" and "x"."""
    pieces = ["<pad>", "<eos>", "x", " para", "meter", " =", " 1"]
    backend = Tokenizer(models.WordLevel({piece: index for index, piece in enumerate(pieces)}))
    pattern = Regex("|".join(pieces[2:]))
    backend.pre_tokenizer = pre_tokenizers.Split(pattern, behavior="isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>")


def made(*documents, **arguments):
    given = {"tokenizer": BYTES, "position": EveryToken(min_context=1)} | arguments
    return NextToken(corpus=Corpus(*documents), **given)


def test_the_worked_example():
    # It goes on " para" | "meter" | " =", of 5, 5 and 2 bytes; " 1" is beyond the horizon.
    task = made("x parameter = 1", tokenizer=words_tokenizer(), horizon=3)

    example = task.example(0)

    assert example == Example(
        prompt="x<think>",
        answer=" parameter =",
        demonstration=r"</think>\boxed{ para}",
        answer_ends=(5, 10, 12),
        source="x parameter = 1",
    )


def test_the_target_is_a_whole_character_and_its_bytes_are_ends():
    # "é" is the byte tokens C3 | A9: they end after 1 and 2 bytes.
    task = made("né")

    assert len(task) == 1
    assert task.example(0).answer_ends == (1, 2)
    assert task.example(0).demonstration == r"</think>\boxed{é}"


def test_positions_are_numbered_through_the_documents():
    task = made("abc", "d", "ef")

    assert [task.example(n).prompt for n in range(len(task))] == [
        "a<think>",
        "ab<think>",
        "e<think>",
    ]


@pytest.mark.parametrize(("most", "context"), [(2, "cd"), (3, "bcd"), (4, "abcd"), (9, "abcd")])
def test_the_context_is_cut_to_its_last_tokens(most, context):
    task = made(
        "abcde", position=PatternMatches(pattern="(e)"), max_context=most, template="{context}"
    )

    assert task.example(0).prompt == context
    assert task.example(0).source == "abcde"


def test_the_thought_is_of_the_context():
    task = NextToken(
        corpus=RunningSum(shortest=3, longest=3, size=5),
        tokenizer=BYTES,
        position=PatternMatches(pattern=r"=(\d)"),
        thought=RunningSums(),
    )

    for index in range(5):
        example = task.example(index)
        a, b, c = (int(example.prompt[place]) for place in (0, 2, 4))
        two, last = (a + b) % 10, (a + b + c) % 10
        thought = f"{a}+{b}={two} {two}+{c}={last}"
        assert example.prompt == f"{a}+{b}+{c}=<think>"
        assert example.demonstration == rf"{thought}</think>\boxed{{{last}}}"


def test_braces_of_the_text_are_left_alone():
    task = made("{a}{b}", template="<{context}>", response="{{{thought}{target}}}")

    assert [task.example(n).prompt for n in (0, 2)] == ["<{>", "<{a}>"]
    assert task.example(2).demonstration == "{{}"


def test_a_response_may_be_a_thought_alone():
    assert made("ab", response="{thought}</think>").example(0).demonstration == "</think>"


def test_a_response_may_continue_the_text():
    task = made("abcde", horizon=2, response="{thought}</think>{continuation}")

    assert task.example(0).answer == "bc"
    assert task.example(0).demonstration == "</think>bc"


def test_a_whole_span_has_one_end():
    task = made("One. Two. Three", position=Sentences(min_context=1), whole_spans=True, horizon=1)

    example = task.example(0)
    assert (example.prompt, example.answer, example.answer_ends) == ("One. <think>", "Two.", (4,))
    assert example.demonstration == r"</think>\boxed{Two.}"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
MERGES = bpe_tokenizer(
    corpus=Corpus("thé thé thè 😀😀😀 the then"), vocab_size=290, words=["</think>"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(1, 5), st.sampled_from([BYTES, MERGES]))
def test_ends_are_those_of_the_tokens_of_the_document(texts, horizon, tokenizer):
    texts = ["the 😀 thé ", *texts]
    task = made(*texts, tokenizer=tokenizer, horizon=horizon, template="{context}")

    asked = set()
    for index in range(len(task)):
        example = task.example(index)
        data, start = example.source.encode(), len(example.prompt.encode())
        bounds = {0, *encode_with_ends(tokenizer, example.source)[1]}
        stop = start + example.answer_ends[-1]
        asked.add((example.source, start))
        assert start in bounds
        assert data[:start].decode() == example.prompt
        assert data[start:stop].decode() == example.answer
        assert [start + end for end in example.answer_ends] == sorted(
            place for place in bounds if start < place <= stop
        )
        # A first character of several tokens may be beyond the horizon.
        assert len(example.answer_ends) <= max(horizon, 4)
    # Each place between two tokens that is one between two characters, but for the outer two.
    assert asked == {
        (text, place)
        for text in texts
        for place in encode_with_ends(tokenizer, text)[1][:-1]
        if text.encode()[place] & 0xC0 != 0x80
    }


def test_a_sampler_puts_the_ends_beside_the_answer():
    task = made(
        "x parameter = 1",
        tokenizer=words_tokenizer(),
        position=EveryToken(min_context=3),
        template="{context}",
    )
    sampler = Uniform(
        task=task, tokenizer=words_tokenizer(), batch_size=2, context_length=9, max_new_tokens=4
    )

    batch = sampler()

    # " =" and " 1" follow "x parameter"; " 1" alone follows "x parameter =".
    last_bytes = {" = 1": [1, 3], " 1": [1]}
    result = zip(decode_texts(batch["answer"]), batch["answer_ends"], strict=True)
    for answer, ends in result:
        assert ends.nonzero().flatten().tolist() == last_bytes[answer]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"template": "<think>"}, r"template '<think>' lacks {context}"),
        ({"template": "{context}{text}"}, r"names {text}"),
        ({"response": r"\boxed{target}{"}, "response .* for braces"),
        ({"horizon": 0}, "horizon is 0: must be greater than 0"),
    ],
)
def test_malformed_templates_are_refused(arguments, words):
    with pytest.raises(ConfigError, match=words):
        made("ab", **arguments)


def test_a_corpus_without_a_position_is_refused():
    with pytest.raises(DataError, match="no span of the 1 documents"):
        made("a")
