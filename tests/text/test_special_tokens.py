"""Where a text spells a special token, and which ids special tokens have."""

from tokenizers import AddedToken, Tokenizer, models
from transformers import PreTrainedTokenizerFast

from rlcomp.text.special_tokens import special_ids, special_tokens


def tokenizer(*added, **special):
    backend = Tokenizer(models.WordLevel({"</s>": 0, "a": 1}))
    made = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", **special)
    made.add_tokens([*added])
    return made


def test_of_two_that_begin_alike_the_longer_one_is_spelled():
    added = [AddedToken(text, special=True, normalized=False) for text in ("<t>", "<t>x", "<t>xy")]
    pattern = special_tokens(tokenizer(*added))

    assert pattern.findall("a<t>xy<t>x<t></s>") == ["<t>xy", "<t>x", "<t>", "</s>"]


def test_tokens_that_are_added_and_not_special_are_words():
    made = tokenizer(
        AddedToken("word", special=False), AddedToken("<x>", special=True, normalized=False)
    )
    known = made.get_vocab()

    assert special_ids(made) == {known["</s>"], known["<x>"]}
    assert special_tokens(made).findall("word<x></s>") == ["<x>", "</s>"]


def test_a_token_that_is_sought_in_normalised_text_may_be_spelled_in_capitals():
    exact = tokenizer(AddedToken("<x>", special=True, normalized=False))
    loose = tokenizer(AddedToken("<x>", special=True, normalized=True))

    assert special_tokens(exact).findall("<X><x>") == ["<x>"]
    assert special_tokens(loose).findall("<X><x>") == ["<X>", "<x>"]
