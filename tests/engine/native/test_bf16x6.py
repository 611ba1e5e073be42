import itertools
import subprocess
import sys

import pytest
import torch

from rlcomp.engine.native import bf16x6, library
from rlcomp.engine.native.bf16x6 import add_product, product
from rlcomp.errors import ShapeError

needs_unit = pytest.mark.skipif(
    bf16x6.why_missing_bf16x6() is not None, reason="this processor has no AMX unit"
)
# Less than a tile, one, one and a bit; more than the columns, inputs and rows of a block.
SHAPES = [(1, 1, 1), (3, 2, 5), (16, 16, 32), (17, 33, 31), (31, 15, 47), (7, 321, 513)]
SHAPES += [(321, 7, 1100), (1030, 20, 33)]


def values(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def turned(tensor):
    """The same numbers, columns side by side."""
    return tensor.t().contiguous().t()


def assert_exact(found, a, b, before=0.0):
    """Within four roundings to float32's 24 digits of the sum of the terms' sizes."""
    wide = a.double() @ b.double() + before
    size = a.double().abs() @ b.double().abs() + abs(before)
    assert ((found - wide).abs() <= 2.0**-22 * size).all()


@needs_unit
@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_is_that_of_float64(shape):
    m, n, k = shape
    a, b = values(m, k), values(k, n, seed=1)
    for left, right in itertools.product((a, turned(a)), (b, turned(b))):
        assert_exact(product(left, right), a, b)
        for out in (torch.full((m, n), 3.0), turned(torch.full((m, n), 3.0))):
            add_product(out, left, right)
            assert_exact(out, a, b, 3.0)


@needs_unit
def test_all_24_digits_count():
    # (1 + 2^-23) (1 + 2^-22) is 1 + 3 * 2^-23 + 2^-45: the third parts are in it, and their product
    # is left out, as float32 would round it away.
    one = torch.tensor([[1 + 2.0**-23]])

    assert product(one, torch.tensor([[1 + 2.0**-22]])).item() == 1 + 3 * 2.0**-23
    assert product(one, torch.tensor([[-1.0]])).item() == -1 - 2.0**-23


@needs_unit
def test_each_of_the_six_products_counts():
    # Parts of 1 + 2^-8 + 2^-16 are its three terms: six products of the nine.
    x = torch.tensor([[1 + 2.0**-8 + 2.0**-16]])

    assert product(x, x).item() == 1 + 2 * 2.0**-8 + 3 * 2.0**-16


@needs_unit
@pytest.mark.parametrize("layout", [lambda b: b, turned])
def test_numbers_depend_on_their_own_row_and_column(layout):
    a, b = values(70, 600), layout(values(600, 50, seed=1))

    whole = product(a, b)

    # As many rows as there are columns, or fewer, may be another order of the six products.
    assert torch.equal(product(a[10:], b), whole[10:])
    assert torch.equal(product(a, b[:, 33:]), whole[:, 33:])


@needs_unit
def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match=r"\(2, 3\) by \(2, 3\) is not a product of shape"):
        product(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"\(2,\) by \(2, 3\) is not a product"):
        add_product(torch.ones(2, 3), torch.ones(2), torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"is not a product of shape \(2, 2\)"):
        add_product(torch.ones(2, 2), torch.ones(2, 3), torch.ones(3, 3))
    with pytest.raises(ShapeError, match="BF16x6 takes float32 on the CPU, not"):
        product(torch.ones(2, 3).double(), torch.ones(3, 2).double())


@needs_unit
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_default_dtype_is_nothing_to_it(dtype):
    before = torch.get_default_dtype()
    a, b = values(3, 4), values(4, 2)
    torch.set_default_dtype(dtype)
    try:
        found = product(a, b)
    finally:
        torch.set_default_dtype(before)

    assert found.dtype == torch.float32
    assert_exact(found, a, b)


@needs_unit
def test_layouts_that_are_not_dense():
    a, b = values(6, 8)[:, ::2], values(4, 10)[:, ::2]
    assert 1 not in a.stride()
    assert_exact(product(a, b), a, b)
    out = torch.ones(6, 10)[:, ::2]
    add_product(out, a, b)
    assert_exact(out, a, b, 1.0)
    ones = torch.ones(1).expand(6, 4)  # the gradient of a sum
    assert_exact(product(ones, b), ones, b)


@needs_unit
@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_nothing_is_a_product_of_nothing(m, n, k):
    out = torch.ones(m, n)
    add_product(out, torch.ones(m, k), torch.ones(k, n))

    assert torch.equal(out, torch.ones(m, n))
    assert torch.equal(product(torch.ones(m, k), torch.ones(k, n)), torch.zeros(m, n))


@needs_unit
def test_what_is_not_finite_is_not_a_number_in_its_row():
    a = torch.tensor([[torch.inf, 1.0], [1.0, 1.0], [torch.nan, 0.0]])

    found = product(a, torch.ones(2, 2))

    assert found.isnan().tolist() == [[True, True], [False, False], [True, True]]


@needs_unit
def test_other_kernels_find_the_matrix_unit_as_they_left_it():
    a, b = values(64, 64), values(64, 64, seed=1)
    half = [each.bfloat16() for each in (a, b)]
    before = half[0] @ half[1]

    for _ in range(3):
        product(a, b)
        assert torch.equal(half[0] @ half[1], before)


@needs_unit
def test_another_process_may_use_it_at_once():
    # Permission is that of a process: without asking for it the first product ends the process.
    code = (
        "import torch; from rlcomp.engine.native.bf16x6 import product;"
        "print(product(torch.full((1, 2), 3.0), torch.full((2, 1), 2.0)).item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "12.0\n"


def test_why_there_is_none(monkeypatch):
    class Without:
        def rlcomp_has_bf16x6(self):
            return 0

    def none():
        raise RuntimeError("no library")

    monkeypatch.setattr(bf16x6, "library", none)
    assert bf16x6.why_missing_bf16x6() == "no library"
    monkeypatch.setattr(bf16x6, "library", Without)
    assert bf16x6.why_missing_bf16x6().startswith(
        "there is no AMX unit for bfloat16 here: this processor"
    )
    with pytest.raises(RuntimeError, match="ATEN_CPU_CAPABILITY, does not let it be used"):
        product(torch.ones(1, 1), torch.ones(1, 1))


def test_an_object_without_the_unit_says_so(each):
    if each == "avx512":
        pytest.skip("another instruction set: this one may have it")

    assert library.library().rlcomp_has_bf16x6() == 0


@needs_unit
def test_no_memory(monkeypatch):
    class Full:
        def rlcomp_has_bf16x6(self):
            return 1

        def rlcomp_bf16x6(self, *given):
            assert len(given) == 13
            return 1

    monkeypatch.setattr(bf16x6, "library", Full)
    with pytest.raises(MemoryError, match="no memory is left"):
        product(torch.ones(1, 1), torch.ones(1, 1))
