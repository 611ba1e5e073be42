import re

from hypothesis import given
from hypothesis import strategies as st

from components.worlds.expression.task import Expression

FORM = r"x\*[2-9][+-][1-9]|x[+-][1-9]|x\*[2-9]|[1-9]-x|x\*x[+-][1-9]"


@given(st.integers(0, 9_999))
def test_the_demonstration_has_a_form_and_gives_the_pairs_and_the_tests(index):
    example = Expression().example(index)

    assert re.fullmatch(FORM, example.demonstration)
    # eval: only x, digits and signs passed the line above.
    value = eval(f"lambda x: {example.demonstration}")
    pairs = [tuple(map(int, each.split(":"))) for each in example.prompt[:-1].split(",")]
    assert example.prompt[-1] == ">"
    assert len({x for x, _ in pairs}) == 3
    assert all(1 <= x <= 5 and y == value(x) for x, y in pairs)
    assert example.columns == {
        "inputs": [[0], [1], [3], [7], [11]],
        "outputs": [value(x) for x in (0, 1, 3, 7, 11)],
    }
    assert example.answer == example.demonstration


def test_all_forms_numbers_and_places_occur():
    examples = [Expression().example(index) for index in range(6_000)]
    texts = {example.demonstration for example in examples}

    # 8 a and 9 b: 72 of x*a+b and of x*a-b, 8 of x*a, 9 of each of the five others.
    assert len(texts) == 72 + 72 + 8 + 5 * 9
    assert {text[0] for e in examples for text in e.prompt[:-1].split(",")} == set("12345")


def test_an_index_always_makes_the_same_prompt_and_most_differ():
    task = Expression()

    assert task.example(5) == Expression(size=6).example(5)
    assert len({task.example(index).prompt for index in range(200)}) > 180
    assert (len(task), len(Expression(size=6)), task.held_out) == (10_000, 6, 0.1)
