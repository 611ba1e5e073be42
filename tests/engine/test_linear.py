"""Linear layers: precision and choice of every kernel, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.engine import linear as module
from rlcomp.engine.linear import accumulate, faster_kernel, has_onednn, linear, wide_product
from rlcomp.engine.native import bf16x6
from rlcomp.errors import ShapeError

needs_bf16x6 = pytest.mark.skipif(
    bf16x6.why_missing_bf16x6() is not None, reason="this processor has no AMX unit"
)
SPLIT = pytest.param("bf16x6", marks=needs_bf16x6)
KERNELS = ["torch", "onednn", "bfloat16", SPLIT]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    ),
]
needs_onednn = pytest.mark.skipif(not has_onednn(), reason="this torch has no oneDNN product")
# Half the distance between neighbours in bfloat16, which has eight binary digits.
ROUNDING = 2.0**-8
# Rows, inputs and outputs that are enough for oneDNN and for BF16x6.
ENOUGH = (64, 128, 512)
ANY = {"onednn": (1, 1, 1), "bf16x6": (1, 1, 1)}


def values(*shape, seed, device="cpu"):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


def strided(tensor, layout):
    """Return the same values in another layout."""
    if layout == "transposed":
        return tensor.t().contiguous().t()
    if layout == "sliced":
        return torch.cat([tensor, torch.full_like(tensor, torch.nan)], -1)[:, : tensor.shape[1]]
    return tensor


def run(x, weight, bias, g, kernel):
    """Return the output of the layer, and the gradients of its inputs."""
    given = [one.detach().requires_grad_() for one in (x, weight, bias) if one is not None]
    y = linear(given[0], given[1], given[2] if bias is not None else None, kernel)
    return [y.detach(), *torch.autograd.grad(y, given, g)]


def expected(x, weight, bias, g, kernel):
    """Return each value in float64, and its tolerance."""
    rounding = ROUNDING if kernel == "bfloat16" else 0.0

    def wide(one):
        return (one.bfloat16() if kernel == "bfloat16" else one).double()

    def product(a, b):
        value, size = wide(a) @ wide(b), wide(a).abs() @ wide(b).abs()
        # 1e-6: float32 sums, whose terms may cancel.
        return value, rounding * value.abs() + 1e-6 * size

    layer, gradients = product(x, weight.t()), [product(g, weight), product(g.t(), x)]
    if bias is None:
        return [layer, *gradients]
    layer = layer[0] + bias.double(), layer[1] + 1e-6 * bias.double().abs()
    return [layer, *gradients, (g.double().sum(0), 1e-6 * g.double().abs().sum(0))]


def assert_near(found, wanted):
    for one, (value, error) in zip(found, wanted, strict=True):
        assert one.shape == value.shape
        assert ((one - value).abs() <= error).all()


@pytest.mark.parametrize("device", DEVICES)
def test_tf32_rounds_the_factors_on_a_gpu_alone(device):
    x, weight, g = (
        values(*shape, seed=seed, device=device)
        for seed, shape in enumerate([(64, 128), (512, 128), (64, 512)])
    )
    before = torch.get_float32_matmul_precision()

    actual = run(x, weight, None, g, "tf32")

    assert torch.get_float32_matmul_precision() == before
    wanted = expected(x, weight, None, g, "torch")
    if device == "cpu":
        plain = run(x, weight, None, g, "torch")
        assert all(torch.equal(a, b) for a, b in zip(actual, plain, strict=True))
        return
    for one, (value, _) in zip(actual, wanted, strict=True):
        # Ten binary digits of each factor.
        assert 1e-6 < (one - value).norm() / value.norm() < 2.0**-10


@pytest.mark.parametrize("device", DEVICES)
def test_wide_product_agrees_with_float64(device):
    x, weight, bias = (
        values(*shape, seed=seed, device=device).bfloat16()
        for seed, shape in enumerate([(7, 64), (33, 64), (33,)])
    )

    actual = wide_product(x, weight, bias)

    wide = x.double() @ weight.double().t()
    # A CPU rounds the sum to bfloat16, a GPU to float32.
    rounding = ROUNDING * wide.abs() if device == "cpu" else 0.0
    assert actual.dtype == torch.float32
    error = rounding + 1e-6 * (x.double().abs() @ weight.double().abs().t() + 1)
    assert ((actual - wide - bias.double()).abs() <= error).all()


@pytest.fixture
def always(monkeypatch):
    """Let every kernel multiply products of any size."""
    monkeypatch.setattr(module, "_LEAST", ANY)


@pytest.mark.parametrize("kernel", KERNELS)
@given(
    rows=st.sampled_from([0, 1, 2, 7, 33]),
    inputs=st.sampled_from([1, 3, 16, 40]),
    outputs=st.sampled_from([1, 5, 16, 70]),
    layouts=st.tuples(*[st.sampled_from(["plain", "transposed", "sliced"])] * 3),
    biased=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_agree_with_float64(
    kernel, rows, inputs, outputs, layouts, biased, seed
):
    x = strided(values(rows, inputs, seed=seed), layouts[0])
    weight = strided(values(outputs, inputs, seed=seed + 1), layouts[1])
    g = strided(values(rows, outputs, seed=seed + 2), layouts[2])
    bias = values(outputs, seed=seed + 3) if biased else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST", ANY)
        actual = run(x, weight, bias, g, kernel)

    assert_near(actual, expected(x, weight, bias, g, kernel))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [ENOUGH, (512, 64, 256), (16, 512, 256)])
def test_layers_of_the_size_of_models_agree_with_float64(kernel, shape, device):
    rows, inputs, outputs = shape
    x, weight = values(rows, inputs, seed=0), values(outputs, inputs, seed=1)
    g, bias = values(rows, outputs, seed=2), values(outputs, seed=3)
    given = [one.to(device) for one in (x, weight, bias, g)]

    actual = [one.cpu() for one in run(*given, kernel)]

    assert_near(actual, expected(x, weight, bias, g, kernel))


def test_bfloat16_rounds_the_factors_and_not_the_bias():
    # 1 + 2^-9 lies between 1 and the next number of bfloat16, 1 + 2^-7, and nearer to 1: the
    # product is 1. The bias, 2^-9, is added without rounding.
    x, bias = torch.tensor([[1 + 2.0**-9]]), torch.tensor([2.0**-9])

    assert linear(x, torch.ones(1, 1), None, "bfloat16").item() == 1.0
    assert linear(x, torch.ones(1, 1), bias, "bfloat16").item() == 1 + 2.0**-9


@given(seed=st.integers(0, 1000))
def test_bfloat16_error_is_at_most_three_roundings(seed):
    # Two factors and the product are rounded: (1 + u)^3 - 1 of the magnitudes, and float32 sums.
    x, weight = values(9, 20, seed=seed), values(7, 20, seed=seed + 1)
    exact, size = x.double() @ weight.double().t(), x.double().abs() @ weight.double().abs().t()

    error = (linear(x, weight, None, "bfloat16") - exact).abs()

    assert (error <= ((1 + ROUNDING) ** 3 - 1 + 1e-6) * size).all()


@needs_bf16x6
def test_shapes_that_do_not_match_are_refused():
    with pytest.raises(ShapeError, match=r"\(64, 512\) by \(128, 512\) is not a product"):
        linear(torch.ones(64, 512), torch.ones(512, 128), None, "bf16x6")
    with pytest.raises(ShapeError, match="is not a product of shape"):
        accumulate(torch.zeros(512, 128), torch.ones(64, 500), torch.ones(64, 128), "bf16x6")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(3,), (2, 5, 3), (2, 0, 3)])
def test_leading_dimensions_are_kept(kernel, shape, always):
    x, weight = values(*shape, seed=0), values(4, 3, seed=1)

    y = linear(x, weight, None, kernel)

    # bfloat16: three digits.
    torch.testing.assert_close(y, F.linear(x, weight), rtol=0.0, atol=0.1)
    assert y.shape == (*shape[:-1], 4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_numbers_are_the_same(kernel, context):
    rows, inputs, outputs = ENOUGH
    x, weight = values(rows, inputs, seed=0), values(outputs, inputs, seed=1).requires_grad_()

    with context():
        y = linear(x, weight, None, kernel)

    assert not y.requires_grad
    assert torch.equal(y, linear(x, weight, None, kernel).detach())


@pytest.mark.parametrize("kernel", ["onednn", "bfloat16", SPLIT])
@pytest.mark.parametrize("frozen", ["x", "weight"])
def test_frozen_inputs_get_no_gradient_and_save_no_tensor(kernel, frozen, always):
    x, weight = values(9, 4, seed=0), values(5, 4, seed=1)
    learned, held = (weight, x) if frozen == "x" else (x, weight)
    learned.requires_grad_()
    saved = []

    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = linear(x, weight, None, kernel)
    y.sum().backward()

    # A gradient needs the other factor alone.
    assert [one.data_ptr() for one in saved] == [held.data_ptr()]
    assert learned.grad is not None
    assert held.grad is None


def test_gradients_have_the_dtype_of_their_inputs():
    x = values(9, 4, seed=0).bfloat16().requires_grad_()
    weight, bias = values(5, 4, seed=1).requires_grad_(), values(5, seed=2).requires_grad_()

    y = linear(x, weight, bias, "bfloat16")
    y.sum().backward()

    assert y.dtype == x.grad.dtype == torch.bfloat16
    assert weight.grad.dtype == bias.grad.dtype == torch.float32


@pytest.mark.parametrize("kernel", ["onednn", "bfloat16", SPLIT])
def test_a_second_derivative_is_refused(kernel, always):
    x, weight = values(9, 4, seed=0).requires_grad_(), values(5, 4, seed=1).requires_grad_()

    # The incoming gradient is a constant for a sum, and not for a sum of squares.
    for made in (lambda y: y.sum(), lambda y: y.square().sum()):
        y = made(linear(x, weight, None, kernel))
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiable once: for second derivatives use"):
            slope.square().sum().backward()


def programs(capfd, call):
    """Return the log of oneDNN for a call, one line per product."""
    capfd.readouterr()
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        call()
    lines = capfd.readouterr().out.splitlines()
    return [line for line in lines if ",exec," in line]


@needs_onednn
def test_onednn_multiplies_three_times_and_in_float32(capfd):
    rows, inputs, outputs = ENOUGH
    x, weight = values(rows, inputs, seed=0), values(outputs, inputs, seed=1)

    ran = programs(capfd, lambda: run(x, weight, None, torch.ones(rows, outputs), "onednn"))

    assert len([line for line in ran if "inner_product" in line]) == 3
    assert all("src:f32" in line and "wei:f32" in line for line in ran)
    assert not any("fpmath" in line for line in ran)


@needs_onednn
def test_onednn_gets_contiguous_factors(capfd):
    # A factor with gaps between its rows, as `weight` and the gradient here, would take that.
    rows, inputs, outputs = ENOUGH
    x = strided(values(rows, inputs, seed=0), "sliced")
    weight = strided(values(outputs, inputs, seed=1), "sliced")
    g = strided(values(rows, outputs, seed=2), "sliced")

    ran = programs(capfd, lambda: run(x, weight, None, g, "onednn"))

    assert ran
    assert not any("ref:any" in line for line in ran)


@needs_onednn
@pytest.mark.parametrize(
    # The gradient's 64 * 512 numbers against the input's 64 * inputs and the result's 512 * inputs.
    ("inputs", "kernel", "first"),
    [(56, "onednn", 56), (57, "onednn", 512), (56, "bfloat16", 512)],
)
def test_onednn_copies_the_smaller_factor_of_a_weight_gradient(monkeypatch, inputs, kernel, first):
    calls, multiply = [], module._product
    monkeypatch.setattr(
        module, "_product", lambda *given: calls.append(given[0].shape) or multiply(*given)
    )
    monkeypatch.setattr(module, "_LEAST", ANY)

    run(
        values(64, inputs, seed=0),
        values(512, inputs, seed=1),
        None,
        values(64, 512, seed=2),
        kernel,
    )

    assert calls[-1] == (first, 64)


@pytest.mark.parametrize(
    ("rows", "width", "dtype"),
    [(7, 2048, torch.float32), (64, 8, torch.float32), (64, 512, torch.float64)],
)
def test_onednn_leaves_small_or_unsupported_products_to_torch(rows, width, dtype):
    x = values(rows, width, seed=0).to(dtype)
    weight = values(width, width, seed=1).to(dtype)

    assert torch.equal(linear(x, weight, None, "onednn"), F.linear(x, weight))


@needs_onednn
@pytest.mark.parametrize(("rows", "inputs", "products"), [(8, 512, 1), (8, 511, 0), (7, 1024, 0)])
def test_onednn_begins_at_8_rows_and_2_million_products(monkeypatch, rows, inputs, products):
    # 8 * 512 * 512 are 2**21.
    calls, multiply = [], module._product
    monkeypatch.setattr(module, "_product", lambda *given: calls.append(1) or multiply(*given))

    linear(torch.ones(rows, inputs), torch.ones(512, inputs), None, "onednn")

    assert len(calls) == products


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows", [0, 3, 150])
def test_accumulate_adds_the_weight_gradient(kernel, rows, device):
    # Outputs: more than two blocks; the gradient has gaps between its rows.
    outputs, inputs = 2 * module._BLOCK + 5, 64
    out = values(outputs, inputs, seed=0, device=device)
    x = values(rows, inputs, seed=1, device=device)
    g = strided(values(rows, outputs, seed=2, device=device), "sliced")
    before = out.double()

    accumulate(out, g, x, kernel)

    gradient, error = expected(x, torch.zeros_like(out), None, g, kernel)[2]
    assert_near([out], [(before + gradient, error + 1e-6 * before.abs())])


def test_kernels_change_no_global_setting():
    def settings():
        flags = torch.backends.mkldnn.matmul.fp32_precision, torch.get_float32_matmul_precision()
        return flags, torch.get_num_threads(), torch.get_rng_state().tolist()

    rows, inputs, outputs = ENOUGH
    x, weight = values(rows, inputs, seed=0), values(outputs, inputs, seed=1)
    before = settings()

    faster_kernel.cache_clear()
    for kernel in (faster_kernel(), *("torch", "onednn", "bfloat16")):
        run(x, weight, None, torch.ones(rows, outputs), kernel)

    assert settings() == before


@pytest.fixture
def timed(monkeypatch):
    """Clear the cache of the probe; return a function that sets the times."""

    def take(*seconds):
        monkeypatch.setattr(module, "_seconds", lambda *calls: list(seconds))

    faster_kernel.cache_clear()
    yield take
    faster_kernel.cache_clear()


def test_faster_kernel_is_float32_and_measured_once(timed):
    chosen = faster_kernel()

    assert chosen in ("torch", "onednn")
    assert faster_kernel.cache_info().currsize == 1
    assert faster_kernel() == chosen


def test_without_onednn_the_faster_kernel_is_torch(monkeypatch, timed):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    timed(1.0, 0.5)

    assert faster_kernel() == "torch"


@needs_onednn
@pytest.mark.parametrize(
    # 1.28 and 1.32 times as fast.
    ("seconds", "chosen"),
    [((1.0, 0.78), "torch"), ((1.0, 0.76), "onednn")],
)
def test_faster_kernel_is_onednn_only_above_the_speedup(timed, seconds, chosen):
    timed(*seconds)

    assert faster_kernel() == chosen


@needs_onednn
def test_faster_kernel_is_torch_if_onednn_is_less_precise(monkeypatch, timed):
    # Like a CPU whose oneDNN multiplies in bfloat16.
    monkeypatch.setattr(module, "_product", lambda x, w, _: x.bfloat16() @ w.bfloat16().t())
    timed(1.0, 0.5)

    assert faster_kernel() == "torch"


@pytest.mark.parametrize(
    # 64 * 128 * 512 are 2**22.
    ("rows", "inputs", "outputs", "products"),
    [
        (64, 128, 512, 1),
        (64, 127, 512, 0),
        (63, 512, 512, 0),
        (8192, 64, 64, 1),
        (8192, 63, 512, 0),
        (8192, 512, 63, 0),
    ],
)
def test_bf16x6_begins_at_64_rows_inputs_and_outputs_and_4_million_products(
    monkeypatch, rows, inputs, outputs, products
):
    calls = []
    monkeypatch.setattr(bf16x6, "product", lambda a, b: calls.append(1) or a @ b)

    linear(torch.ones(rows, inputs), torch.ones(outputs, inputs), None, "bf16x6")

    assert len(calls) == products


@pytest.mark.parametrize(("rows", "sums"), [(64, 1), (63, 0)])
def test_bf16x6_accumulates(monkeypatch, rows, sums):
    calls = []
    monkeypatch.setattr(
        bf16x6, "add_product", lambda out, a, b: calls.append(1) or out.addmm_(a, b)
    )
    out = torch.ones(512, 128)

    accumulate(out, torch.ones(rows, 512), torch.ones(rows, 128), "bf16x6")

    assert len(calls) == sums
    assert (out == rows + 1).all()


@needs_onednn
@pytest.mark.parametrize(("rows", "products"), [(8, 1), (7, 0)])
def test_accumulate_of_few_rows_allocates_no_product(monkeypatch, rows, products):
    calls, multiply = [], module._product
    monkeypatch.setattr(module, "_product", lambda *given: calls.append(1) or multiply(*given))
    for name, value in {"_LEAST_ADDED": 8, "_LEAST": ANY}.items():
        monkeypatch.setattr(module, name, value)

    accumulate(torch.zeros(4, 3), values(rows, 4, seed=0), values(rows, 3, seed=1), "onednn")

    assert len(calls) == products
