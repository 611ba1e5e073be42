"""An EOS that an answer spells ends no response, whoever builds the row."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rlcomp.data.spans import CorpusSpans, Span
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import make_batch
from rlcomp.text.answer_tokens import answer_ids
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.reasoning import first_targets
from rlcomp.text.rows import encode_rows
from rlcomp.text.token_bytes import encode_all_with_ends


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
def test_a_row_ends_with_one_eos(answer):
    made = encode_rows(tokenizer(), ["a", "a"], [answer, "b"])
    ids = made["tokens"][0][made["response_mask"][0]].tolist()

    assert ids[-1] == 0
    assert not {0, 1} & {*ids[:-1]}
    assert tokenizer().decode(ids[:-1]) == answer


def test_turns_and_targets_have_no_end():
    text = TextPrompt(tokenizer=tokenizer())
    (row,) = text.demonstrations(["a"], [("b<|end|>", "c<|end|>", "d")], [{}])
    answer = "x<|end|>y"
    ends = torch.ones(1, len(answer), dtype=torch.bool)
    batch = make_batch(answer=[answer], answer_ends=ends)
    (target,) = first_targets(tokenizer(), batch, len(answer))

    assert row.ids.count(0) == 1
    assert row.ids[-1] == 0
    assert 0 not in target


def test_other_special_tokens_stay_special():
    assert answer_ids(tokenizer(), ["<|tool|>"]) == [[2]]


def test_an_answer_that_can_spell_eos_only_as_the_token_raises():
    with pytest.raises(DataError, match="spells"):
        answer_ids(tokenizer("a", "b"), ["a<|end|>"])


def policy_with(made, stop_tokens=(), eos_token_id=None):
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": len(made)}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**shape, **heads))
    model.generation_config.eos_token_id = eos_token_id
    return LanguageModel(
        model=model, tokenizer=made, decoding=Decoding(), stop_tokens=list(stop_tokens)
    )


@pytest.mark.parametrize("named", [{"stop_tokens": ["<|tool|>"]}, {"eos_token_id": [0, 2]}])
def test_a_policy_stop_token_within_an_answer_is_text(named):
    made = tokenizer()
    policy = policy_with(made, **named)
    assert policy.stops == [0, 2]

    rows = encode_rows(made, ["a", "a"], ["b <|tool|> c", "b"])
    ids = rows["tokens"][0][rows["response_mask"][0]].tolist()

    assert not {0, 2} & {*ids[:-1]}
    assert made.decode(ids[:-1]) == "b <|tool|> c"
    # At its end it ends a turn; of another tokenizer it is a token like any other.
    assert answer_ids(made, ["b<|tool|>"])[0][-1] == 2
    assert 2 in answer_ids(tokenizer(), ["b <|tool|> c"])[0]


def test_an_ordinary_stop_token_within_an_answer_raises():
    made = tokenizer()
    policy_with(made, ["Ċ"])  # a line break, as byte-level tokenizers write it

    assert len(answer_ids(made, ["a\n"])[0]) == 2
    with pytest.raises(DataError, match=r"'a\\nb' spells 'Ċ'.*policy.stop_tokens"):
        answer_ids(made, ["a", "a\nb"])


def test_stops_of_several_policies_accumulate():
    made = tokenizer()
    policy_with(made, ["a"])
    policy_with(made, ["b"])

    for text in ("ac", "bc"):
        with pytest.raises(DataError, match=f"'{text}' spells"):
            answer_ids(made, [text])


class Whole:
    """Chooses each text as one span."""

    def spans(self, documents):
        return [[Span(0, len(document.text))] for document in documents]


def test_a_spelled_end_in_a_document_is_text():
    made, text = tokenizer(), "a <|end|> b"
    (ids, ends) = encode_all_with_ends(made, [text])[0]

    assert not {0, 1} & {*ids}
    assert ends == [*range(1, len(text) + 1)]

    class Corpus:
        def __len__(self):
            return 1

        def example(self, index):
            return Example("", text, "")

    spans = CorpusSpans(Corpus(), made, Whole())
    document, span = spans[0]
    assert document.ids.tolist() == ids
    assert document.text[span.start : span.stop] == text
    with pytest.raises(DataError, match="special tokens"):
        encode_all_with_ends(made, ["a <|tool|> b"])
