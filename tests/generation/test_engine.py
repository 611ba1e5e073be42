import torch

from rlcomp.generation.engine import draw_tokens
from rlcomp.generation.sampling import Sampling


def test_a_draw_does_not_depend_on_how_many_rows_it_looks_at(monkeypatch):
    logits = torch.randn(23, 7, generator=torch.Generator().manual_seed(1))
    sampling = Sampling(top_p=0.9)
    barred = torch.arange(7) == 3

    whole = draw_tokens(logits, sampling, barred, torch.Generator().manual_seed(0))
    # 2 rows of 7 at a time.
    monkeypatch.setattr("rlcomp.generation.engine._DRAWN", 14)
    parts = draw_tokens(logits, sampling, barred, torch.Generator().manual_seed(0))

    assert torch.equal(parts[0], whole[0])
    assert torch.equal(parts[1], whole[1])
    assert not (parts[0] == 3).any()
