"""An environment of another package needs at most 40 lines of code of its own here.

Counted are lines with code: neither docstrings, comments and blank lines nor imports.
"""

import ast
import importlib
import inspect
import io
import tokenize

import pytest

ADAPTERS = [
    *("text_games.GymnasiumText", "text_games.SkyRLGym", "text_games.TextArena"),
    *("trl", "openenv", "reasoning_gym"),
]
MOST = 40
_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def lines_of_code(source):
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SILENT | {tokenize.ENDMARKER}:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        if documented and ast.get_docstring(node) is not None:
            node = node.body[0]
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        lines -= {*range(node.lineno, node.end_lineno + 1)}
    return len(lines)


def test_what_is_counted():
    source = (
        '"""Of it."""\n\nimport a\n\n\n# Why.\ndef f(\n    x,\n):\n    """What."""\n    return a\n'
    )

    assert lines_of_code(source) == 4


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_short(name):
    module, _, adapter = name.partition(".")
    source = importlib.import_module(f"components.environment.{module}")
    if adapter:
        source = getattr(source, adapter)

    assert lines_of_code(inspect.getsource(source)) <= MOST
