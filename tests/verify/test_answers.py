import time

import pytest

from rlcomp.verify.answers import extract


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{6}.", "6"),
        (r"\boxed{ \frac{1}{2} }", r"\frac{1}{2}"),
        (r"\boxed{}", ""),
        (r"\boxed{6} and again \boxed{ 6 }", "6"),
        (r"\boxed{6}</think>\boxed{7}", "7"),
        (r"a</think>\boxed{6}</think>\boxed{7}", "7"),
        (r"\boxed{\boxed{6}}", r"\boxed{6}"),
        (r"\boxed{6} or \boxed{7}", None),
        (r"\boxed{6}</think>7", None),
        (r"\boxed{6", None),
        (r"\boxed 6", None),
        ("6", None),
        ("\\boxed{\ud800}", "\ud800"),
    ],
)
def test_a_boxed_answer(response, answer):
    assert extract(response, "boxed") == answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<answer> 6\n</answer>", "6"),
        ("<answer>6</answer> <answer>6 </answer>", "6"),
        ("<answer>6</answer></think><answer>7</answer>", "7"),
        ("<answer>6</answer><answer>7</answer>", None),
        ("<answer>6<answer>7</answer>", "7"),
        ("<answer>6", None),
        ("<ANSWER>6</ANSWER>", None),
    ],
)
def test_a_tagged_answer(response, answer):
    assert extract(response, "tagged") == answer


def test_another_end_of_thoughts():
    assert extract(r"\boxed{6}|\boxed{7}", "boxed", think_end="|") == "7"


@pytest.mark.parametrize("piece", [r"\boxed{", r"\boxed{1}", "{", "}", "<answer>", "<answer>1"])
def test_hostile_text_of_100_000_characters_is_read_in_linear_time(piece):
    text = (piece * 100_000)[:100_000]
    start = time.thread_time()

    extract(text, "boxed")
    extract(text, "tagged")

    assert time.thread_time() - start < 20  # 0.1 s; quadratic copies took minutes
