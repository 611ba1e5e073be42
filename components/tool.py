"""Tools: a calculator, a Python interpreter in the sandbox, and BM25 search."""

from __future__ import annotations

import ast
import functools
import json
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText, PositiveFloat, PositiveInt, Unbuilt
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import ConfigError, DataError, require
from rlcomp.interfaces.tool import ToolError
from rlcomp.sandbox.job import MEBIBYTE, Limits, StdioJob, notebook_cell
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.workers.function_call import load

_MAX_CHARACTERS = 200  # in an expression
_MAX_DIGITS = 100  # in a numerator or denominator

_OPERATIONS: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Calculator:
    """Tool that returns the exact value of an expression of numbers with ``+ - * / ( )``.

    An integer value is written as an integer, another value as a fraction. The tool has no state.

    Examples:
        >>> Calculator()("7*8-1"), Calculator()("1/3 + 1/6")
        ('55', '1/2')
    """

    def __call__(self, query: str) -> str:
        """Return the value of an expression.

        Raises:
            ToolError: the query is no such expression, has more than 200 characters, divides by 0,
                or has a value with more than 100 digits.
        """
        if len(query) > _MAX_CHARACTERS:
            raise ToolError(f"more than {_MAX_CHARACTERS} characters")
        try:
            value = _evaluate(ast.parse(query.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ToolError("no expression of numbers with + - * / ( )") from error
        except ZeroDivisionError as error:
            raise ToolError("division by 0") from error
        return str(value)


def _evaluate(node: ast.expr) -> Fraction:
    """Return the exact value of a syntax tree."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _check_size(Fraction(str(node.value)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _check_size(_OPERATIONS[type(node.op)](_evaluate(node.left), _evaluate(node.right)))
    raise ValueError


def _check_size(value: Fraction) -> Fraction:
    """Return a value unless it has too many digits."""
    if max(abs(value.numerator), value.denominator) >= 10**_MAX_DIGITS:
        raise ToolError(f"more than {_MAX_DIGITS} digits")
    return value


class PythonInterpreter(metaclass=Checked):
    """Tool that runs a program in the sandbox and returns its output.

    The output is the printed text, then the value of an expression in the last line. Every call has
    a new interpreter. A program that raises an error or exceeds a limit is a wrong call; its result
    is the last line of the error, or the limit. An episode fails if the policy's tokenizer cannot
    encode a result; ``tokenizer=byte`` encodes every result.

    Args:
        sandbox: the sandbox, or its description; it runs one program of a process at a time.
        timeout: time limit of a program, in seconds; must be below the limit of a step
            (``environment_pool.timeout``).
        memory_mib: memory limit of a program, in MiB.
        longest: maximum number of characters of a result; a longer one is cut.

    Raises:
        ConfigError: the sandbox does not work on this machine.

    Source:
        Feng et al. 2025 (ReTool), arXiv:2504.11536, section 2.3, for the results.
    """

    def __init__(
        self,
        *,
        sandbox: ProgramRunner | Unbuilt,
        timeout: PositiveFloat = 5.0,
        memory_mib: PositiveInt = 256,
        longest: PositiveInt = 1000,
    ) -> None:
        self.sandbox = sandbox
        self.limits = Limits(wall=timeout, cpu=timeout, memory=memory_mib * MEBIBYTE)
        self.longest = longest
        _get_runner(sandbox).check(StdioJob, measured=False)

    def __call__(self, code: str) -> str:
        """Return the output of a program.

        Raises:
            ToolError: the program raised or exceeded a limit.
            RlcompError: the sandbox failed.
        """
        outcome = _get_runner(self.sandbox).run_stdio(notebook_cell(code), limits=self.limits)
        if outcome.status != "passed":
            raise ToolError(self._format_result(outcome.message))
        return self._format_result(outcome.stdout.rstrip())

    def _format_result(self, text: str) -> str:
        """Return a text as a result: cut, without surrogates and memory addresses."""
        result = text[: self.longest].encode("utf-8", "replace").decode()
        # Addresses differ between processes, but a replay of the episode must have equal results.
        return re.sub(r"\b0x[0-9a-f]{6,}", "0x...", result)


def _get_runner(sandbox: ProgramRunner | Unbuilt) -> ProgramRunner:
    """Return the sandbox of this process."""
    if not isinstance(sandbox, Unbuilt):
        return sandbox
    return _load_runner(sandbox.target, json.dumps(dict(sandbox.arguments)), os.getpid())


@functools.cache
def _load_runner(target: str, arguments: str, process: int) -> ProgramRunner:
    del process  # part of the cache key: a fork cannot use its parent's sandbox
    runner: ProgramRunner = load(target, json.loads(arguments))  # type: ignore[assignment]
    return runner


_WORD = re.compile(r"\w+")
_MAX_QUERY_WORDS = 64  # later words of a query are ignored


class BM25Search(metaclass=Checked):
    """Tool that returns the documents with the largest BM25 scores for a query.

    The result is "" if no document shares a word with the query. Words are runs of letters, digits
    and ``_`` in lower case, without stop words. The tools of a process with equal arguments share
    one index.

    Args:
        corpus: a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file, or the description of a function
            that returns documents as mappings.
        indexed: template of the searched text, with a document's columns as fields; a repeated
            field has more weight.
        shown: template of a document in the result.
        top_k: number of documents in the result, one per line, the best one first.

    Raises:
        ConfigError: a template names a missing column.
        DataError: the file cannot be read.
        MissingExtra: bm25s is not installed (extra ``search``).

    Source:
        Robertson and Zaragoza 2009, The Probabilistic Relevance Framework; by bm25s (Lù 2024,
        arXiv:2407.03618), its ``lucene`` variant with k1 = 1.5, b = 0.75.

    Examples:
        >>> from rlcomp.arguments import Unbuilt
        >>> corpus = Unbuilt("components.worlds.hops.task.knowledge_base", {"letters": "bcd"})
        >>> BM25Search(corpus=corpus, indexed="{title}", shown="{title}", top_k=1)("bc mother?")
        'bc mother'
    """

    def __init__(
        self,
        *,
        corpus: NonEmptyText | Unbuilt,
        indexed: NonEmptyText = "{contents}",
        shown: NonEmptyText = "{contents}",
        top_k: PositiveInt = 3,
    ) -> None:
        description = [corpus.target, dict(corpus.arguments)] if isinstance(corpus, Unbuilt) else []
        path = corpus if isinstance(corpus, str) else ""
        self.index, self.documents = _build_index(path, json.dumps(description), indexed, shown)
        self.top_k = min(top_k, len(self.documents))

    def __call__(self, query: str) -> str:
        """Return the best documents for a query.

        Raises:
            ToolError: the query has no word.
        """
        words = _split_words(query)[:_MAX_QUERY_WORDS]
        if not words:
            raise ToolError("the query has no word")
        results = self.index.retrieve([words], k=self.top_k, show_progress=False)
        pairs = zip(results.documents[0].tolist(), results.scores[0].tolist(), strict=True)
        return "\n".join(self.documents[document] for document, score in pairs if score > 0)


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@lru_cache(maxsize=4)
def _build_index(
    path: str, description: str, indexed: str, shown: str
) -> tuple[Any, Sequence[str]]:
    """Return the index and the result text of each document."""
    bm25s = require("bm25s", "search")
    rows = [*(read_rows(path) if path else _load_documents(*json.loads(description)))]
    texts = [_split_words(_fill_template("indexed", indexed, row)) for row in rows]
    if not any(texts):
        raise DataError(f"corpus {path or description}: its documents have no words")
    index = bm25s.BM25()
    index.index(texts, show_progress=False)
    return index, [_fill_template("shown", shown, row) for row in rows]


def _load_documents(target: str, arguments: Mapping[str, object]) -> Iterable[Row]:
    """Return the documents that a function returns, as rows."""
    documents: Any = load(target, arguments)
    return [Row(f"{target}:{number}", row) for number, row in enumerate(documents, start=1)]


def _fill_template(name: str, template: str, row: Row) -> str:
    """Return a template with the columns of a document in place of its fields."""
    columns = {column: str(value) for column, value in row.columns.items()}

    def replace(match: re.Match[str]) -> str:
        if match[1] not in columns:
            raise ConfigError(
                f"BM25Search: {name} is {template!r}, but {row.place} has no column {match[1]!r}: "
                f"it has {', '.join(columns)}"
            )
        return columns[match[1]]

    return re.sub(r"\{(\w+)\}", replace, template)
