import json
import sys
import time

import pytest

from components.reward.answer import Symbolic
from rlcomp.batch import encode_texts
from rlcomp.errors import MissingExtra
from rlcomp.testing import make_batch
from rlcomp.verify.math_cost import is_costly, is_large
from rlcomp.verify.math_text import chain_values, is_hedge
from rlcomp.verify.symbolic import _gold_formula, symbolic
from rlcomp.workers.pool import WorkerPool


@pytest.fixture(scope="module", autouse=True)
def library():
    try:
        Symbolic()
    except MissingExtra as missing:
        pytest.skip(str(missing))
    symbolic(r"\boxed{1}", "1")  # imports of the first call are not timed


EQUAL = [
    (r"\frac12", "0.5"),
    ("1/3", "0.333333"),
    ("1 + x", "x + 1"),
    (r"(x+1)^{10}", "(1+x)^{10}"),
    ("7", "(7)"),
    ("7", "x=7"),
    ("x=7", "7"),
    (r"\frac{5}{2}", r"\frac{10}{4} = 2.5"),
    (r"\frac{5}{2}", r"y = \frac{10}{4} = 2.5"),
    (r"\{1,2\}", r"\{2,1\}"),
    ("1,2", r"2 \text{ and } 1"),
    ("(1,2)", r"\left(1,2\right)"),
    ("9", r"9\%"),
    (r"\$32,\!348", "32348"),
    ("12", r"12 \text{ cm}^2"),
    (r"x \geq 5", r"5 \leq x"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}"),
    (r"\infty", r"\infty"),
    ("2^{2024}", "2^{2024}"),
    (r"\binom{10}{3}", r"\binom{10}{3}"),
    ("5!", "120"),
    ("120", "5!"),
    ("e^{x^2}", "e^{x^2}"),
    (r"so it is \boxed{7}", "7"),
    ("worked out it is $7$", "7"),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal_in_mathematics_is_right(gold, answer):
    assert symbolic(rf"so \boxed{{{answer}}}", gold) == 1.0


DIFFERENT = [
    ("7", "8"),
    ("x+1", "x-1"),
    (r"\{1,2\}", "1"),
    ("[0,1)", "[0,1]"),
    (r"x \geq 5", r"x \leq 5"),
    (r"\frac12", "0.51"),
    (r"\frac12", "0.5000011"),
    ("1,2", "2"),
]


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different_values_are_wrong(gold, answer):
    assert symbolic(rf"so \boxed{{{answer}}}", gold) == 0.0


LETTERS = "abcdfghjklmnop"
HOSTILE = {
    "chains": [
        *("x=6=7", "6=7", "7=6", "x=1=2=3=4=5=6=7", "x=7=6", "a=6=b=7", "6 = 7 = 7", "x:=6=7"),
        *("6+1=8", r"6 \to 7", r"6 \implies 7", r"6 \equiv 7", r"6 \approx 7", "x=7=6, y=1"),
        *(r"\frac{14}{2}=6=7", "7=7=7=7=6"),
    ],
    "stuffing": [
        *(r"6 \text{ or } 7", "6,7", "6;7", r"\{6,7\}", r"6 \lor 7", r"x=6 \lor x=7", "x=6, x=7"),
        *(r"x=6 \text{ or } x=7", r"\pm 7", "7 or 6", "7/6, 7", "[6,7]", "(6,7)", "6 7", "67"),
        *(r"x \in \{6,7\}", r"7 \cup 6", r"\{7\} \cup \{6\}", r"7 \wedge 6", "6|7", "6:7", "x=6,7"),
        *(r"\begin{cases}6\\7\end{cases}", r"6\\7", "6\n7", r"1,2,\dots,7", "7...", "7 || 6"),
        *(r"\boxed{7}\boxed{6}", r"\text{7 or 6}", "7\\%6", "1,2,3,4,5,6,7", "$7$ or $6$", "7…8"),
        *("y=7,x=7,z=6", r"x=7 \text{ and } x=6"),
    ],
    "everything at once": [
        *(r"x \geq 7", "x < 7", r"x \neq 7", r"x \in \mathbb{R}", r"\mathbb{R}", r"\mathbb{Z}"),
        *("x", "x>0", "6<x<8", "True", "None", "any", "?", "", " ", "{}", "+", "-", r"\frac{7}"),
        *("7-", r"7\cdot", "7^", "7+"),
    ],
    "infinities": [
        *(r"\infty", "oo", r"-\infty", "nan", "NaN", "zoo", "1/0", r"\frac{7}{0}", r"\frac{0}{0}"),
        *("∞", "inf"),
    ],
    "towers": [
        *("7^{7^7}", "9^{9^{9^9}}", "9^{9^9}", "10^{10^{10}}", "10**10**10", "2^{999999999}"),
        *("(2^{99})^{9999}", "2^{10*10*10*10*10*10*10*10}", "2^{999+9}", r"2^{\frac{999999}{1}}"),
        *("e^{e^{e^{e^{9}}}}", r"\pi^{\pi^{\pi^{\pi}}}", "7^{x^{y^z}}", "2^(9^9)", "2^99999"),
        *("x^{11}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}^{99999}", "9**9**9", "9 ** 9 ** 9"),
        *("((((10^{999})^{10})^{10})^{10})^{10}", "10^{999}^{10}^{10}^{10}^{10}"),
        *(r"9^\left(9^{9}\right)", "9^ - {9^9}", r"9^\frac{1}{9^{-9}}", r"7+0\cdot(10^{999})^{9}"),
    ],
    "factorials": [
        *("999999!!", "999999!", "(9!)!", "9!!!", "((9!)!)!", "{9!}!", "99999999999!", "7!!"),
        *("9!^{9}", "201!", "9! !"),
    ],
    "evaluated": [
        *(r"\sum_{k=1}^{10000000} k", r"\prod_{k=1}^{9999999} k", r"\int_0^1 e^{x^x}\,dx"),
        *(r"\lim_{x\to 0} \frac{\sin x}{x}", r"\binom{9999999}{499999}", r"\Gamma(99999999)"),
        *(r"{9999999 \choose 4999999}", r"\frac{d}{dx}x^7", r"9999999999 \mod 7"),
        *(r"\lfloor 7.5 \rfloor", r"\operatorname{lcm}(7,1)", "∑ 7"),
    ],
    "nesting": [
        *("(" * 300 + "7" + ")" * 300, "(" * 11 + "7" + ")" * 11, r"\sqrt{" * 60 + "7" + "}" * 60),
        *(r"\frac{1}{" * 60 + "7" + "}" * 60, r"\sin(" * 14 + "x" + ")" * 14),
        r"\sin(" * 7 + "x" + ")" * 7 + r"+\cos(" * 3 + "x" + ")" * 3,
    ],
    "digits": ["7" * 2000, "7" * 201, "7" * 199, "7." + "0" * 190 + "1", "x" * 513],
    "expansions": [
        *(
            "(a+b+c)^{64}",
            "(x+1)^{1000}",
            "(a+b+c+d+e+f+g+h)^{10}",
            f"({'+'.join(LETTERS)})^{{10}}",
        ),
        *("*".join(f"(a+{c})" for c in LETTERS), "*".join(f"(a+b+c+{c})" for c in LETTERS[:8])),
        *(f"({'+'.join(LETTERS)})^{{9}}({'+'.join(LETTERS)})^{{9}}", "(x)" * 25),
        "+".join(rf"\frac{{1}}{{({a}+{b})^{{9}}}}" for a, b in ("ab", "cd", "fg", "hj")),
    ],
}
CASES = [pytest.param(answer, id=family) for family, some in HOSTILE.items() for answer in some]


@pytest.mark.parametrize("answer", CASES)
def test_a_hostile_answer_is_wrong_at_once(answer):
    start = time.thread_time()

    score = symbolic(rf"\boxed{{{answer}}}", "7")

    assert score == 0.0
    assert time.thread_time() - start < 20


def test_there_are_more_than_sixty_hostile_answers():
    assert len(CASES) >= 60


@pytest.mark.parametrize("response", ["7", "$7$", "the answer is 7", "\\(7\\)", r"\boxed{7"])
def test_a_bare_number_is_no_answer(response):
    assert symbolic(response, "7") == 0.0
    assert symbolic(response, "7", where="tagged") == 0.0


def test_the_place_of_the_answer():
    assert symbolic("<answer>14/2</answer>", "7", where="tagged") == 1.0
    assert symbolic(r"\boxed{7}</think>\boxed{6}", "7") == 0.0
    assert symbolic("so 6, then. The answer is 7, as 2 + 5.", "7", where="anywhere") == 1.0
    assert (
        symbolic(r"first \boxed{6}" + "\n" + r"then $\boxed{14/2}$.", "7", where="anywhere") == 1.0
    )
    assert symbolic("9^{9^{9^9}}", "7", where="anywhere") == 0.0


def test_decimals():
    assert symbolic(r"\boxed{0.333}", r"\frac13") == 0.0
    assert symbolic(r"\boxed{0.333}", r"\frac13", decimals=3) == 1.0


def test_a_gold_answer_that_cannot_be_read_makes_the_row_invalid():
    assert symbolic(r"\boxed{7}", "") is None


def test_costs_of_the_gold_answer_are_allowed():
    assert not is_costly("9" * 300, "9" * 300)
    assert not is_costly("(" * 12 + "x" + ")" * 12, "(" * 12 + "y" + ")" * 12)
    assert not is_costly("x^{40}", "y^{40}")
    assert is_costly("x^{41}", "y^{40}")
    assert not is_costly("1000!", "1000!")
    assert is_costly("1001!", "1000!")
    assert is_costly("y" * 513, "x")
    assert not is_costly("y" * 512, "x")
    assert not is_costly("(2^{200})^{10}+1", "(2^{200})^{10}")
    assert not is_costly("x^2^3", "x^2^3")
    assert not is_costly("200!", "1")
    assert not is_costly("n! != 1", "1")


def test_a_large_factorial_behind_an_allowed_one_is_costly():
    assert is_costly("1000! + 999999!", "1000!")
    assert not is_costly("1000! + 1000!", "1000!")


@pytest.mark.parametrize(
    ("piece", "most"),
    [("x", 512), ("7", 200), ("(x)", 24), (r"\pi ", 16)],
)
def test_sizes_up_to_a_bound_are_allowed(piece, most):
    assert not is_costly(piece * most, "1")
    assert is_costly(piece * (most + 1), "1")
    assert not is_costly("(" * 6 + "x" + ")" * 6, "1")
    assert is_costly("(" * 7 + "x" + ")" * 7, "1")


@pytest.mark.parametrize(
    ("answer", "too_much"),
    [
        ("2^{1000}", False),
        ("2^{1001}", True),
        ("22 ^ 1000", False),
        ("x^{10}", False),
        ("x^{11}", True),
        ("x2^{11}", False),
        ("(x)**10", False),
        ("(x)**11", True),
        ("2^{10}+99999", False),
        ("2^{10} x^{3} {99999}", False),
        ("2^{30 * 30}", False),
        ("2^{40 * 30}", True),
        ("2^{600 + 600}", True),
        ("2^{x}", False),
        ("2^{x^{y}}", True),
        ("2^x!", False),
        ("2^{x!}", True),
        ("2^-1000", False),
        ("2^-1001", True),
        ("2^{n}5000", False),
        ("2^n 5000", False),
        ("2^", False),
        ("(2^{10})^{10}*3^{9}", False),
        ("((2^{10})^{10})^{10}", False),
        (r"\left(\left(2^{10}\right)^{10}\right)^{10}", False),
        ("((2^{10})^{11})^{10}", True),
        ("{{2^{100}}^{10}}^2", True),
        ("2^2^1", True),
        ("2^{2} ^{1}", True),
        ("2**2 ** 1", True),
        (r"2^\left(3\right)", False),
        (r"2^\left(3^{1}\right)", True),
        (r"2^ - \,{3^1}", True),
        (r"2^\frac{1}{3^1}", True),
        (r"x^\frac{1}{2}", False),
        (r"x^\frac12", False),
    ],
)
def test_powers(answer, too_much):
    assert is_costly(answer, "1") is too_much


@pytest.mark.parametrize(
    ("expression", "large"),
    [
        ("(a + b + c)**10", False),  # C(12, 10) = 66 terms
        ("(a + b + c)**19", True),  # C(21, 19) = 210
        ("(a + b)**7*(a + c)**7*(b + c)**2", False),  # 8 * 8 * 3 = 192
        ("(a + b)**7*(a + c)**7*(b + c)**3", True),  # 8 * 8 * 4 = 256
        ("sin(sin(sin(sin(a))))", False),
        ("sin(sin(sin(sin(sin(a)))))", True),
        ("(a + b)**1.5", False),
        ("1/(x + 1) + 1/(x + 2) + 1/(x + 3)", False),
        ("(a + b)**9/(c + d)**9", False),  # 10 over 10
        ("1/(a + b)**9 + 1/(c + d)**9 + 1/(x + y)**9", True),  # under the line 10 * 10 * 10
        ("1/(a + 1)**9 + 1/(c + d)**9 + x/(x + y)", False),  # 20 + 20 + 100 over 10 * 10 * 2
        ("1/(a + 1)**9 + 1/(c + d)**9 + 1/(x + y)**2", True),  # over 10 * 10 * 3
    ],
)
def test_terms_and_nested_functions_are_counted(expression, large):
    sympy = pytest.importorskip("sympy")

    assert is_large(sympy.sympify(expression), sympy.Integer(7)) is large
    assert not is_large(sympy.sympify(expression), sympy.sympify(expression))


def test_hedges_and_chain_values():
    assert chain_values("x=y=7") == ["x=y=7"]
    assert chain_values("x=6=7=8") == ["6", "7", "8"]
    assert chain_values(r"\text{area}=\pi=3.14") == [r"\pi", "3.14"]
    assert not is_hedge("x=6=7=8", "7")
    assert is_hedge("6=7=8=9", "7")
    assert not is_hedge(r"6 \lor 7", r"5 \lor 6")
    assert not is_hedge("x=1, y=2", "x=1, y=2")


@pytest.mark.parametrize(
    ("answer", "gold", "hedge"),
    [
        (r"5.4 \text{ cents}, 6.4 \text{ cents}", r"5.4 \text{ cents}", True),
        ("5 cm; 6 cm", "5 cm", True),
        ("5, 5", "5", False),  # the same twice
        ("5, x", "5", False),  # math-verify's own business
        (r"1,000 \text{ m}", "1000", False),
        (r"1\,000", "1000", False),
        ("(1, 2)", r"\begin{pmatrix}1&2\end{pmatrix}", False),
        ("1, 2", "1 and 2", False),
        (r"\frac{1}{2}, \frac{1}{3}", r"\frac{1}{2}", True),
    ],
)
def test_a_list_is_a_hedge_where_the_gold_answer_is_none(answer, gold, hedge):
    assert is_hedge(answer, gold) == hedge


@pytest.mark.parametrize(
    ("answer", "gold", "hedge"),
    [
        ("Compute 99^2+99+1 in your head.", "9901", True),  # of MATH-500, which it evaluates to
        ("The answer is 6", "6", False),
        ("So the answer is 6", "6", True),
        ("ab + cd + ef + gh", "x", False),  # products, not words
        (r"\text{we know that it is so: } 6", "6", False),
        (r"\sin x \cos y \tan z \log w \exp v", "6", False),
        ("go to the left side", "turn and go to the left", False),
    ],
)
def test_a_sentence_is_a_hedge_where_the_gold_answer_is_none(answer, gold, hedge):
    assert is_hedge(answer, gold) == hedge


def test_the_question_in_a_box_is_no_answer():
    assert symbolic(r"\boxed{Compute $99^2+99+1$ in your head.}", "9901") == 0.0
    assert symbolic(r"\boxed{99^2+99+1}", "9901") == 1.0


# The last of math-verify's own cases that are answered otherwise, and why.
DEVIATIONS = {
    ("$9$", "Answer \\( \n 9 \n \\)"): "its case reads no plain numbers; 9 is one",
    (
        r"$(\frac{3}{5},\frac{8}{3}]$",
        "$(0.6,2.6667]$",
    ): "math-verify 0.9.0 rounds to 6 digits as well",
}


@pytest.mark.slow
def test_math_verify_s_own_cases(shared_data):
    pairs = read(shared_data / "peers" / "math_verify_gold_pred.jsonl")
    others = [row["args"] for row in read(shared_data / "peers" / "math-verify.jsonl")]
    pairs += [row for row in others if "result" in row]
    wrong = set()

    for row in pairs:
        decimals = row.get("kwargs", {}).get("precision", 6)
        score = symbolic(row["pred"], row["gold"], where="anywhere", decimals=decimals)
        if score != float(row.get("expected", row.get("result"))):
            wrong.add((row["gold"], row["pred"]))

    assert len(pairs) == 133
    assert wrong == set(DEVIATIONS)


@pytest.mark.slow
def test_the_answers_of_math_500_are_equal_to_themselves(shared_data):
    import gzip

    with gzip.open(shared_data / "math" / "math500.jsonl.gz", "rt", encoding="utf-8") as lines:
        answers = [json.loads(line)["answer"] for line in lines]

    assert len(answers) == 216
    assert [a for a in answers if symbolic(rf"\boxed{{{a}}}", a) != 1.0] == []


def read(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def scored(verifier, response, answer):
    return verifier.score_row({"prompt": "", "response": response, "answer": answer})


def test_the_arguments_of_the_reward_reach_the_verifier():
    assert scored(Symbolic(), r"\boxed{14/2}", "7") == 1.0
    assert scored(Symbolic(), "<answer>7</answer>", "7") == 0.0
    assert scored(Symbolic(where="tagged"), "<answer>7</answer>", "7") == 1.0
    assert scored(Symbolic(), r"\boxed{0.33333}", r"\frac13") == 0.0
    assert scored(Symbolic(), r"\boxed{0.333333}", r"\frac13") == 1.0
    assert scored(Symbolic(decimals=2), r"\boxed{0.33}", r"\frac13") == 1.0
    assert scored(Symbolic(), r"\boxed{7}", "") is None


def test_without_math_verify_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)

    with pytest.raises(MissingExtra, match=r"pip install 'rlcomp\[verify\]'"):
        Symbolic()
    with pytest.raises(MissingExtra, match=r"pip install 'rlcomp\[verify\]'"):
        symbolic(r"\boxed{7}", "7")


def test_the_comparison_runs_in_the_pool():
    texts = [r"\boxed{14/2}", r"\boxed{8}", "7"]
    batch = make_batch(
        prompt=[""] * 3,
        response=encode_texts(texts),
        answer=["7"] * 3,
    )
    pool = WorkerPool(num_workers=1)
    try:
        judged = Symbolic(timeout=60.0, calls=pool)(batch)
    finally:
        pool.close()

    assert judged["reward"].tolist() == [1, 0, 0]
    assert judged["reward_valid"].all()


@pytest.mark.parametrize(
    ("gold", "formula"),
    [(r"\boxed{3} then \boxed{5}", "5"), ("so $x$ is $7$", "7"), ("7 apples", "7 apples")],
)
def test_the_formula_of_a_gold_answer_is_its_last_box_or_its_last_dollars(gold, formula):
    assert _gold_formula(gold) == formula
