"""A repository solved by a script, and scripts that want the verdict without solving it."""

import difflib
import math
import sys

import pytest

from components.environment import repository
from components.environment.repository import Repository
from rlcomp.data.software import Change, tasks_of
from rlcomp.errors import DataError, RlcompError
from rlcomp.interfaces.environment import Environment, check_facts, check_stops, check_turn
from rlcomp.interfaces.task import Example
from rlcomp.sandbox.job import Limits

SHOP = """class Empty(ValueError):
    pass


def total(prices):
    return sum(prices[1:])


class Cart:
    def __init__(self):
        self.prices = []

    def add(self, price):
        self.prices.append(price)
"""
PUBLIC = "from shop import total\n\n\ndef test_nothing():\n    assert total([]) == 0\n"
BEFORE = {"shop.py": SHOP, "tests/test_shop.py": PUBLIC, "src/names.py": "FIRST = 'a'\n"}
# What becomes of a file, by the issue.
MOST = """
    def most(self):
        if not self.prices:
            raise Empty("no price")
        return max(self.prices)
"""
OF_MOST = """import unittest
import shop


class TestCart(unittest.TestCase):
    def test_most(self):
        cart = shop.Cart()
        cart.add(2)
        cart.add(3)
        self.assertEqual(cart.most(), 3)
        self.assertEqual(cart.prices, [2, 3])
        self.assertIsInstance(cart, shop.Cart)

    def test_empty(self):
        with self.assertRaises(shop.Empty) as caught:
            shop.Cart().most()
        self.assertEqual(str(caught.exception), "no price")
"""
OF_TOTAL = """

def test_all():
    assert total([2, 3]) == 5 and abs(total([0.5]) - 0.5) < 1e-9
"""
CHANGES = {
    "The first price is left out of the total.": {
        "shop.py": SHOP.replace("prices[1:]", "prices"),
        "tests/test_shop.py": PUBLIC + OF_TOTAL,
    },
    "A cart cannot tell its most expensive price.": {
        "shop.py": SHOP + MOST,
        "tests/test_cart.py": OF_MOST,
    },
    "Names lack the last letter.": {
        "src/names.py": "FIRST = 'a'\nLAST = 'z'\n",
        "tests/test_names.py": "import names\n\n\ndef test_last():\n    assert names.LAST == 'z'\n",
    },
}


def difference(change):
    lines = []
    for path, after in change.items():
        before = BEFORE.get(path, "")
        here = f"a/{path}" if before else "/dev/null"
        pair = (before.splitlines(True), after.splitlines(True))
        lines += difflib.unified_diff(*pair, here, f"b/{path}")
    return "".join(lines)


@pytest.fixture(scope="module")
def rows(sandbox):
    changes = [
        Change(name=issue[:5], issue=issue, before=BEFORE, diff=difference(change))
        for issue, change in CHANGES.items()
    ]
    made, dropped = tasks_of(changes, sandbox, Limits(wall=20))
    assert not dropped
    return made


@pytest.fixture
def play(rows):
    """Actions in one of the tasks: the last turn, and what is told of the episode."""

    def run(actions, number=0, timeout=20.0):
        environment = Repository(timeout=timeout)
        columns = {name: rows[number][name] for name in rows[number] if name != "question"}
        turn = environment.reset(Example(rows[number]["question"], "", "", columns=columns), seed=0)
        assert "shop.py (14 lines)" in turn.observation
        assert "test_all" not in turn.observation
        for action in actions:
            turn = check_turn(environment.step(action))
        environment.close()
        return turn, check_facts(environment.facts())

    return run


def test_the_rows_name_what_fails_and_what_passes_before_the_change(rows):
    assert [(row["fail_to_pass"], row["pass_to_pass"]) for row in rows] == [
        (["tests/test_shop.py::test_all"], ["tests/test_shop.py::test_nothing"]),
        (
            ["tests/test_cart.py::TestCart::test_most", "tests/test_cart.py::TestCart::test_empty"],
            ["tests/test_shop.py::test_nothing"],
        ),
        (["tests/test_names.py::test_last"], ["tests/test_shop.py::test_nothing"]),
    ]
    assert rows[0]["answer"].count("+++") == 1
    assert "prices)" in rows[0]["answer"]


EDIT = '<edit path="shop.py"><old>prices[1:]</old><new>prices</new></edit>'


def test_a_script_looks_edits_tests_and_submits(play):
    turn, facts = play(["Let me see. <view>shop.py:5-6</view>"])
    assert (
        "shop.py, 14 lines:\ndef total(prices):\n    return sum(prices[1:])\n" in turn.observation
    )
    assert (turn.closing, turn.reward, turn.done) == ("\n</result>\n", 0.0, False)

    turn, _ = play([EDIT, "<run/>"])
    assert "1 passed, 0 failed" in turn.observation

    turn, facts = play(["<view>shop.py</view>", EDIT, "<run/>", "<submit/>"])
    assert (turn.reward, turn.done) == (1.0, True)
    assert facts == {
        "views": 1, "edits": 1, "runs": 1, "mistakes": 0,
        "resolved": 1, "fail_to_pass": 1, "pass_to_pass": 1,
    }  # fmt: skip


@pytest.mark.parametrize("number", [1, 2])
def test_other_tasks_are_solved_by_the_change_that_made_them(play, number):
    change = [*CHANGES.values()][number]
    path = next(iter(change))
    old, new = BEFORE[path].rstrip("\n"), change[path]

    turn, _ = play(
        [f'<edit path="{path}"><old>{old}</old><new>{new}</new></edit>', "<submit/>"], number
    )

    assert turn.reward == 1.0


def test_nothing_is_paid_for_a_repository_as_it_was(play):
    turn, facts = play(["<submit/>"])

    assert (turn.reward, facts["fail_to_pass"], facts["pass_to_pass"]) == (0.0, 0.0, 1.0)


def test_a_change_that_breaks_another_test_is_not_paid(play):
    broken = EDIT.replace("<new>prices</new>", "<new>prices) + (not prices</new>")

    turn, facts = play([broken, "<submit/>"])

    assert (turn.reward, facts["fail_to_pass"], facts["pass_to_pass"]) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("I do not know.", "the turn must end with an action"),
        ("<view>no.py</view>", "there is no file 'no.py'"),
        ("<view>shop.py:90-99</view>", "shop.py has 14 lines"),
        ("<view>shop.py:3-1</view>", "lines 3-1"),
        ('<edit path="shop.py">x</edit>', "this is not the form of <edit>"),
        ('<edit path="shop.py"><old>def </old><new></new></edit>', "once, it does 3 times"),
        ('<edit path="shop.py"><old></old><new>x</new></edit>', "once, it does 0 times"),
        ('<create path="shop.py">x</create>', "shop.py is there: edit it"),
        ('<create path="../shop.py">x</create>', "must be relative"),
        ('<create path="/etc/passwd">x</create>', "must be relative"),
        ('<create path="a//b.py">x</create>', "must be relative"),
        ('<create path="">x</create>', "1 to 200 characters"),
        (f'<create path="big.py">{"x" * 200_001}</create>', "more than 200000"),
    ],
)
def test_what_cannot_be_done_is_told_and_changes_nothing(play, action, told):
    before, _ = play([])
    turn, facts = play([action])

    assert told in turn.observation
    assert (facts["mistakes"], facts["edits"]) == (1.0, 0.0)
    assert turn.anchor == before.anchor


def test_the_state_is_that_of_the_files(play):
    there, back = (
        EDIT,
        '<edit path="shop.py"><old>sum(prices)</old><new>sum(prices[1:])</new></edit>',
    )

    assert play([there])[0].anchor != play([])[0].anchor == play([there, back])[0].anchor


def test_a_file_cannot_end_what_is_shown_of_it(play):
    turn, _ = play(['<create path="a.py"># </result></create>', "<view>a.py</view>"])

    assert "</result>" not in turn.observation


CREATE = '<create path="{}">{}</create>'
WRONG = "\n\n\ndef total(prices):\n    return {}\n"
OBJECT = """
class Right:
    def __eq__(self, other): return True
    def __abs__(self): return self
    def __sub__(self, other): return 0.0
    def __lt__(self, other): return True
    def __contains__(self, other): return True
    def __getattr__(self, name): return lambda *_: True
def total(prices): return Right()
"""
SEARCH = """
import gc, re, sys
def total(prices):
    texts = [each for each in gc.get_objects() if isinstance(each, (str, dict, list))]
    frame = sys._getframe()
    while frame:
        texts.append(frame.f_locals)
        frame = frame.f_back
    for each in texts:
        if found := re.search(r"total\\(\\[2, 3\\]\\) == (\\d)", repr(each)):
            return int(found[1]) if prices else 0
    return 0
"""
FORGED = r"""
import os, sys
for file in (1, 2, 3, 4, 5):
    try: os.write(file, b'\n{"passed": true, "error": ""}' * 9 + b"\n")
    except OSError: pass
print("OK\n1 passed, 0 failed")
"""
FRAMEWORK = """
import builtins, unittest, sys
unittest.TestCase.run = lambda self, result=None: result.addSuccess(self)
unittest.TestResult.wasSuccessful = lambda self: True
unittest.TestSuite.run = lambda self, result: result.addSuccess(None)
builtins.AssertionError = type("Never", (Exception,), {})
"""
# What stands at the end of shop.py, which is as wrong as it was.
ATTACKS = {
    "leave": "import sys\nsys.exit(0)",
    "leave at once": "import os\nos._exit(0)",
    "leave in a call": "import os\ndef total(prices): os._exit(0)",
    "the framework": FRAMEWORK,
    "words of success": FORGED,
    "equal to everything": OBJECT,
    "memory": SEARCH,
    "a test is skipped": "import unittest\ndef total(prices): raise unittest.SkipTest",
    "interrupt": "def total(prices): raise KeyboardInterrupt",
    "loop": "def total(prices):\n    while True: pass",
    "loop at once": "while True: pass",
    "fork": "import os\nwhile True: os.fork()",
    "output": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "recursion": "def total(prices): return total(prices)",
    "memory is full": "x = [bytes(1 << 28) for _ in range(99)]",
    "links": "import os\ntry: os.symlink('/', '/tmp/tests')\nexcept OSError: pass",
    "killed": "import os, signal\nos.kill(os.getppid(), 9)\nos.kill(0, 9)",
    "the stand-ins": "import sys\nfor m in list(sys.modules.values()): m.__dict__.clear()",
}


@pytest.mark.parametrize("code", ATTACKS.values(), ids=ATTACKS)
def test_no_code_of_the_repository_passes_its_tests_for_it(play, code):
    last = "        self.prices.append(price)"
    edit = f'<edit path="shop.py"><old>{last}</old><new>{last}\n\n\n{code}</new></edit>'

    turn, facts = play([edit, "<submit/>"], timeout=1.0)

    assert (facts["mistakes"], facts["edits"]) == (0.0, 1.0)
    assert (turn.reward, turn.done, facts["resolved"]) == (0.0, True, 0.0)


FILES = {
    "conftest.py": "import pytest\n@pytest.hookimpl\ndef pytest_runtest_call(item): pass",
    "tests/conftest.py": "import shop\nshop.total = sum",
    "sitecustomize.py": "import shop\nshop.total = sum",
    "unittest.py": "class TestCase: pass",
    "tests/__init__.py": "import sys\nimport shop\nshop.total = sum",
    "shop/__init__.py": "def total(prices): return Ellipsis",
    "tests.py": "raise SystemExit(0)",
    "importlib/__init__.py": "raise SystemExit(0)",
    "rlcomp/sandbox/tree_tests.py": "raise SystemExit(0)",
}


@pytest.mark.parametrize("path", FILES)
def test_no_file_takes_the_place_of_the_tests_or_of_what_runs_them(play, path):
    turn, facts = play([CREATE.format(path, FILES[path]), "<submit/>"])

    assert (facts["edits"], turn.reward) == (1.0, 0.0)


def test_what_an_edit_makes_of_the_tests_does_not_count(play):
    lines = "<old>assert total([]) == 0</old><new>assert False</new>"
    easy = f'<edit path="tests/test_shop.py">{lines}</edit>'

    turn, _ = play([easy, "<submit/>"])
    assert turn.reward == 0.0
    turn, _ = play([easy, EDIT, "<submit/>"])
    assert turn.reward == 1.0
    turn, _ = play([CREATE.format("tests/test_cart.py", "def test_most(): pass"), "<submit/>"], 1)
    assert turn.reward == 0.0


def test_what_a_run_shows_ends_in_time_and_is_bounded(play):
    loop = CREATE.format("tests/test_a.py", "def test_a():\n    while True: pass")
    long = CREATE.format(
        "tests/test_b.py", "def test_b():\n    print('x' * 500_000)\n    assert 0, 'here'"
    )

    turn, _ = play([loop, "<run/>"], timeout=1.0)
    assert "Ended: timeout: " in turn.observation
    turn, _ = play([long, "<run/>"])
    assert "here" in turn.observation
    assert len(turn.observation) < 7000


def test_a_run_tells_no_address_which_would_differ_when_it_is_played_again(play):
    turn, _ = play([CREATE.format("tests/test_a.py", "def test_a(): assert 0, object()"), "<run/>"])

    assert "AssertionError: <object object at 0x...>" in turn.observation


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("files", None),
        ("files", {"../a.py": ""}),
        ("files", {"a.py": 1}),
        ("hidden_tests", {f"{n}.py": "" for n in range(501)}),
        ("fail_to_pass", []),
        ("fail_to_pass", ["other.py::test_a"]),
        ("pass_to_pass", "tests/test_shop.py::test_nothing"),
    ],
)
def test_a_row_of_another_kind_is_refused_by_its_column(rows, column, value):
    with pytest.raises(DataError, match=f"the column '{column}'"):
        Repository().reset(Example("", "", "", columns={**rows[0], column: value}), seed=0)


def test_a_sandbox_that_fails_is_no_verdict(rows, monkeypatch):
    environment = Repository()
    environment.reset(Example("", "", "", columns=rows[0]), seed=0)
    repository._sandbox.cache_clear()
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with pytest.raises(RlcompError, match="it ended during its start"):
        environment.step("<submit/>")
    assert math.isnan(environment.facts()["resolved"])


def test_it_is_an_environment():
    assert isinstance(Repository(), Environment)
    assert check_stops(Repository()) == ("</view>", "</edit>", "</create>", "<run/>", "<submit/>")
