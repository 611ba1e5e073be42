"""Tool that searches a corpus of documents by BM25."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt, Unbuilt
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import ConfigError, DataError, require
from rlcomp.interfaces.tool import ToolError
from rlcomp.workers.function_call import load

_WORD = re.compile(r"\w+")
# Largest number of words of a query that are used.
_MAX_QUERY_WORDS = 64


class BM25Search(metaclass=Checked):
    """Tool that returns the documents with the largest BM25 scores for a query.

    The result is "" if no document shares a word with the query. Words are runs of letters, digits
    and ``_`` in lower case; there are no stop words. The tools of a process with the same arguments
    share one index.

    Args:
        corpus: a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file, or the description of a function
            that returns documents as mappings.
        indexed: template of the searched text, with a document's columns as fields. A field that
            occurs twice has more weight.
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
        words = _words(query)[:_MAX_QUERY_WORDS]
        if not words:
            raise ToolError("the query has no word")
        results = self.index.retrieve([words], k=self.top_k, show_progress=False)
        pairs = zip(results.documents[0].tolist(), results.scores[0].tolist(), strict=True)
        return "\n".join(self.documents[document] for document, score in pairs if score > 0)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@lru_cache(maxsize=4)
def _build_index(
    path: str, description: str, indexed: str, shown: str
) -> tuple[Any, Sequence[str]]:
    """Return the index and the result text of each document."""
    bm25s = require("bm25s", "search")
    rows = [*(read_rows(path) if path else _load_documents(*json.loads(description)))]
    texts = [_words(_fill_template("indexed", indexed, row)) for row in rows]
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

    def value(match: re.Match[str]) -> str:
        if match[1] not in columns:
            raise ConfigError(
                f"BM25Search: {name} is {template!r}, but {row.place} has no column {match[1]!r}: "
                f"it has {', '.join(columns)}"
            )
        return columns[match[1]]

    return re.sub(r"\{(\w+)\}", value, template)
