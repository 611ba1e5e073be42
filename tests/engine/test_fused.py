import pytest
import torch

from rlcomp.engine.fused import Matrix


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kernel", ["torch", "bfloat16"])
def test_wide_outputs_of_every_dtype_and_kernel(kernel, dtype):
    # Small integers are exact in every dtype, and so are their sums.
    weight = torch.tensor([[1.0, 2.0], [3.0, -4.0]], dtype=dtype)
    actual = Matrix(weight, torch.tensor([0.5, 0.0], dtype=dtype), kernel).wide(
        torch.tensor([[2.0, 1.0]], dtype=dtype)
    )

    assert actual.tolist() == [[4.5, 2.0]]


def test_wide_outputs_of_a_matrix_in_the_layout_of_onednn(monkeypatch):
    # Stand-ins for oneDNN's bfloat16 product, which few processors have; the product is bfloat16.
    ops = torch.ops.mkldnn
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(ops, "_is_mkldnn_bf16_supported", lambda: True, raising=False)
    monkeypatch.setattr(ops, "_reorder_linear_weight", lambda weight: weight, raising=False)
    monkeypatch.setattr(
        ops,
        "_linear_pointwise",
        lambda x, weight, bias, *_: torch.nn.functional.linear(x, weight, bias),
        raising=False,
    )
    matrix = Matrix(torch.ones(512, 512, dtype=torch.bfloat16), None, "torch")

    actual = matrix.wide(torch.ones(1, 512, dtype=torch.bfloat16))

    assert matrix.packed
    assert actual.dtype == torch.float32
    assert actual.tolist() == [[512.0] * 512]
