import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rlcomp.errors import ConfigError, DataError
from rlcomp.text.answer_tokens import answer_ids
from rlcomp.text.preference_tokens import preference_tokenizer
from rlcomp.text.tokenizer import (
    byte_tokenizer,
    character_tokenizer,
    decode_rows,
    encode_all,
    encode_prompts,
    load_tokenizer,
    suppressed_token_mask,
)

TEXTS = ["", " a ", "\n\t a\n", "naïve 🎉", "<eos> is text", "it 's , here"]
BYTES = byte_tokenizer()


def test_characters_follow_the_special_tokens_in_order():
    assert encode_all(character_tokenizer(characters="ab +"), ["b a+"])[0] == [3, 4, 2, 5]


def test_character_text_comes_back_unchanged():
    tokenizer = character_tokenizer(characters="ab +\n")

    assert tokenizer.decode(encode_all(tokenizer, [" a\n+ b "])[0]) == " a\n+ b "


@pytest.mark.parametrize("text", TEXTS)
def test_byte_tokenizer_encodes_any_text(text):
    assert BYTES.decode(encode_all(BYTES, [text])[0], skip_special_tokens=True) == text


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_round_trip(text):
    ids = encode_all(BYTES, [text])[0]

    assert len(ids) == len(text.encode())
    assert BYTES.decode(ids, skip_special_tokens=True) == text


def test_encode_all_requests_ids_only():
    asked = []

    def tokenizer(texts, **settings):
        asked.append(settings)
        return {"input_ids": [[len(text)] for text in texts]}

    assert encode_all(tokenizer, ["ab", "c"]) == [[2], [1]]
    assert encode_all(tokenizer, ["abc"], split_special_tokens=True) == [[3]]
    assert encode_all(tokenizer, ["abcd"], split_special_tokens=False) == [[4]]

    alone = {"add_special_tokens": False}
    alone |= {"return_attention_mask": False, "return_token_type_ids": False}
    asked_for = ({}, {"split_special_tokens": True}, {"split_special_tokens": False})
    assert asked == [alone | chosen for chosen in asked_for]


@pytest.mark.parametrize("tokenizer", [character_tokenizer(characters="ab"), BYTES])
def test_pad_and_eos_differ(tokenizer):
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)


@pytest.mark.parametrize("load", [AutoTokenizer.from_pretrained, None])
def test_a_saved_tokenizer_gives_the_same_ids(tmp_path, load):
    for name, tokenizer in (("a", character_tokenizer(characters="ab ")), ("b", BYTES)):
        tokenizer.save_pretrained(tmp_path / name)
        path = str(tmp_path / name)
        loaded = load(path) if load else load_tokenizer(path=path)

        assert encode_all(loaded, [" ab"])[0] == encode_all(tokenizer, [" ab"])[0]
        assert (loaded.pad_token_id, loaded.eos_token_id) == (0, 1)
        assert len(loaded) == len(tokenizer)


def test_a_character_outside_the_alphabet_raises():
    with pytest.raises(DataError, match=r"no token for 'x' in 'a x'"):
        encode_all(character_tokenizer(characters="a "), ["a", "a x"])


def test_a_loaded_character_tokenizer_raises_for_a_character_outside(tmp_path):
    character_tokenizer(characters="a ").save_pretrained(tmp_path)

    with pytest.raises(DataError, match="no token for '<'"):
        encode_all(load_tokenizer(path=str(tmp_path)), ["a<eos>"])


def test_a_repeated_character_raises():
    with pytest.raises(ConfigError, match="'a' more than once"):
        character_tokenizer(characters="aba")


def test_without_a_pad_token_eos_pads(tmp_path):
    backend = Tokenizer(models.WordLevel({"a": 0, "<end>": 1}))
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>").save_pretrained(tmp_path)

    assert load_tokenizer(path=str(tmp_path)).pad_token_id == 1


def test_a_folder_without_a_tokenizer_raises(tmp_path):
    with pytest.raises(DataError, match=r"tokenizer\.json"):
        load_tokenizer(path=str(tmp_path))


def test_a_missing_folder_raises():
    with pytest.raises(DataError, match=r"'./nowhere' is not a folder"):
        load_tokenizer(path="./nowhere")


def test_offline_a_hub_name_is_local_only(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    with pytest.raises(DataError, match="local files only"):
        load_tokenizer(path="nobody/has-this-model")


def test_a_tokenizer_beside_a_model_is_unchanged(tmp_path):
    tokenizer = character_tokenizer(characters="0123456789>")
    tokenizer.save_pretrained(tmp_path)
    # AutoTokenizer alone goes by the model's family, whose tokenizer has a token more.
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')

    loaded = load_tokenizer(path=str(tmp_path))

    assert len(loaded) == len(tokenizer) == 13
    assert loaded.get_vocab() == tokenizer.get_vocab()


def tokenizer_with_bos(adds_it):
    """<s> 0, </s> 1, then a, b, c; puts <s> in front of a text, or only knows it."""
    backend = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2, "b": 3, "c": 4}))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    if adds_it:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


def test_prompts_start_with_bos_if_the_tokenizer_adds_it():
    prompts = encode_prompts(tokenizer_with_bos(adds_it=True), ["a", "", "bc"])

    assert prompts == [[0, 2], [0], [0, 3, 4]]


def test_a_prompt_that_spells_bos_has_one():
    assert encode_prompts(tokenizer_with_bos(adds_it=True), ["<s>a"]) == [[0, 2]]


def test_a_bos_that_is_not_added_starts_empty_prompts_only():
    assert encode_prompts(tokenizer_with_bos(adds_it=False), ["a", ""]) == [[2], [0]]


def test_bos_is_added_beside_other_added_tokens():
    words = {"<s>": 0, "</s>": 1, "a": 2}
    backend = Tokenizer(models.BPE(words, []))
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")

    # What it puts behind a text is no part of a prompt.
    assert encode_prompts(tokenizer, ["aa", ""]) == [[0, 2, 2], [0]]


def test_bytes_are_numbered_in_the_order_of_their_characters():
    ids = encode_all(BYTES, ["!a "])[0]

    # Behind the two special tokens; a space is Ġ, one of those behind Latin-1.
    assert ids[:2] == [2, 2 + ord("a") - ord("!")]
    assert sorted({*BYTES.get_vocab().values()}) == [*range(258)]
    assert ids[2] > ids[1]


def test_a_word_and_its_space_are_split_into_bytes():
    # However a tokenizer would cut words: each byte is a token.
    text = "it's  1 a\n\nb"

    assert encode_all(BYTES, [text])[0] == [encode_all(BYTES, [one])[0][0] for one in text]


def test_texts_round_trip_with_spaces():
    tokenizer = character_tokenizer(characters="ab .,'n", words=["<x>"])

    assert decode_rows(tokenizer, encode_all(tokenizer, ["a . b , a n'b <x>"])) == [
        "a . b , a n'b <x>"
    ]
    assert decode_rows(tokenizer, [[1, 2, 0], []]) == ["a", ""]


def test_a_model_may_have_fewer_ids_than_its_tokenizer():
    # <pad>, <eos>, a and b, of which the model has no b.
    barred = suppressed_token_mask(character_tokenizer(characters="ab"), 3)

    assert barred.tolist() == [True, False, False]


def test_preference_tokens_are_suppressed():
    tokenizer = preference_tokenizer(
        tokenizer=character_tokenizer(characters="a"), num_objectives=2, levels=2
    )

    barred = suppressed_token_mask(tokenizer, len(tokenizer))

    # <pad>, and three points of the lattice; <eos> and a may be drawn.
    assert barred.tolist() == [True, False, False, True, True, True]


def test_remote_code_is_never_run(tmp_path, monkeypatch):
    asked = []

    class Loader:
        @staticmethod
        def from_pretrained(path, **settings):
            asked.append(settings)
            return byte_tokenizer()

    BYTES.save_pretrained(tmp_path)
    monkeypatch.setattr("rlcomp.text.tokenizer._class_of", lambda path: Loader)

    load_tokenizer(path=str(tmp_path))

    assert [settings["trust_remote_code"] for settings in asked] == [False]


def test_without_bos_an_empty_prompt_is_eos():
    assert encode_prompts(character_tokenizer(characters="ab"), ["b", ""]) == [[3], [1]]


@pytest.mark.parametrize("tokenizer", [BYTES, character_tokenizer(characters="a ")])
def test_a_surrogate_raises_with_the_remedy(tokenizer):
    with pytest.raises(DataError, match=r"no tokenizer can write '\\ud800' .*; repair the text"):
        encode_all(tokenizer, ["a \ud800"])


def test_ids_without_a_token_and_the_pad_token_are_suppressed():
    # <pad> 0, <eos> 1, a 2, b 3; 4 and 5 stand for nothing.
    suppressed = suppressed_token_mask(character_tokenizer(characters="ab"), 6)

    assert suppressed.tolist() == [True, False, False, False, True, True]


def test_a_pad_token_that_is_eos_is_not_suppressed():
    assert suppressed_token_mask(tokenizer_with_bos(adds_it=True), 5) is None


def test_further_tokens_are_suppressed():
    tokenizer = character_tokenizer(characters="ab")  # <pad> 0, <eos> 1, a 2, b 3

    suppressed = suppressed_token_mask(tokenizer, 5, suppressed_tokens=[tokenizer.eos_token_id, 3])

    assert suppressed.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("other", [-1, 5])
def test_suppressed_ids_beyond_the_vocabulary_raise(other):
    with pytest.raises(ConfigError, match=rf"suppressed_tokens holds {other}, .* 0 to 4$"):
        suppressed_token_mask(character_tokenizer(characters="ab"), 5, suppressed_tokens=[other])


def test_tokens_after_a_gap_in_the_ids_are_not_suppressed():
    backend = Tokenizer(models.WordLevel({"a": 0, "<end>": 3}))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")

    assert suppressed_token_mask(tokenizer, 5).tolist() == [False, True, True, False, True]


def test_words_are_one_token_each_and_the_longest_matches():
    tokenizer = character_tokenizer(characters="ab<>", words=["<a>", "<a>b", "."])

    assert encode_all(tokenizer, ["<a>ba<a>.<b>"])[0] == [7, 2, 6, 8, 4, 3, 5]
    assert tokenizer.decode([7, 2, 6, 8, 4]) == "<a>ba<a>.<"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ab", "ab"], "words holds 'ab' more than once"),
        (["a"], "words holds 'a' more than once"),
        (["<eos>"], "words holds '<eos>' more than once"),
    ],
)
def test_repeated_words_raise(words, told):
    with pytest.raises(ConfigError, match=told):
        character_tokenizer(characters="ab", words=words)


def test_an_answer_that_spells_an_end_is_encoded_without_it():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<|end|>", "<|pad|>", "<|tool|>", *letters]
    backend = Tokenizer(models.BPE({name: n for n, name in enumerate(names)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|end|>", pad_token="<|pad|>"
    )
    spelled = {text: [names.index(one) for one in text] for text in ("a<|end|>", "<|pad|>")}

    rows = answer_ids(tokenizer, ["ab", *spelled])

    assert rows == [[names.index("a"), names.index("b")], *spelled.values()]
