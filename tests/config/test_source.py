"""Sources are read and never run: where a name is defined, and what a class derives from."""

import ast
import sys

import pytest

from rlcomp.config import bases, source
from rlcomp.config.bases import has_unseen_base, lineage
from rlcomp.config.source import alias, bindings, find, source_of
from rlcomp.errors import ConfigError


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes modules by name; a call gives them, as files of a package of its own."""
    name = f"pack{abs(hash(str(tmp_path)))}"
    monkeypatch.syspath_prepend(tmp_path)
    for cached in (source.source_of, source._bindings_by_name, lineage):
        cached.cache_clear()

    def write(**texts):
        for module, text in texts.items():
            path = tmp_path.joinpath(name, *module.split("__in__"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".py").write_text(text.replace("PACK", name), encoding="utf-8")
        return name

    (tmp_path / name).mkdir()
    write(__init__="")
    yield write
    assert not [module for module in sys.modules if module.startswith(name)]  # nothing was run


def names(module, cls):
    """The classes of a lineage, by name."""
    home, definition = find(module, cls)
    return [each.name for _, each in lineage(home, definition)]


def test_a_module_is_found_in_packages_files_and_bare_folders(package, tmp_path):
    name = package(one="a = 1", sub__in__two="b = 1", sub__in____init__="c = 1")
    (tmp_path / name / "bare").mkdir()
    (tmp_path / name / "bare" / "three.py").write_text("d = 1")

    for module, file in (("", "__init__.py"), (".one", "one.py"), (".sub", "sub/__init__.py")):
        path, tree = source_of(f"{name}{module}")
        assert path == tmp_path / name / file
        assert isinstance(tree, ast.Module)
    assert source_of(f"{name}.sub.two")[0] == tmp_path / name / "sub" / "two.py"
    assert source_of(f"{name}.bare.three")[0] == tmp_path / name / "bare" / "three.py"
    assert source_of(f"{name}.bare") is None
    (tmp_path / name / "one").mkdir()  # the rest of a package that is gone
    assert source_of(f"{name}.one")[0] == tmp_path / name / "one.py"
    (tmp_path / name / "fast.cpython-311.so").write_bytes(b"")
    assert source_of(f"{name}.fast") is None
    assert source_of("math") is None
    (tmp_path / f"{name}_bare").mkdir()
    (tmp_path / f"{name}_bare" / "one.py").write_text("a = 1")
    assert source_of(f"{name}_bare.one")[0] == tmp_path / f"{name}_bare" / "one.py"


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("no_such_package", "no package 'no_such_package'"),
        ("no_such_package.a", "is it installed"),
        ("PACK.othr", "did you mean 'other'"),
        ("PACK.__ini__", "no module '__ini__'.*other"),
        ("PACK.a b", "no module 'a b'"),
        ("PACK.other.inner", "no module 'inner'"),
    ],
)
def test_a_module_that_is_not_there_is_told_with_what_is(module, told, package):
    name = package(other="", _hidden="")

    with pytest.raises(ConfigError, match=told) as found:
        source_of(module.replace("PACK", name))
    assert "_hidden" not in str(found.value)
    assert "__init__" not in str(found.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = 1\ndef f(:\n", r"broken\.py, line 2: "),
        ("(" * 3000, "broken.py"),
        ("a = '\0'", "broken.py"),
    ],
)
def test_a_file_that_is_no_python_is_told_with_its_place(text, told, package):
    name = package(broken=text)

    with pytest.raises(ConfigError, match=told):
        source_of(f"{name}.broken")


def test_a_file_of_another_encoding_or_size_is_told(package, tmp_path, monkeypatch):
    name = package(short="a = 1", long="a = 12")
    (tmp_path / name / "odd.py").write_bytes(b"# coding: no-such\na = 1\n")
    monkeypatch.setattr(source, "_MAX_LENGTH", 5)

    assert source_of(f"{name}.short")
    with pytest.raises(ConfigError, match="longer than 5 characters"):
        source_of(f"{name}.long")
    with pytest.raises(ConfigError, match=r"odd\.py"):
        source_of(f"{name}.odd")


def test_a_folder_that_cannot_be_read_is_told(package, monkeypatch):
    name = package(one="")

    def denied(*arguments):
        raise PermissionError("not yours")

    monkeypatch.setattr(source, "_submodule", denied)

    with pytest.raises(ConfigError, match="not yours"):
        source_of(f"{name}.one")


BINDS = {
    "a = 1": {"a": "1"},
    "a = b = f(c)": {"a": "f(c)", "b": "f(c)"},
    "a: int = 2": {"a": "2"},
    "a: int": {},
    "a, b = c": {"a": None, "b": None},
    "a += 1": {"a": None},
    "a.b = 1": {},
    "del a": {"a": None},
    "import a.b, c as d": {"a": None, "d": None},
    "from a import b, c as d": {"b": None, "d": None},
    "def f(x): y = 1": {"f": None},
    "async def f(x): y = 1": {"f": None},
    "class A(B): y = 1": {"A": None},
    "for a in b: c = 1": {"a": None, "c": None},
    "with a as b: c = 1": {"b": None, "c": None},
    "print(a := 1)": {"a": None},
    "[x for x in y]": {},
    "lambda z: z": {},
    "try:\n a = 1\nexcept E as b: c = 1": {"a": None, "b": None, "c": None},
    "match x:\n case [a, *b]: pass\n case {'k': c, **d}: pass\n case e: pass": dict.fromkeys(
        "abcde"
    ),
}


@pytest.mark.parametrize("text", BINDS)
def test_the_names_that_a_statement_binds(text):
    (line,) = ast.parse(text).body

    found = {name: value and ast.unparse(value) for name, value in bindings(line)}

    assert found == BINDS[text]


def where(name, module, target, **settings):
    found = find(f"{name}.{module}", target, **settings)
    return found and (found[0].removeprefix(f"{name}."), type(found[1]).__name__, found[1].lineno)


def test_a_name_is_what_it_is_bound_to_last(package):
    name = package(
        one="class A: pass\ndef f(): pass\nA = A\nclass B: pass\nif x:\n    class B: pass\n",
        two="try:\n    class A: pass\nexcept E:\n    pass\nelse:\n    class B: pass\n",
        three="with x:\n    class A: pass\nif x:\n    pass\nelse:\n    def A(): pass\n",
    )

    package(
        four="if x:\n    class A: pass\n    class A: pass\n",
        five="with x:\n    A = 1\n    def A(): pass\n",
    )

    assert where(name, "four", "A") == ("four", "ClassDef", 3)
    assert where(name, "five", "A") == ("five", "FunctionDef", 3)
    assert where(name, "one", "A") is None
    assert where(name, "one", "A", before=3) == ("one", "ClassDef", 1)
    assert where(name, "one", "A", before=4) is None
    assert where(name, "one", "A", before=1) is None  # none above: the last one
    assert where(name, "one", "f") == ("one", "FunctionDef", 2)
    assert where(name, "one", "B") == ("one", "ClassDef", 6)
    assert where(name, "two", "A") == ("two", "ClassDef", 2)
    assert where(name, "two", "B") == ("two", "ClassDef", 6)
    assert where(name, "three", "A") == ("three", "FunctionDef", 6)


def test_imports_are_followed_from_wherever_they_are(package):
    name = package(
        home="class A: pass\n",
        absolute="from PACK.home import A as B\nimport PACK.home as C\n",
        relative="from .home import A\nfrom . import home\n",
        sub__in____init__="from .inner import A\nfrom ..home import A as B\n",
        sub__in__inner="from ..home import A\nfrom .. import relative\n",
        star="from .home import *\n",
    )

    for module, target in (
        *(("absolute", "B"), ("relative", "A"), ("sub", "A"), ("sub", "B"), ("sub.inner", "A")),
    ):
        assert where(name, module, target) == ("home", "ClassDef", 1)
    assert where(name, "absolute", "C") is None
    assert where(name, "star", "A") is None  # it may be there
    assert find("builtins", "int") is None


def test_a_chain_of_imports_has_an_end(package):
    name = package(
        **{f"m{n}": f"from .m{n + 1} import A\n" for n in range(12)}, m12="class A: pass\n"
    )

    assert where(name, "m4", "A") == ("m12", "ClassDef", 1)  # eight imports
    assert where(name, "m3", "A") is None


@pytest.mark.parametrize(
    "text",
    [
        "def __getattr__(name): pass",
        "from os import *",
        "import sys\nsys.modules[__name__] = 1",
        "if x:\n    from os import *",
    ],
)
def test_a_module_may_define_names_while_it_runs(text, package):
    name = package(one=f"class Known: pass\n{text}\n")

    assert where(name, "one", "Unknown") is None


def test_a_name_that_is_not_there_is_told_with_one_that_is(package):
    name = package(
        one="class Known: pass\nclass _Hidden: pass\nKnowm = 1\n", two="from .one import Nown\n"
    )

    with pytest.raises(ConfigError, match=r"has no 'Knwn'.*'Known'"):
        find(f"{name}.one", "Knwn")
    with pytest.raises(ConfigError, match="has no 'Hidden'") as told:
        find(f"{name}.one", "Hidden")
    assert "_Hidden" not in str(told.value)
    with pytest.raises(ConfigError, match=r"has no 'x'$"):
        find(f"{name}.two", "x")
    assert where(name, "two", "Nown") is None  # an import that leads nowhere is not ours to tell


def test_classes_are_in_the_order_of_python(package):
    text = (
        "class O: pass\nclass A(O): pass\nclass B(O): pass\nclass C(A, B): pass\n"
        "class D(B): pass\nclass E(C, D): pass\nclass F(object): pass\n"
    )
    name = package(one=text)
    made: dict = {}
    exec(text, made)

    for cls in "OABCDEF":
        order = [each.__name__ for each in made[cls].__mro__[:-1]]
        assert names(f"{name}.one", cls) == order
    # Where Python itself finds none, each base still stands once.
    broken = package(two="class A: pass\nclass B(A): pass\nclass C(A, B): pass\n")
    assert sorted(names(f"{broken}.two", "C")) == ["A", "B", "C"]
    assert names(f"{broken}.two", "C")[0] == "C"


def test_a_base_is_the_class_of_that_name_above(package):
    name = package(
        home="class A: pass\n",
        one="from .home import A\nclass A(A): pass\nclass B(A): pass\nclass C(D): pass\n"
        "class D(C): pass\n",
    )

    _, cls = find(f"{name}.one", "B")
    found = lineage(f"{name}.one", cls)

    assert [(home.rpartition(".")[2], each.name) for home, each in found] == [
        ("one", "B"), ("one", "A"), ("home", "A"),
    ]  # fmt: skip
    assert sorted(names(f"{name}.one", "D")) == ["C", "D"]  # a circle is cut


def test_bases_out_of_sight_are_left_out_and_told(package):
    name = package(
        one="import x\nfrom y import Y\nclass A: pass\nclass B(A, x.X): pass\nclass C(Y, A): pass\n"
        "class D(A, object): pass\nclass E(A, A): pass\nclass F(Gone): pass\n"
    )

    def unseen(cls):
        return has_unseen_base(*find(f"{name}.one", cls))

    assert [unseen(cls) for cls in "ABCDF"] == [False, True, True, False, True]
    assert names(f"{name}.one", "B") == ["B", "A"]
    assert names(f"{name}.one", "C") == ["C", "A"]
    assert names(f"{name}.one", "E") == ["E", "A"]


def test_a_class_has_so_many_bases_and_no_more(package, monkeypatch):
    name = package(
        one="class A0: pass\n" + "".join(f"class A{n + 1}(A{n}): pass\n" for n in range(5))
    )
    monkeypatch.setattr(bases, "_MAX_BASES", 5)

    assert names(f"{name}.one", "A4") == ["A4", "A3", "A2", "A1", "A0"]
    with pytest.raises(ConfigError, match="A5 has more than 5 bases"):
        names(f"{name}.one", "A5")


def test_what_a_name_stands_for_is_followed_through_imports(package):
    name = package(
        home="Kind = Literal['a']\nclass A: pass\nKind = Literal['b']\nWide: object = int\n",
        one="from .home import Kind as K, A, Wide, Gone\n",
        **{f"m{n}": f"from .m{n + 1} import K\n" for n in range(6)},
        m6="K = 1\n",
    )

    def found(module, target):
        told = alias(f"{name}.{module}", target)
        return told and (told[0].removeprefix(f"{name}."), ast.unparse(told[1]))

    assert found("home", "Kind") == found("one", "K") == ("home", "Literal['b']")
    assert found("one", "Wide") == ("home", "int")
    for module, target in (
        ("one", "A"),
        ("home", "A"),
        ("one", "Gone"),
        ("home", "no"),
        ("no", "a"),
    ):
        assert found(module, target) is None
    assert found("m3", "K") == ("m6", "1")  # three imports
    assert found("m2", "K") is None


def test_the_largest_source_and_the_most_bases_are_beyond_any_package():
    assert source._MAX_LENGTH == 8 * 2**20
    assert bases._MAX_BASES == 256
