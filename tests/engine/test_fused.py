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
