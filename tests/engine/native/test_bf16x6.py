import itertools
import subprocess
import sys

import pytest
import torch

from rlcomp.engine.native import bf16x6, library
from rlcomp.engine.native.bf16x6 import add_product, product
from rlcomp.errors import ShapeError

needs_amx = pytest.mark.skipif(
    bf16x6.why_missing_bf16x6() is not None, reason="this processor has no AMX unit"
)
# Less than a tile, one tile, a little more; more than the columns, inputs and rows of a block.
SHAPES = [(1, 1, 1), (3, 2, 5), (16, 16, 32), (17, 33, 31), (31, 15, 47), (7, 321, 513)]
SHAPES += [(321, 7, 1100), (1030, 20, 33)]


def values(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def column_major(tensor):
    """The same numbers with contiguous columns."""
    return tensor.t().contiguous().t()


def assert_exact(found, a, b, before=0.0):
    """Check that the error is at most four float32 roundings of the sum of the terms' sizes."""
    exact = a.double() @ b.double() + before
    size = a.double().abs() @ b.double().abs() + abs(before)
    assert ((found - exact).abs() <= 2.0**-22 * size).all()


@needs_amx
@pytest.mark.parametrize("shape", SHAPES)
def test_product_agrees_with_float64(shape):
    m, n, k = shape
    a, b = values(m, k), values(k, n, seed=1)
    for left, right in itertools.product((a, column_major(a)), (b, column_major(b))):
        assert_exact(product(left, right), a, b)
        for out in (torch.full((m, n), 3.0), column_major(torch.full((m, n), 3.0))):
            add_product(out, left, right)
            assert_exact(out, a, b, 3.0)


@needs_amx
def test_product_uses_all_24_digits():
    # (1 + 2^-23) (1 + 2^-22) = 1 + 3 * 2^-23 + 2^-45: the third parts contribute; their product is
    # left out, because float32 rounds it away.
    one = torch.tensor([[1 + 2.0**-23]])

    assert product(one, torch.tensor([[1 + 2.0**-22]])).item() == 1 + 3 * 2.0**-23
    assert product(one, torch.tensor([[-1.0]])).item() == -1 - 2.0**-23


@needs_amx
def test_product_sums_six_partial_products():
    # Parts of 1 + 2^-8 + 2^-16 are its three terms: six products of the nine.
    x = torch.tensor([[1 + 2.0**-8 + 2.0**-16]])

    assert product(x, x).item() == 1 + 2 * 2.0**-8 + 3 * 2.0**-16


@needs_amx
@pytest.mark.parametrize("layout", [lambda b: b, column_major])
def test_an_entry_depends_on_its_row_and_column_alone(layout):
    a, b = values(70, 600), layout(values(600, 50, seed=1))

    whole = product(a, b)

    # With fewer rows than columns the order of the six products may differ.
    assert torch.equal(product(a[10:], b), whole[10:])
    assert torch.equal(product(a, b[:, 33:]), whole[:, 33:])


@needs_amx
def test_shapes_and_dtypes_that_do_not_match_are_refused():
    with pytest.raises(ShapeError, match=r"\(2, 3\) by \(2, 3\) is not a product of shape"):
        product(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"\(2,\) by \(2, 3\) is not a product"):
        add_product(torch.ones(2, 3), torch.ones(2), torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"is not a product of shape \(2, 2\)"):
        add_product(torch.ones(2, 2), torch.ones(2, 3), torch.ones(3, 3))
    with pytest.raises(ShapeError, match="BF16x6 takes float32 on the CPU, not"):
        product(torch.ones(2, 3).double(), torch.ones(3, 2).double())


@needs_amx
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_default_dtype_has_no_effect(dtype):
    before = torch.get_default_dtype()
    a, b = values(3, 4), values(4, 2)
    torch.set_default_dtype(dtype)
    try:
        actual = product(a, b)
    finally:
        torch.set_default_dtype(before)

    assert actual.dtype == torch.float32
    assert_exact(actual, a, b)


@needs_amx
def test_strided_matrices_are_accepted():
    a, b = values(6, 8)[:, ::2], values(4, 10)[:, ::2]
    assert 1 not in a.stride()
    assert_exact(product(a, b), a, b)
    out = torch.ones(6, 10)[:, ::2]
    add_product(out, a, b)
    assert_exact(out, a, b, 1.0)
    ones = torch.ones(1).expand(6, 4)  # the gradient of a sum
    assert_exact(product(ones, b), ones, b)


@needs_amx
@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_empty_factors_give_an_empty_or_zero_product(m, n, k):
    out = torch.ones(m, n)
    add_product(out, torch.ones(m, k), torch.ones(k, n))

    assert torch.equal(out, torch.ones(m, n))
    assert torch.equal(product(torch.ones(m, k), torch.ones(k, n)), torch.zeros(m, n))


@needs_amx
def test_infinity_and_nan_give_nan_in_their_row():
    a = torch.tensor([[torch.inf, 1.0], [1.0, 1.0], [torch.nan, 0.0]])

    actual = product(a, torch.ones(2, 2))

    assert actual.isnan().tolist() == [[True, True], [False, False], [True, True]]


@needs_amx
def test_the_state_of_amx_is_restored_for_other_kernels():
    a, b = values(64, 64), values(64, 64, seed=1)
    half = [each.bfloat16() for each in (a, b)]
    before = half[0] @ half[1]

    for _ in range(3):
        product(a, b)
        assert torch.equal(half[0] @ half[1], before)


@needs_amx
def test_the_first_product_of_a_process_requests_permission():
    # Linux grants AMX per process: without a request the first product ends the process.
    code = (
        "import torch; from rlcomp.engine.native.bf16x6 import product;"
        "print(product(torch.full((1, 2), 3.0), torch.full((2, 1), 2.0)).item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "12.0\n"


def test_why_missing_bf16x6_gives_the_reason(monkeypatch):
    class Without:
        def rlcomp_has_bf16x6(self):
            return 0

    def none():
        raise RuntimeError("no library")

    monkeypatch.setattr(bf16x6, "library", none)
    assert bf16x6.why_missing_bf16x6() == "no library"
    monkeypatch.setattr(bf16x6, "library", Without)
    assert bf16x6.why_missing_bf16x6().startswith("this machine has no AMX unit for bfloat16")
    with pytest.raises(RuntimeError, match="ATEN_CPU_CAPABILITY disables it"):
        product(torch.ones(1, 1), torch.ones(1, 1))


def test_objects_of_other_instruction_sets_have_no_bf16x6(each):
    if each == "avx512":
        pytest.skip("another instruction set: this one may have it")

    assert library.library().rlcomp_has_bf16x6() == 0


@needs_amx
def test_a_failed_allocation_is_a_memory_error(monkeypatch):
    class Full:
        def rlcomp_has_bf16x6(self):
            return 1

        def rlcomp_bf16x6(self, *given):
            assert len(given) == 13
            return 1

    monkeypatch.setattr(bf16x6, "library", Full)
    with pytest.raises(MemoryError, match="no memory is left"):
        product(torch.ones(1, 1), torch.ones(1, 1))
