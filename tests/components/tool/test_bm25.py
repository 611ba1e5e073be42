import json
import sys

import pytest

from components.tool import BM25Search
from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError, DataError, MissingExtra
from rlcomp.interfaces.tool import ToolError

ROWS = [
    {"title": "Paris", "text": "The capital of France."},
    {"title": "Rome", "text": "The capital of Italy, not of France or France."},
    {"title": "Oslo", "text": "A harbour."},
]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def test_the_documents_that_fit_best_come_first(corpus):
    tool = BM25Search(corpus=corpus, indexed="{title} {text}", shown="{title}: {text}", top_k=2)

    # France twice in seven words weighs more than once in four; Oslo shares no word.
    assert tool("FRANCE?").splitlines() == [
        "Rome: The capital of Italy, not of France or France.",
        "Paris: The capital of France.",
    ]
    assert tool("oslo") == "Oslo: A harbour."
    assert tool("Atlantis") == ""


def test_a_title_that_stands_twice_weighs_more(corpus):
    once = BM25Search(corpus=corpus, indexed="{text}", shown="{title}", top_k=1)
    twice = BM25Search(corpus=corpus, indexed="{title} {title} {text}", shown="{title}", top_k=1)

    assert (once("paris"), twice("paris")) == ("", "Paris")


def test_more_documents_than_there_are(corpus):
    assert (
        BM25Search(corpus=corpus, indexed="{text}", shown="{title}", top_k=99)("harbour") == "Oslo"
    )


def test_the_index_is_made_once(corpus):
    first, second = (BM25Search(corpus=corpus, indexed="{text}", shown="{title}") for _ in "ab")

    assert first.index is second.index
    other = BM25Search(corpus=corpus, indexed="{title}", shown="{title}")
    assert other.index is not first.index


def test_documents_of_a_function():
    described = Unbuilt("components.worlds.hops.task.knowledge_base", {"letters": "bcd"})
    tool = BM25Search(corpus=described, indexed="{title} {title} {text}", shown="{title}", top_k=1)

    assert tool("bd mother") == "bd mother"


def test_a_document_may_be_empty(tmp_path):
    path = tmp_path / "some.jsonl"
    path.write_text('{"contents": "..."}\n{"contents": "gold"}\n')

    assert BM25Search(corpus=str(path))("gold") == "gold"


def test_queries_without_words_are_told(corpus):
    with pytest.raises(ToolError, match="the query has no word"):
        BM25Search(corpus=corpus, indexed="{text}", shown="{text}")("?!")


def test_what_cannot_be_searched_is_refused(corpus, tmp_path, monkeypatch):
    with pytest.raises(
        ConfigError, match=r"shown is '\{body\}', but .*corpus.jsonl:1 has no column"
    ):
        BM25Search(corpus=corpus, indexed="{text}", shown="{body}")
    with pytest.raises(DataError, match="there is no file"):
        BM25Search(corpus=str(tmp_path / "none.jsonl"))
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"contents": "..."}\n')
    with pytest.raises(DataError, match="its documents have no words"):
        BM25Search(corpus=str(empty))
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingExtra, match=r"rlcomp\[search\]"):
        BM25Search(corpus=corpus, indexed="{title}x", shown="{title}")
