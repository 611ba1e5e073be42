"""Filter of the overrides that a config refuses."""

import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf

from rlcomp.config.overrides import filter_overrides, typed_words, with_base


def composing(bad, told="{}"):
    """Refuses the first of the bad words that it meets."""
    calls = []

    def compose(texts):
        calls.append([*texts])
        for text in texts:
            if text in bad:
                raise HydraException(told.format(text))
        return OmegaConf.create({"texts": [*texts]})

    return compose, calls


def names(refused):
    return [word for word, _ in refused]


def test_without_a_fault_all_are_known():
    compose, calls = composing([])

    config, refused = filter_overrides(compose, ["a=1", "b=2"])
    assert (config.texts, refused) == (["a=1", "b=2"], [])
    assert len(calls) == 1


@pytest.mark.parametrize("told", ["no {}", "there is no '{0:.1}' here"])
def test_each_word_that_is_refused_comes_with_its_error(told):
    compose, _ = composing(["b=2", "d=4"], told)

    config, refused = filter_overrides(compose, ["a=1", "b=2", "c=3", "d=4"])

    assert config.texts == ["a=1", "c=3"]
    assert sorted(names(refused)) == ["b=2", "d=4"]
    assert all(isinstance(error, HydraException) for _, error in refused)


def test_a_word_with_a_sign_is_known_by_its_key():
    for word in ("+b=2", "~b", "++b=2"):
        compose, calls = composing([word], "Could not override 'b'.")

        config, refused = filter_overrides(compose, ["a=1", word])
        assert (config.texts, names(refused)) == (["a=1"], [word])
        assert calls == [["a=1", word], ["a=1"]]  # it was not tried out


def test_of_words_that_no_error_names_the_one_without_which_it_is_another():
    def compose(texts):
        if "b=2" in texts:
            raise HydraException("ill")
        if "a=1" in texts:
            raise HydraException("bad 'a'")
        return OmegaConf.create({"texts": [*texts]})

    config, refused = filter_overrides(compose, ["a=1", "b=2", "c=3"])

    assert config.texts == ["c=3"]
    assert [(word, str(error)) for word, error in refused] == [("b=2", "ill"), ("a=1", "bad 'a'")]


def test_what_no_word_is_to_blame_for_is_raised():
    def compose(texts):
        raise HydraException("no folder")

    with pytest.raises(HydraException, match="no folder"):
        filter_overrides(compose, ["a=1"])
    with pytest.raises(HydraException, match="no folder"):
        filter_overrides(compose, [])


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["a=1"], []),
        (["base="], []),
        (["base=null"], []),
        (["base=x", "base=null"], []),
        (["-m", "base=x,y"], ["model=pretrained", "tokenizer=pretrained"]),
        (["+base=x"], ["model=pretrained", "tokenizer=pretrained"]),
        (["model=soup", "base=x"], ["tokenizer=pretrained"]),
        (["base=x", "tokenizer=byte"], ["model=pretrained"]),
        (["based=x"], []),
    ],
)
def test_base_chooses_model_and_tokenizer_unless_they_are_chosen(words, more):
    assert with_base(words) == [*words, *more]


@pytest.mark.parametrize(
    "typed", [["base=a"], ["base=a", "model=soup"], ["tokenizer=bpe", "base=a"]]
)
def test_the_choices_that_base_adds_were_not_typed(typed):
    assert typed_words(with_base(typed)) == typed


def test_without_base_every_word_was_typed():
    assert typed_words(["seed=1", "model=pretrained"]) == ["seed=1", "model=pretrained"]
