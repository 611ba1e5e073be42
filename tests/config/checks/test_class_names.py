"""A check that names a class of the package keeps up with its module."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = [
    file
    for folder in ("config", "cli", "run", "report")
    for file in sorted((ROOT / "rlcomp" / folder).rglob("*.py"))
]


def shipped_classes():
    """Return the dotted path of every class and function of a module, with a dot in front."""
    for package in ("rlcomp", "components"):
        for file in (ROOT / package).rglob("*.py"):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    yield f".{module}.{node.name}"


CLASSES = [*shipped_classes()]
# Names that a user's config may have, not ours.
FOREIGN = ("mine.", "torch", "rlcomp.generation.", "rlcomp.model.", "hydra", "components.proximal")


def class_names(file):
    """Return the strings of a module that look like the path of a class, without docstrings."""
    return [
        node.value
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"\.?([a-z_]+\.)*[A-Z]\w*[a-z]\w*", node.value)
        and "." in node.value
        and not node.value.startswith(FOREIGN)
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_named_class_exists(file):
    for name in class_names(file):
        assert any(path.endswith(f".{name.lstrip('.')}") for path in CLASSES), name


def test_names_are_found():
    assert {".AdapterOffReference"} <= {name for file in FILES for name in class_names(file)}
