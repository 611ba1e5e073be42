import pytest

from components.reward.function import Function
from rlcomp.errors import ConfigError


def test_a_function_gets_the_arguments_it_names():
    def score(answer, prompt):
        return float(prompt == "p" and answer == "a")

    assert Function(function=score).score("p", "r", "a") == 1.0


def test_optional_arguments_of_its_own_keep_their_defaults():
    def score(response, *, limit=3, **rest):
        assert not rest
        return float(len(response) <= limit)

    assert Function(function=score).score("", "four", "") == 0.0


def test_an_object_that_can_be_called_is_a_function():
    class Length:
        def __call__(self, response):
            return float(len(response))

    assert Function(function=Length()).score("", "abc", "") == 3.0


def test_none_means_that_it_cannot_be_judged():
    assert Function(function=lambda response: None).score("", "", "") is None


def test_an_exception_of_the_function_stops_the_run():
    def broken(response):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Function(function=broken).score("", "", "")


def test_an_argument_that_no_reward_has_is_refused():
    with pytest.raises(ConfigError, match=r"needs 'completion'; .* prompt, response, answer"):
        Function(function=lambda completion: 0.0)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ConfigError, match="function is 3: must be callable"):
        Function(function=3)


def test_the_part_has_the_name_given():
    assert Function(function=lambda: 0.0, name="length").name == "length"
    assert Function(function=lambda: 0.0).name == "function"
