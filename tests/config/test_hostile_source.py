"""Sources of strangers: nothing in them is executed, and each ends soon, at worst in one line."""

import ast
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pytest

import rlcomp
from rlcomp.arguments import Ge, Interval, problem
from rlcomp.config.declarations import read_declaration
from rlcomp.config.expressions import read_literal
from rlcomp.errors import ConfigError

HEAD = """
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, Union
from annotated_types import Ge, Interval
from rlcomp.component import Component
"""


@pytest.fixture
def declared(tmp_path, monkeypatch, request):
    """The declaration of a class in a file with this source."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = "hostile_" + re.sub(r"\W", "_", request.node.name)

    def of(source, target="Target", head=HEAD):
        raw = source if isinstance(source, bytes) else (head + source).encode()
        (tmp_path / f"{name}.py").write_bytes(raw)
        return read_declaration(f"{name}.{target}")

    return of


def _annotated(expression, more=""):
    return f"{more}\nclass Target(Component):\n    def __init__(self, x: {expression}): ...\n"


ESCAPE = """
Evil = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == "Popen"][0](
    ["touch", {trace!r}])
"""


def test_an_annotation_is_never_executed(declared, tmp_path):
    trace = tmp_path / "trace"
    source = ESCAPE.format(trace=str(trace))

    found = declared(_annotated("Evil", source))

    time.sleep(0.1)
    assert found.parameters["x"].annotation is Any
    assert not trace.exists()


def test_nothing_of_ours_executes_text():
    called = re.compile(r"(?<![\w.])(eval|exec|compile|__import__)\(")
    home = Path(rlcomp.__file__).parent
    # The sandbox is there to execute text, in processes that are shut in.
    files = [file for file in home.rglob("*.py") if file.parent != home / "sandbox"]

    assert len(files) > 100
    assert [str(file) for file in files if called.search(file.read_text())] == []


DOUBLING = "A0 = int\n" + "".join(
    f"A{n} = tuple[A{n - 1}, A{n - 1}, list[A{n - 1}]]\n" for n in range(1, 30)
)


@pytest.mark.parametrize(
    ("expression", "more"),
    [
        ("9**9**9", ""),
        ("1/0", ""),
        ("list[9**9**9]", ""),
        ("Literal['a' * 10**10]", ""),
        ("Self", "Self = list[Self]"),
        ("One", "One = list[Two]\nTwo = dict[str, One] | One"),
        ("A29", DOUBLING),
        ("[int for _ in range(10**10)]", ""),
        ("(lambda: int)()", ""),
        ("f'{1/0}'", ""),
        ("int | " * 400 + "int", ""),
        ("list[" * 90 + "int" + "]" * 90, ""),
        ("Ge(1)", ""),
        ("Annotated[int, Ge('x')]", ""),
        ("Annotated[int, Interval(ge=None, **x)]", ""),
        ("Annotated[int]", ""),
        ("Annotated[int, Ge(0x" + "f" * 5000 + ")]", ""),
        ("Literal[0x" + "f" * 5000 + "]", ""),
        ("Literal[()]", ""),
        ("dict[int]", ""),
        ("list[*int]", ""),
        ("None | None", ""),
        ("int['x']", ""),
        ("Union[()]", ""),
        ("list[lambda: 1, ...]", ""),
        ("(yield)", ""),
    ],
)
def test_an_annotation_that_is_no_type_is_not_checked(declared, expression, more):
    start = time.process_time()

    annotation = declared(_annotated(expression, more)).parameters["x"].annotation

    # It may say little, but never breaks the check of a value.
    assert [problem(annotation, value) for value in ("a", 1, None, [1], {"a": 1})]
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Size", Annotated[int, Ge(-1)]),
        ("Share | None", Annotated[float, Interval(ge=0, lt=0.5)] | None),
        ("Mode", Literal["a", "b", -1, True]),
        ("dict[str, list[Size]]", dict[str, list[Annotated[int, Ge(-1)]]]),
        ("tuple[int, ...]", tuple[int, ...]),
        ("Annotated[int, 'a note']", int),
        ("Union[int, str]", int | str),
        ("Callable[[int], str]", Callable[..., Any]),
        ("torch.Tensor", Any),
        ("Elsewhere", Any),
        ("list[Elsewhere]", list[Any]),
        ("'int'", Any),
        ("None", None),
    ],
)
def test_an_annotation_is_read(declared, expression, expected):
    more = """
Size = Annotated[int, Ge(-1)]
Share = Annotated[float, Interval(ge=0, lt=0.5)]
First = Literal["a"]
Mode = Literal[First, "b", -1, True]
"""
    assert declared(_annotated(expression, more)).parameters["x"].annotation == expected


@pytest.mark.parametrize(("depth", "innermost"), [(32, str), (33, Any)])
@pytest.mark.parametrize("way", ["nested", "joined", "named"])
def test_an_annotation_is_read_down_to_its_32nd_level(declared, way, depth, innermost):
    nested = innermost
    for _ in range(32):
        nested = list[nested]
    names = "N1 = str\n" + "".join(f"N{n + 1} = N{n}\n" for n in range(1, depth))
    expression, more, expected = {
        "nested": ("list[" * depth + "str" + "]" * depth, "", nested),
        "joined": ("str" + " | int" * depth, "", innermost | int),
        "named": (f"N{depth}", names, innermost),
    }[way]

    assert declared(_annotated(expression, more)).parameters["x"].annotation == expected


@pytest.mark.parametrize(("places", "last"), [(498, int), (499, Any)])
def test_an_annotation_is_read_up_to_its_500th_part(declared, places, last):
    annotation = declared(_annotated(f"tuple[{'int, ' * places}]")).parameters["x"].annotation

    # The whole and its name are the first two.
    assert get_args(annotation) == (int,) * (places - 1) + (last,)


@pytest.mark.parametrize(("options", "read"), [(500, True), (501, False)])
def test_a_literal_has_at_most_500_options(declared, options, read):
    text = ", ".join(map(str, range(options)))

    annotation = declared(_annotated(f"Literal[{text}]")).parameters["x"].annotation

    assert get_args(annotation) == (tuple(range(options)) if read else ())


def test_each_place_of_a_tuple_has_its_own_type(declared):
    pair = declared(_annotated("tuple[int, torch.Tensor]")).parameters["x"].annotation

    assert problem(pair, (1, "x")) is None
    assert problem(pair, ("x", 1)) == "must be an integer"
    assert problem(tuple[int, ...], (1, "x")) == "must be an integer"


def test_bases_stand_in_pythons_order(declared):
    diamond = """
class Top(Component):
    reads = ("reward",)
    fresh = False
    def __init__(self, top): ...
class Left(Top):
    pass
class Right(Top):
    reads = ("value",)
    fresh = True
    def __init__(self, right): ...
class Target(Left, Right):
    pass
"""
    found = declared(diamond)

    assert (found.reads, found.fresh, list(found.parameters)) == (("value",), True, ["right"])


def test_the_last_binding_of_a_name_counts(declared):
    twice = """
KEYS = ("reward",)
KEYS = ("value",)
Name = int
Name = str
class Target(Component):
    reads = ("returns",)
class Target(Target):
    writes = (*KEYS,)
    writes = (*KEYS, "advantage")
    def __init__(self, x: Name): ...
"""
    found = declared(twice)

    assert (found.reads, found.writes) == (("returns",), ("value", "advantage"))
    assert found.parameters["x"].annotation is str


@pytest.mark.parametrize("head", ["if True:", "with open('x'):", "try:"])
def test_the_last_binding_inside_a_block_counts(declared, head):
    inside = f"""
{head}
    KEYS = ("reward",)
    KEYS = ("value",)
{"except OSError: pass" if head == "try:" else ""}
class Target(Component):
    reads = (*KEYS,)
"""
    assert declared(inside).reads == ("value",)


def test_the_last_binding_of_an_else_counts(declared):
    inside = """
if True:
    KEYS = ("reward",)
else:
    KEYS = ("value",)
    KEYS = ("returns",)
class Target(Component):
    reads = (*KEYS,)
"""
    assert declared(inside).reads == ("returns",)


def test_bases_in_a_circle_and_bases_without_an_order_end(declared):
    circle = """
class One(Two, Component):
    reads = ("reward",)
class Two(One):
    fresh = True
class Self(Self):
    pass
class Left(One, Two): pass
class Right(Two, One): pass
class Target(Left, Right, Self): pass
"""
    found = declared(circle)

    assert (found.reads, found.fresh) == (("reward",), True)


def test_modules_that_import_a_name_from_one_another_end(declared, tmp_path):
    for own, other in (("hostile_here", "hostile_there"), ("hostile_there", "hostile_here")):
        (tmp_path / f"{own}.py").write_text(f"from {other} import Lost\n")

    found = declared("from hostile_here import Lost\nclass Target(Lost): reads = ('reward',)\n")

    assert found.reads == ("reward",)


def test_a_ladder_of_diamonds_takes_no_time(declared):
    steps = "".join(
        f"class L{n}(T{n}): pass\nclass R{n}(T{n}): pass\nclass T{n + 1}(L{n}, R{n}): pass\n"
        for n in range(60)
    )
    start = time.process_time()

    found = declared(f"class T0(Component):\n    fresh = True\n{steps}\nclass Target(T60): pass\n")

    assert found.fresh
    assert time.process_time() - start < 10


def test_a_long_line_of_bases_is_refused(declared):
    line = "".join(f"class T{n + 1}(T{n}): pass\n" for n in range(2000))

    with pytest.raises(ConfigError, match=r"^Target has more than 256 bases$"):
        declared(f"class T0(Component): pass\n{line}\nclass Target(T2000): pass\n")


def test_several_targets_of_one_assignment_are_read(declared):
    found = declared("class Target(Component):\n    reads = writes = ('reward',)\n")

    assert (found.reads, found.writes) == (("reward",), ("reward",))


WIDE = "K0 = ('reward',)\n" + "".join(f"K{n} = ({f'*K{n - 1}, ' * 100})\n" for n in range(1, 7))
DEEP = "K0 = ('reward',)\n" + "".join(f"K{n} = ({f'K{n - 1}, ' * 100})\n" for n in range(1, 7))
UNREADABLE = "is not a literal: write it out, it is read from source"
KEYS = r'must be a tuple of keys, such as \("reward",\)'


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("reads = ('reward',)\n    reads += ('value',)", UNREADABLE),
        ("reads, x = ('reward',), 1", UNREADABLE),
        ("if True:\n        reads = ('reward',)", UNREADABLE),
        ("for reads in ((),): pass", UNREADABLE),
        ("with open('x') as reads: pass", UNREADABLE),
        ("try:\n        pass\n    except Exception as reads:\n        pass", UNREADABLE),
        ("import os as reads", UNREADABLE),
        ("x = (reads := ('reward',))", UNREADABLE),
        ("reads = ('reward',)\n    del reads", UNREADABLE),
        ("@property\n    def reads(self): return ('reward',)", UNREADABLE),
        ("reads = __import__('os').system('false')", UNREADABLE),
        ("reads = 'a' * 10**10,", UNREADABLE),
        ("reads = f'{1/0}',", UNREADABLE),
        ("reads = (*K6,)", UNREADABLE),
        ("reads = (*DEEP6,)", UNREADABLE),
        ("reads = LOOP", UNREADABLE),
        ("reads = " + "(" * 80 + "'reward'" + ",)" * 80, UNREADABLE),
        ("reads = 5", KEYS),
        ("reads = (*5,)", KEYS),
        ("reads = (3, None)", KEYS),
        ("reads = 'reward'", KEYS),
        ("reads = {'reward'}", KEYS),
        ("reads = None", KEYS),
        ("reads = ('re\\nward',)", r"'re\\nward' is not a key"),
        ("reads = ('\\ud800',)", r"'\\ud800' is not a key"),
        ("must_reach = 'reward'", KEYS),
        ("runs = 'stages'", "must be a tuple of names of arguments"),
        ("min_group_size = '2'", "must be a whole number, at least 1"),
        ("min_group_size = 0", "must be a whole number, at least 1"),
        ("min_group_size = True", "must be a whole number, at least 1"),
        ("min_group_size = 0x" + "f" * 5000, UNREADABLE),
        ("fresh = not True", UNREADABLE),
        ("min_group_size = ~-3", UNREADABLE),
        ("fresh = 'no'", "must be True or False"),
        ("exclusive = 1", "must be a text"),
        ("keys = 5", "must be a dict of specifications by key"),
        ("keys = {{}: 1}", "must be a dict of specifications by key"),
        ("keys = {**5}", "must be a dict of specifications by key"),
        ("keys = {'a b': ('B', 'int64', 'x')}", r"keys: 'a b' is not a key"),
    ],
)
def test_a_declaration_that_cannot_be_read_is_one_line(declared, body, told):
    start = time.process_time()
    more = WIDE + DEEP.replace("K", "DEEP") + "LOOP = POOL\nPOOL = (*LOOP,)\n"

    with pytest.raises(ConfigError, match=told) as error:
        declared(f"{more}\nclass Target(Component):\n    {body}\n")

    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 600
    assert time.process_time() - start < 10


def test_a_declaration_is_read_up_to_10_000_items_and_32_levels():
    def read(text):
        return read_literal("nowhere", ast.parse(text, mode="eval").body)

    # The tuple that holds the others is the first item.
    assert read("(" + "1, " * 9_999 + ")") == (1,) * 9_999
    with pytest.raises(ValueError, match="more than 10000 items"):
        read("(" + "1, " * 10_000 + ")")
    for left, right in (("(", ",)"), ("{1: ", "}")):
        nested = left * 32 + "1" + right * 32
        assert read(nested) == ast.literal_eval(nested)
        with pytest.raises(ValueError, match="too deep a nesting"):
            read(left + nested + right)


@pytest.mark.parametrize("names", [8, 9])
def test_a_declaration_is_followed_through_8_names(declared, names):
    chain = "".join(f"K{n + 1} = K{n}\n" for n in range(1, names))
    source = f"K1 = ('reward',)\n{chain}class Target(Component):\n    reads = K{names}\n"

    if names == 8:
        assert declared(source).reads == ("reward",)
    else:
        with pytest.raises(ConfigError, match=UNREADABLE):
            declared(source)


@pytest.mark.parametrize(
    "attribute",
    ["sys.float_info.max", "rlcomp.errors.nearest.writes"],
    ids=["no source", "no class"],
)
def test_an_attribute_of_what_is_no_class_in_a_source_is_not_followed(attribute):
    home, owner, name = attribute.rsplit(".", 2)

    with pytest.raises(ValueError, match=f"^{owner} cannot be followed$"):
        read_literal(home, ast.parse(f"{owner}.{name}", mode="eval").body)


def test_a_number_of_a_declaration_has_at_most_64_bits():
    def read(text):
        return read_literal("nowhere", ast.parse(text, mode="eval").body)

    assert (read(f"{2**64 - 1}"), read(f"-{2**64 - 1}")) == (2**64 - 1, 1 - 2**64)
    for sign in ("", "-"):
        with pytest.raises(ValueError, match="too large a number"):
            read(f"{sign}{2**64}")


def test_what_a_class_that_is_no_component_calls_so_is_its_own(declared):
    foreign = """
class Target:
    reads = 5
    runs = compute()
    min_group_size = "2"
    def keys(self): ...
"""
    found = declared(foreign)

    assert (found.reads, found.runs, found.min_group_size, found.keys) == ((), (), 1, {})


@pytest.mark.parametrize(
    "source",
    [
        b"x = 1\x00\nclass Target: pass\n",
        b"x = '\xe9'\nclass Target: pass\n",
        b"# coding: nonsense\nclass Target: pass\n",
        b"# coding: zlib\nclass Target: pass\n",
        b"\xff\xfeclass Target: pass\n",
        b"x = " + b"(" * 5000 + b")" * 5000 + b"\nclass Target: pass\n",
        b"x = " + b"-" * 100_000 + b"1\nclass Target: pass\n",
        b"x = " + b"1+" * 100_000 + b"1\nclass Target: pass\n",
        b"x = " + b"9" * 10_000 + b"\nclass Target: pass\n",
        b"class Target(\n",
        b"#" * (2**23 + 1),
    ],
    ids=lambda source: source[:16].hex(),
)
def test_a_source_that_cannot_be_parsed_is_one_line_with_the_file(declared, source):
    start = time.process_time()

    with pytest.raises(ConfigError, match=r"hostile_\w+\.py") as error:
        declared(source)

    assert len(str(error.value).splitlines()) == 1
    assert time.process_time() - start < 10


@pytest.mark.parametrize("depth", [200, 600, 950])
def test_a_deep_expression_ends_in_one_line(declared, depth):
    with pytest.raises(ConfigError) as error:
        declared(f"x = {'-' * depth}1\nclass Other: pass\n", target="Absent")

    assert len(str(error.value).splitlines()) == 1


def test_a_source_may_say_its_coding(declared):
    source = (
        b"# coding: latin-1\nfrom rlcomp.component import Component\n"
        b"class Target(Component):\n    equation = '\xe9'\n"
    )

    assert declared(source).equation == "é"


def test_a_source_that_cannot_be_opened_is_one_line(declared, tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("tokenize.open", refuse)

    with pytest.raises(ConfigError, match=r"\.py cannot be read \(PermissionError\)"):
        declared("class Target: pass\n")


@pytest.mark.parametrize("module", ["rlcomp./etc/passwd", "rlcomp.*", "rlcomp.a\0b", "rlcomp.."])
def test_a_name_that_is_no_module_is_refused(module):
    with pytest.raises(ConfigError, match="there is no module"):
        read_declaration(f"{module}.Target")


def test_a_target_that_would_print_is_read_in_silence(tmp_path):
    (tmp_path / "loud.py").write_text("print('loud')\nx = '\\d'\nclass Target: pass\n")
    code = (
        "from rlcomp.config.declarations import read_declaration; read_declaration('loud.Target')"
    )
    place = f"{tmp_path}:{Path(rlcomp.__file__).parents[1]}"

    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        env={"PYTHONPATH": place},
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
