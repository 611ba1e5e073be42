"""Every file of numbers is described, and compared with by a test."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
POLICY = Path(__file__).parent / "policy"
NAMES = sorted(file.stem for file in POLICY.glob("*.safetensors"))
ROWS = re.findall(r"^\| `(\w+)` \|", (POLICY / "README.md").read_text("utf-8"), re.MULTILINE)


def strings(source):
    """The texts a module holds, and patterns of those it puts together."""
    plain, patterns = set(), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            plain.add(node.value.removesuffix(".safetensors"))
        elif isinstance(node, ast.JoinedStr):
            parts = [
                re.escape(p.value) if isinstance(p, ast.Constant) else "(.+)" for p in node.values
            ]
            patterns.append("".join(parts).removesuffix(r"\.safetensors"))
    return plain, patterns


def loads(source, name):
    """Whether a module names a file: as it stands, or out of pieces it holds as well."""
    plain, patterns = strings(source)
    found = (re.fullmatch(pattern, name) for pattern in patterns if "__" in pattern)
    return name in plain or any(match and plain.issuperset(match.groups()) for match in found)


SOURCES = [
    text
    for text in (file.read_text("utf-8") for file in TESTS.rglob("test_*.py"))
    if "safetensors" in text and "policy" in text
]


def test_every_file_has_one_row_and_every_row_its_file():
    assert sorted(row for row in ROWS if not row.endswith("__")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_test_loads_it(name):
    assert any(loads(source, name) for source in SOURCES)


def test_a_name_is_found_whole_or_in_pieces_and_not_otherwise():
    assert loads('read("a__b")', "a__b")
    assert loads('read("golden/a__b.safetensors")', "a__b") is False
    assert loads('for x in ("b", "c"): read(f"a__{x}.safetensors")', "a__c")
    assert not loads('for x in ("b", "c"): read(f"a__{x}.safetensors")', "a__d")
    assert not loads('read(f"{x}.safetensors")', "a__b")
