"""BM25 search tool over a corpus of documents."""

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
# Most words of a query.
_LONGEST_QUERY = 64


class BM25Search(metaclass=Checked):
    """The documents that answer a query best, by BM25; "" where none shares a word with it.

    Words are runs of letters, digits and ``_`` in lower case; there are no stop words. A process
    makes the index once, with the first tool of its kind.

    Args:
        corpus: a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file, or the description of a function
            that returns documents as mappings.
        indexed: template of the searched text, with a document's columns. A title that it holds
            twice weighs more.
        shown: template of the result.
        top_k: number of documents, the best one first, one per line.

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
        described = [corpus.target, dict(corpus.arguments)] if isinstance(corpus, Unbuilt) else []
        path = corpus if isinstance(corpus, str) else ""
        self.index, self.shown = _index(path, json.dumps(described), indexed, shown)
        self.top_k = min(top_k, len(self.shown))

    def __call__(self, query: str) -> str:
        """Return the best documents for a query.

        Raises:
            ToolError: the query has no word.
        """
        words = _words(query)[:_LONGEST_QUERY]
        if not words:
            raise ToolError("the query has no word")
        results = self.index.retrieve([words], k=self.top_k, show_progress=False)
        pairs = zip(results.documents[0].tolist(), results.scores[0].tolist(), strict=True)
        return "\n".join(self.shown[document] for document, score in pairs if score > 0)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@lru_cache(maxsize=4)
def _index(path: str, described: str, indexed: str, shown: str) -> tuple[Any, Sequence[str]]:
    """Return the index and the result text of each document."""
    bm25s = require("bm25s", "search")
    rows = [*(read_rows(path) if path else _made(*json.loads(described)))]
    texts = [_words(_filled("indexed", indexed, row)) for row in rows]
    if not any(texts):
        raise DataError(f"corpus {path or described}: its documents have no words")
    index = bm25s.BM25()
    index.index(texts, show_progress=False)
    return index, [_filled("shown", shown, row) for row in rows]


def _made(target: str, arguments: Mapping[str, object]) -> Iterable[Row]:
    documents: Any = load(target, arguments)
    return [Row(f"{target}:{number}", row) for number, row in enumerate(documents, start=1)]


def _filled(name: str, template: str, row: Row) -> str:
    columns = {column: str(value) for column, value in row.columns.items()}

    def value(match: re.Match[str]) -> str:
        if match[1] not in columns:
            raise ConfigError(
                f"BM25Search: {name} is {template!r}, but {row.place} has no column {match[1]!r}: "
                f"it has {', '.join(columns)}"
            )
        return columns[match[1]]

    return re.sub(r"\{(\w+)\}", value, template)
