import numpy as np
import pytest
import torch

from rlcomp.engine.attention import attend_tiles
from rlcomp.engine.layer_functions import rotate
from rlcomp.engine.native.build import build
from rlcomp.engine.native.tree_attention import _forward, tree_attention
from rlcomp.engine.packing import PackedTokens, _Trie


@pytest.fixture(scope="module", autouse=True)
def library():
    build()


def packed_of(rows):
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    trie = _Trie(ids, np.array([len(row) for row in rows]))
    number = int((trie.ends - trie.shared).sum())
    ids = torch.zeros(number, dtype=torch.int64)
    return PackedTokens(ids, ids, trie.ends, trie.shared)


def random_rows(seed, rows, longest, letters):
    draw = np.random.RandomState(seed)
    lengths = draw.randint(1, longest + 1, rows)
    return packed_of([draw.randint(1, letters + 1, length).tolist() for length in lengths])


TREES = {
    "one token": packed_of([[1]]),
    "prompt and answers": packed_of([[1] * 20 + [n] * n for n in range(2, 9)]),
    "forks everywhere": random_rows(0, 12, 9, 2),
    "no forks": random_rows(1, 5, 40, 10**9),
    "longer than tiles": packed_of([[1] * 150 + [2] * 60, [1] * 150 + [3] * 131, [4] * 129]),
}


def reference(q, k, v, packed, scale, rotation=None):
    if rotation is not None:
        q, k = rotate(q, rotation), rotate(k, rotation)
    return attend_tiles(q, k, v, packed.tiles, scale)


def angles(tokens, size, seed=3):
    angle = torch.randn(tokens, size // 2, generator=torch.Generator().manual_seed(seed))
    angle = angle.repeat(1, 2)[:, None]
    return torch.stack([angle.cos(), angle.sin()])


def results(function, dtype, given, packed, scale, rotation):
    given = [each.detach().to(dtype).requires_grad_() for each in given]
    rotation = None if rotation is None else rotation.to(dtype)
    where = packed.nodes if function is tree_attention else packed
    attended = function(*given, where, scale, rotation)
    along = torch.linspace(-1, 1, attended.numel(), dtype=torch.float64).view_as(attended)
    # Gradients that are not contiguous.
    attended.backward(along.to(dtype).t().contiguous().t())
    return [attended.detach(), *(each.grad for each in given)]


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "size"), [(2, 2, 8), (4, 2, 16), (3, 1, 20), (2, 1, 64)]
)
@pytest.mark.parametrize("rotated", [False, True])
def test_values_and_gradients_agree_with_masked_attention(tree, heads, kv_heads, size, rotated):
    packed, draw = TREES[tree], torch.Generator().manual_seed(0)
    tokens = len(packed.ids)
    given = [torch.randn(tokens, n, size, generator=draw) for n in (heads, kv_heads, kv_heads)]
    rotation = angles(tokens, size) if rotated else None

    actual = results(tree_attention, torch.float32, given, packed, 0.4, rotation)
    expected = results(reference, torch.float64, given, packed, 0.4, rotation)

    for got, want in zip(actual, expected, strict=True):
        # With a single token keys and queries have no gradient: hence the absolute term.
        assert (got - want).norm() <= 2e-6 * want.norm() + 1e-5


def test_the_reference_has_the_gradients_of_finite_differences():
    packed, draw = TREES["prompt and answers"], torch.Generator().manual_seed(0)
    tokens = len(packed.ids)
    given = [
        torch.randn(tokens, n, 2, generator=draw, dtype=torch.float64, requires_grad=True)
        for n in (2, 1, 1)
    ]
    rotation = angles(tokens, 2).double()

    def attended(*some):
        return reference(*some, packed, 0.7, rotation)[-3:]

    assert torch.autograd.gradcheck(attended, given)


def test_chunks_of_a_wider_matrix_are_accepted():
    packed = TREES["forks everywhere"]
    joined = torch.randn(len(packed.ids), 3 * 4 * 16, generator=torch.Generator().manual_seed(0))
    q, k, v = (each.view(len(joined), 4, 16) for each in joined.chunk(3, -1))

    actual = tree_attention(q, k, v, packed.nodes, 0.25)

    torch.testing.assert_close(actual, attend_tiles(q, k, v, packed.tiles, 0.25))


def test_transposed_heads_are_accepted():
    packed = TREES["forks everywhere"]
    q, k, v = torch.randn(3, 2, len(packed.ids), 16, generator=torch.Generator().manual_seed(0))
    q, k, v = (each.transpose(0, 1) for each in (q, k, v))

    actual = tree_attention(q, k, v, packed.nodes, 0.25)

    torch.testing.assert_close(actual, attend_tiles(q, k, v, packed.tiles, 0.25))


def test_without_gradients_the_values_are_equal():
    packed = TREES["no forks"]
    q = torch.randn(len(packed.ids), 1, 16, requires_grad=True)

    with torch.no_grad():
        actual = tree_attention(q, q, q, packed.nodes, 1.0)

    assert not actual.requires_grad
    torch.testing.assert_close(actual, tree_attention(q, q, q, packed.nodes, 1.0).detach())


def test_large_scores_stay_finite():
    packed = packed_of([[1, 2, 3]])
    q = torch.full((3, 1, 16), 100.0, requires_grad=True)
    v = torch.arange(3.0).view(3, 1, 1).expand(3, 1, 16).contiguous()

    actual = tree_attention(q, q, v, packed.nodes, 1.0)
    actual.sum().backward()

    # All scores are 160,000: attention averages the values.
    assert actual[:, 0].tolist() == [0.0, 0.5, 1.0]
    assert q.grad.isfinite().all()


def test_a_nan_key_affects_its_own_row_alone():
    packed = packed_of([[1, 2], [1, 3]])
    k = torch.zeros(3, 1, 16)
    k[1] = torch.nan

    actual = tree_attention(torch.ones(3, 1, 16), k, torch.ones(3, 1, 16), packed.nodes, 1.0)

    assert actual[:, 0].isnan().tolist() == [False, True, False]


@pytest.mark.parametrize(("heads", "size"), [(5, 2), (2, 5)])
def test_forward_returns_the_log_sum_exp_of_each_head_and_token(heads, size):
    q, k, v = torch.zeros(3, 3, heads, size)
    packed = packed_of([[1, 2, 3]])

    out, lse = _forward(q, k, v, packed.nodes, 1.0, None)

    assert out.shape == q.shape
    # Token n attends to n equal logits.
    torch.testing.assert_close(lse, torch.tensor([1.0, 2.0, 3.0]).log().expand(heads, 3))
