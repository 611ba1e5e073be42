"""A relation, a denial, a quantifier, a bound or a base beside the gold value is another answer."""

import pytest

from rlcomp.verify.number import committed_number, numeric
from rlcomp.verify.qualifiers import is_qualified, is_related, words_around
from rlcomp.verify.short_answer import short_answer
from rlcomp.verify.symbolic import symbolic

QUALIFIED = [
    *(r"\neq 17", r"\ne 17", r"\not= 17", r"\not\!=17", "!= 17", "<> 17", "=/= 17", "≠17"),
    *(r"\geq 17", r"\geqslant 17", r"\gtrsim 17", r"\leq17", r"\ll 17", "≥ 17", "⩽17", "\uff1e17"),
    *("> 17", "<17", ">= 17", "=< 17", "x => 17", "&gt; 17", "17 <", "17 < x", r"17 \geq x"),
    *(r"\sim 17", "~17", "\u223c17", r"\propto 17", r"\not 17", r"\neg 17", r"\lnot(17)", "¬17"),
    *(r"\exists 17", r"\nexists 17", "∃17", "∀ 17", r"\in 17", r"\notin 17", "∉17", r"\ngtr 17"),
    *(r"\pm 17", r"\mp 17", "±17", "∓17", "+/-17", r"17 \pm 1", "17±", r"\overline{17}"),
    *("not 17", "isn't 17", "not equal to 17", r"\text{not } 17", "anything but 17", "never 17"),
    *("at least 17", "at most 17", "less than 17", r"\text{more than }17", "no fewer than 17"),
    *("17 or more", "17+", "17 and up", "17 at most", "minus 17", "17 is wrong", "up to 17"),
    *("17_8", "17_{8}", "17₈", "17 base 8", "17 in base 8", r"17_{\text{eight}}", "0x17"),
    *(
        "17²",
        "17⁰",
        "17½",
        "17⅓",
        "17·5",
        "17\uff0c8",
        "17、8",
        "17\u20132",
        "17\u0660",
        "\uff0d17",
        "√17",
        "17π",
    ),
    *("17 squared", "17 and a half", "17 and two thirds", "17 point five", "17 plus one", "17ish"),
    *("half of 17", "twice 17", "the square root of 17", "any number but 17", "17 (false)"),
    *(r"\log 17", r"17\pi", r"17\text{.5}", r"17\text{+1}", r"17\text{5}", r"17\text{ million}"),
    *(r"17\vee8", r"17\land8", r"17\lor8"),
    *("(17, \\infty)", "≈ 17", r"\approx 17", r"x \approx 17", "about 17", "17 (octal)"),
]
SOUGHT = [
    *(r"f'(2) = 17", r"m\angle A = 17^\circ", r"\max f = 17", r"P(A \cap B) = 17", r"\#A = 17"),
    *(r"\ell = 17", r"\dim V = 17", r"\lVert v\rVert = 17", r"\lim_{x\to 0} f(x) = \max g = 17"),
]
HONEST = [
    "17",
    "17.",
    "= 17",
    "x = 17",
    r"\frac{34}{2}",
    r"17\%",
    "17 cm",
    r"17 \text{ m}^2",
    "17 m²",
    "\uff11\uff17",
    "\u0663\u0664/2",
    r"\text{17}",
    r"17 \text{ km/h}",
    "+17",
]


@pytest.fixture(scope="module")
def library():
    pytest.importorskip("math_verify")


@pytest.mark.parametrize("text", QUALIFIED)
def test_a_qualified_value_is_not_the_value(text, library):
    assert symbolic(rf"\boxed{{{text}}}", "17") == 0.0
    assert numeric(f"#### {text}", "17") == 0.0
    assert numeric(rf"\boxed{{{text}}}", "17") == 0.0
    assert short_answer(text, ["17"]) == 0.0


@pytest.mark.parametrize("text", HONEST)
def test_an_honest_form_is_the_value(text, library):
    assert symbolic(rf"\boxed{{{text}}}", "17") == 1.0
    assert numeric(f"#### {text}", "17") == 1.0


@pytest.mark.parametrize("text", SOUGHT)
def test_the_quantity_sought_qualifies_no_value(text):
    assert not is_qualified(text, "17")


@pytest.mark.parametrize(
    "text", ["→ 17", "⇒ 17", r"\Rightarrow 17", r"\implies 17", r"17\checkmark"]
)
def test_an_arrow_and_a_tick_qualify_no_value(text, library):
    assert symbolic(rf"\boxed{{{text}}}", "17") == 1.0
    assert symbolic(rf"\boxed{{16 {text}}}", "16") == 0.0


@pytest.mark.parametrize("text", [r"17 \mathrm{~cm}", r"17\text{~m}", r"17~\mathrm{kg}"])
def test_a_tie_in_front_of_a_unit_is_no_relation(text, library):
    assert symbolic(rf"\boxed{{{text}}}", "17") == 1.0


@pytest.mark.parametrize(
    "text", ["≈ 1.5", r"\approx 1.5", "about 1.5", "approximately $1.5$", "x ≈ 1.5"]
)
def test_a_decimal_fraction_may_be_rounded(text, library):
    assert numeric(f"The answer is {text}", "1.5") == 1.0
    assert not is_qualified(text, "1.5")
    assert is_qualified(text.replace("1.5", "2"), "2")
    assert numeric(f"The answer is {text}", "1.25") == 0.0


@pytest.mark.parametrize(
    ("gold", "answer", "qualified"),
    [
        (r"x \neq 7", "x ≠ 7", False),
        (r"x \neq 7", "x != 7", False),
        (r"x \neq 7", r"x \not= 7", False),
        (r"x > 7", "7 < x", False),
        (r"x > 7", r"x \not> 7", True),
        ("x > 7", "x > 7_8", True),
        (r"(-\infty, 3) \cup (3, \infty)", r"x \ne 3", False),
        ("(1, 2)", "1 < x < 2", False),
        ("1, 2", r"x \in \{1, 2\}", False),
        ("1,000", r"\geq 1000", True),  # a comma of thousands is no list
        (r"1,\!000", r"\neq 1000", True),
        ("1, 2", "> 1, 2", True),
        (r"4 \pm 2", "4 ± 2", False),
        (r"\text{No}", "No", False),
        (r"\text{at least } 7", "at least 7", False),
        ("7", r"\text{at least } 7", True),
        (r"\approx 3.14", "≈ 3.14", False),
        ("7", r"\neg x = 7", True),
        ("7", r"\exists x = 7", True),
        ("7", r"x \neq 6 = 7", True),
        ("7", r"x = \pm 7", True),
        ("7", "7 = x'", True),
        ("7", r"\text{~}7", True),
        (r"\exists x", "∃ x", False),
        ("17_8", "17", True),  # it is 15
        ("17_8", "15", True),  # which nobody computes here
        (r"17_{8}", "17₈", False),
        ("0x17", "17_{16}", False),
        ("17_{16}", "17", True),
        ("7", "7_{10}_8", True),
        ("7", "7_{10}", False),
        ("7", "7₁₀₈", True),
        ("7_{10}", "7", False),
        ("7", "{7}_8", True),
        ("a_1", "a_1", False),
        ("17_8", "17 base 8", False),
        ("17_8", r"17 \text{ in base eight}", False),
        ("17 in base 8", "17", True),
        ("17 in base 8", "17_8", False),
        ("17 in base 8", "17 in base 9", True),
        (r"101 \text{ (binary)}", "101_2", False),
        (r"101 \text{ (binary)}", "101", True),
        ("17_8", "17 base 8 or so", True),
        ("17", "17 base 10", False),
        ("17", "17 base x", True),
        ("17", "17 mod 8", True),
        ("17_8", "17_{8}", False),
        ("17_8", r"17_{\text{eight}}", False),
        ("17_8", "17_9", True),
        ("17_8", "15_{10}", True),
        ("17", "17_{10}", False),
        (r"\log_2 8", r"\log_{2} 8", False),
        ("x_1 + 1", "x_1 + 1", False),
        ("B", "B'", True),
        ("f'(x)", "f'(x)", False),
        ("12", r"12~\text{cm}", False),
        ("12", "x~12", True),
        ("12", r"12 \mid x", True),
        ("|x|", "|x|", False),
        ("12", "12 | x", True),
        ("7!", "7!", False),
        ("7", "!7", True),
        ("7", r"5.4 \text{ cents}", False),  # n't ends no cent
        ("7", r"\frac{\neq 14}{2}", True),
        ("7", "7^{+}", True),
        ("7", "7^{-1}", False),
        ("7", "7..", True),
        ("7", r"\\neq 7", True),
        ("7", r"\zeta\, 7\quad\therefore\sqrt{7}", False),
        ("7", "7 米", False),
    ],
)
def test_qualifiers_of_the_gold_answer_are_allowed(gold, answer, qualified):
    assert is_qualified(answer, gold) is qualified


def test_a_worked_solution_allows_only_the_qualifiers_of_its_answer(library):
    assert symbolic(r"\boxed{> 7}", r"As $x > 6$, it is $\boxed{7}$.") == 0.0
    assert symbolic(r"\boxed{\geq 7}", r"As $x \geq 6$, it is $7$.") == 0.0
    assert symbolic(r"\boxed{7 < x}", r"So it is $\boxed{x > 7}$.") == 1.0


@pytest.mark.parametrize(
    ("response", "score"),
    [
        (r"The answer is $\neq 7$.", 0.0),
        ("The answer is > 7", 0.0),
        (r"The answer is \boxed{\geq 7}", 0.0),
        (r"\boxed{\not 7}", 0.0),
        ("The answer is not 7", 0.0),
        ("The answer is 7_8", 0.0),
        (r"so $\sim 7$", 0.0),
        ("As $x > 3$, it is $7$.", 1.0),
        (r"$x \approx 7$", 1.0),  # math-verify's own case
        ("The answer is 7. As x > 3, it is right", 1.0),
    ],
)
def test_anywhere_the_last_formula_is_not_related(response, score, library):
    assert symbolic(response, "7", where="anywhere") == score


def test_a_formula_is_related_by_signs_bases_and_words():
    assert is_related("7_8", "7")
    assert is_related("not 7", "7")
    assert not is_related(r"\underset{x}{7}", "7")


@pytest.mark.parametrize(
    "text",
    [
        "so 17 are not red",
        "The answer is nothing but 17",
        "The answer is nothing other than 17",
        "the minimum value is 17",
        "The maximum number is 17.",
        "it is spread over 17 days",
        "it takes about 17 days",
        "17<|im_end|>",
        "#### 17</s>",
        r"\boxed{17^\circ}",
        r"\boxed{\mathbf{17}}",
        "-> 17",
        "→ 17",
        "∴ 17",
        "Great! 17 apples",
        "The answer is 17, which is more than before.",
        "He cannot know. The answer is 17.",
        "She ate not only pears so 17",
        "A: 10/0.6 ≈ 17",
        "every 17 days",
        r"\boxed{\textcolor{red}{17}}",
    ],
)
def test_words_beside_no_number_deny_none(text):
    assert numeric(text, "17", where="last") == 1.0


@pytest.mark.parametrize("word", ["below", "over", "around", "Under", "beyond", "near", "past"])
def test_a_bound_of_the_whole_answer_is_no_number(word):
    assert numeric(f"{word} 17", "17", where="last") == 0.0
    assert numeric(f"Let me see. {word} 17.", "17", where="last") == 0.0
    assert numeric(f"so x is {word} 17", "17", where="last") == 0.0
    assert numeric(f"so x = {word} 17", "17", where="last") == 0.0
    assert numeric(f"it went {word} 17 trees", "17", where="last") == 1.0


@pytest.mark.parametrize(
    "text", ["not about 1.5", "≠ ≈ 1.5", "> 1.5", "more than about 1.5", "~1.5"]
)
def test_a_rounded_number_may_be_bounded(text):
    assert numeric(f"#### {text}", "1.5") == 0.0
    assert is_qualified(text, "1.5")


@pytest.mark.parametrize(
    ("text", "gold"),
    [("7²", "49"), ("2⁻¹", "0.5"), ("7½", "7.5"), ("7·5", "35"), ("7÷2", "3.5"), ("9\u20132", "7")],
)
def test_signs_of_unicode_are_read_as_latex(text, gold, library):
    assert symbolic(rf"\boxed{{{text}}}", gold) == 1.0


def test_a_gold_answer_in_words_is_read():
    assert numeric("7", "at least 7", where="last") == 1.0
    assert numeric("7", "about 7", where="last") == 1.0
    assert committed_number("at least 7", where="last") is None


@pytest.mark.parametrize(("text", "gold"), [("#### 0xb", "0"), ("#### 11₂", "11"), ("0x11", "11")])
def test_digits_of_another_base_are_no_number(text, gold):
    assert numeric(text, gold, where="last") == 0.0


def test_a_sign_of_denial_is_no_factorial():
    assert numeric("#### !7", "7") == 0.0
    assert numeric("#### Great! 7", "7") == 1.0


def test_words_of_a_short_answer_are_denied():
    def contains(text):
        return short_answer(text, ["Rome"], metric="contains")

    assert contains("It is not Rome") == contains("never the Rome") == contains(r"\neq Rome") == 0
    assert contains("not Paris but Rome") == contains("Rome, not Paris") == 1
    assert contains("not Rome, no, Rome") == 1


def test_a_fraction_and_a_base_are_no_longer_numbers():
    assert short_answer("7/8", ["78"]) == short_answer("7_8", ["78"]) == 0.0
    assert short_answer("7^8", ["78"]) == short_answer("7_{8}", ["78"]) == 0.0
    assert short_answer("7/8", ["7/8"]) == 1.0
    assert short_answer("and/or", ["andor"]) == 1.0


@pytest.mark.parametrize(
    ("formula", "gold", "related"),
    [
        ("17_{10}", "17", False),
        ("17_8", "17", True),
        ("17_8", "17_8", False),
        ("17_{10}", "17_8", True),
    ],
)
def test_a_formula_is_related_by_another_base_than_that_of_the_gold(formula, gold, related):
    assert is_related(formula, gold) is related


def test_a_word_before_counts_with_any_text_after_it():
    text = "at least 7" + " in all of the years" * 10

    assert words_around(text, 9, 10, loose=False) == {"at least"}


def test_a_word_before_counts_with_any_text_before_it():
    text = "it goes on and on " * 10 + "at least 7"

    assert words_around(text, len(text) - 1, len(text), loose=False) == {"at least"}
