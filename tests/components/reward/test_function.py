import functools
import gc

import numpy as np
import pytest
import torch

from components.reward.function import FunctionReward
from rlcomp.batch import encode_texts
from rlcomp.data.examples import prompt_batch
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example


def row(prompt, response, answer, **columns):
    return {**columns, "prompt": prompt, "response": response, "answer": answer}


def test_a_function_gets_the_arguments_it_names():
    def score(answer, prompt):
        return float(prompt == "p" and answer == "a")

    assert FunctionReward(function=score).score_row(row("p", "r", "a")) == 1.0


def test_optional_arguments_of_its_own_keep_their_defaults():
    def score(response, *, limit=3, **rest):
        assert not rest
        return float(len(response) <= limit)

    assert FunctionReward(function=score).score_row(row("", "four", "")) == 0.0


def test_an_object_that_can_be_called_is_a_function():
    class Length:
        def __call__(self, response):
            return float(len(response))

    assert FunctionReward(function=Length()).score_row(row("", "abc", "")) == 3.0


def test_none_means_that_it_cannot_be_judged():
    assert FunctionReward(function=lambda response: None).score_row(row("", "", "")) is None


def test_an_exception_of_the_function_stops_the_run():
    def broken(response):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        FunctionReward(function=broken).score_row(row("", "", ""))


def test_a_function_gets_the_columns_it_names():
    def score(response, unit_tests):
        return float(response in unit_tests)

    scored = FunctionReward(function=score).score_row(
        row("", "2", "", unit_tests=["1", "2"], level=3)
    )

    assert scored == 1.0


def test_a_parameter_with_a_default_takes_an_existing_column():
    reward = FunctionReward(function=lambda response, limit=3: float(len(response) <= limit))

    assert reward.score_row(row("", "four", "", limit=4)) == 1.0
    assert reward.score_row(row("", "four", "")) == 0.0


def test_double_star_gets_all_columns_that_are_not_named():
    def score(answer, level, **columns):
        assert (answer, level, columns) == ("a", 3, {"tests": [1], "rubric": "kind"})
        return 1.0

    columns = {"level": 3, "tests": [1], "rubric": "kind"}

    assert FunctionReward(function=score).score_row(row("p", "r", "a", **columns)) == 1.0


def test_a_bound_argument_is_not_replaced_by_a_column():
    def score(response, weight, **columns):
        assert columns == {"level": 1}
        return weight

    fixed = functools.partial(score, weight=0.5)

    @functools.wraps(fixed)  # as a config's partial comes
    def named(**arguments):
        return fixed(**arguments)

    for function in (fixed, named):
        reward = FunctionReward(function=function)
        assert reward.score_row(row("", "", "", weight=9.0, level=1)) == 0.5


def test_a_column_that_the_example_lacks_is_named_beside_those_it_has():
    reward = FunctionReward(function=lambda unit_test: 0.0)

    with pytest.raises(ConfigError, match=r"needs 'unit_test', .* 'unit_tests'\? \(known: answer,"):
        reward.score_row(row("", "", "", unit_tests=[]))


def test_the_function_gets_the_columns_of_each_row():
    examples = [
        Example("a", "", "", columns={"allowed": ["x", "y"]}),
        Example("b", "", "", columns={"allowed": ["y"]}),
    ]
    batch = prompt_batch(examples)
    batch["response"] = encode_texts(["x", "x"])

    result = FunctionReward(function=lambda response, allowed: float(response in allowed))(batch)

    assert result["reward"].tolist() == [1.0, 0.0]


def test_positional_only_parameters_are_refused():
    with pytest.raises(ConfigError, match="parameter 'text' is positional-only"):
        FunctionReward(function=lambda text, /: 0.0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "function is 3: must be a function"),
        ({1, 2}, r"function is \{1, 2\}: must be callable"),
    ],
)
def test_objects_that_cannot_be_called_are_refused(value, message):
    with pytest.raises(ConfigError, match=message):
        FunctionReward(function=value)


def test_the_part_has_the_name_given():
    assert FunctionReward(function=lambda: 0.0, name="length").name == "length"
    assert FunctionReward(function=lambda: 0.0).name == "function"


def test_a_function_without_visible_parameters_is_refused_with_the_remedy():
    result = r"function is <built-in function max>: its parameters .* def score\(response\)"
    with pytest.raises(ConfigError, match=result):
        FunctionReward(function=max)


async def awaited(response):
    return 1.0


async def streamed(response):
    yield 1.0


class Awaited:
    async def __call__(self, response):
        return 1.0


@functools.wraps(awaited)
def wrapped(*args, **kwargs):
    return awaited(*args, **kwargs)


@pytest.mark.parametrize(
    "function", [awaited, streamed, Awaited(), functools.partial(wrapped, response="a")]
)
def test_an_async_function_is_refused_before_it_is_called(function):
    with pytest.raises(
        ConfigError, match="an async function, which is not awaited: make it a plain"
    ):
        FunctionReward(function=function)


def judged(returned):
    batch = prompt_batch([Example("p", "a", "")])
    batch["response"] = encode_texts(["four"])
    return FunctionReward(function=lambda response: returned)(batch)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("1.0", "scored 'four' with '1.0', a str: must be a number, or None"),
        (b"1", "with b'1', a bytes: must be a number"),
        ([1.0], r"with \[1.0\], a list: must be a number"),
        (1j, "a complex: must be a number"),
        (torch.ones(2), "a Tensor: must be a number"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_score_that_is_no_number_is_refused(returned, message):
    with pytest.raises(ConfigError, match=message):
        judged(returned)


def test_a_coroutine_that_a_plain_function_returns_is_refused_and_closed(recwarn):
    with pytest.raises(ConfigError, match=r"<coroutine object awaited .*, a coroutine: must be a"):
        judged(awaited("four"))

    gc.collect()
    assert not recwarn.list


# 3.4028235e38 is the largest float32; numbers nearer to it than to infinity round to it.
@pytest.mark.parametrize("returned", [1e39, -3.4029e38, 10**400, 10**5000, float("inf")], ids=type)
def test_a_score_that_float32_cannot_hold_is_refused(returned):
    with pytest.raises(
        DataError, match=r"FunctionReward: .* scored 'four' with .*infinite in float32"
    ):
        judged(returned)


@pytest.mark.parametrize(
    ("returned", "reward"),
    [(True, 1.0), (3, 3.0), (torch.tensor(0.5), 0.5), (np.float32(0.25), 0.25), (3.4e38, 3.4e38)],
)
def test_a_score_may_be_any_number(returned, reward):
    result = judged(returned)

    assert result["reward"].item() == pytest.approx(reward)
    assert result["reward_valid"].item()


@pytest.mark.parametrize(
    "returned", [None, float("nan"), np.float64("nan"), torch.tensor(torch.nan)]
)
def test_a_score_that_is_none_or_nan_is_invalid_and_not_0(returned):
    assert not judged(returned)["reward_valid"].item()


def boxed(response):
    return (1.0, {"length": len(response)})


held = functools.partial(boxed)
wrapping = functools.wraps(held)(lambda response: held(response))  # as a config's partial comes


@pytest.mark.parametrize("function", [held, wrapping])
def test_a_message_names_the_function_that_a_partial_holds(function):
    called = FunctionReward(function=function)

    assert called.function_name == "boxed"
    with pytest.raises(ConfigError, match=r"boxed \(.*test_function.py:\d+\) scored 'four' with"):
        called.write_scores(*scored_by(called))


def test_a_score_in_a_container_names_the_remedy():
    called = FunctionReward(function=boxed)

    with pytest.raises(ConfigError, match=r"a tuple: .*; return its first entry"):
        called.write_scores(*scored_by(called))


def test_a_score_in_a_text_names_the_conversion():
    called = FunctionReward(function=lambda response: "0.5")

    with pytest.raises(ConfigError, match=r"a str: .*; convert the text by float\(...\)"):
        called.write_scores(*scored_by(called))


def scored_by(reward):
    rows = [row("", "four", "")]
    batch = prompt_batch([Example("", "", {})])
    batch["response"] = encode_texts(["four"])
    return batch, rows, [reward.score_row(one) for one in rows]
