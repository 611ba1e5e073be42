import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.engine.attention import prefix_tree_nodes
from rlcomp.engine.packing import _Trie

ROWS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), min_size=1, max_size=8)


def trie_of(rows):
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    return _Trie(ids, np.array([len(row) for row in rows]))


def paths_by_hand(rows):
    """Return the indices of all prefixes of each distinct prefix, in the order of the list."""
    prefixes = sorted({tuple(row[:end]) for row in rows for end in range(1, len(row) + 1)})
    # Depth first: a prefix comes before its continuations.
    at = {prefix: place for place, prefix in enumerate(prefixes)}
    return [{at[prefix[:end]] for end in range(1, len(prefix) + 1)} for prefix in prefixes]


@given(ROWS)
def test_prefix_tree_nodes_give_each_token_the_prefixes_of_its_row(rows):
    trie, expected = trie_of(rows), paths_by_hand(rows)

    nodes = prefix_tree_nodes(trie.ends, trie.shared)

    visible = [set() for _ in expected]
    for start, stop, reach in nodes.tolist():
        assert start < stop <= reach
        for token in range(start, reach):
            visible[token] |= set(range(start, min(token + 1, stop)))
    assert visible == expected
    # Nodes cover the list once, and each comes after its descendants.
    assert sorted(t for a, b, _ in nodes.tolist() for t in range(a, b)) == list(
        range(len(expected))
    )
    for place, (_, stop, reach) in enumerate(nodes.tolist()):
        inside = [n for n, (start, *_) in enumerate(nodes.tolist()) if stop <= start < reach]
        assert all(n < place for n in inside)


@pytest.mark.parametrize(
    ("ends", "shared", "wanted"),
    [
        ([1], [0], [[0, 1, 1]]),
        ([2, 3], [0, 0], [[0, 2, 2], [2, 5, 5]]),
        # A row that is a prefix of the next.
        ([2, 4], [0, 2], [[2, 4, 4], [0, 2, 4]]),
        # A prompt of 2; the last two of its three answers share one more token.
        (
            [4, 5, 4],
            [0, 2, 3],
            [[2, 4, 4], [5, 7, 7], [7, 8, 8], [4, 5, 8], [0, 2, 8]],
        ),
    ],
)
def test_prefix_tree_nodes_by_hand(ends, shared, wanted):
    assert prefix_tree_nodes(np.array(ends), np.array(shared)).tolist() == wanted
