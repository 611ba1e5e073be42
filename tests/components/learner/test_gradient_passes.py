import torch
from tensordict import TensorDict

from components.learner.gradient_passes import full_batch_forward
from rlcomp.testing import make_batch

BATCH = make_batch(
    tokens=[[1, 2, 3], [4, 5, 0], [6, 0, 0]],
    attention_mask=torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]]).bool(),
)


class Tenfold(torch.nn.Module):
    """A model whose log-probabilities are ten times the tokens."""

    out_keys = ("log_probs", "entropy", "log_distribution")

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(10.0))

    def forward(self, rows):
        scaled = self.weight * rows["tokens"]
        entries = {"log_probs": scaled, "entropy": -scaled, "log_distribution": scaled[..., None]}
        return rows.update(entries)


def shortest_first(rows):
    for row in (2, 0, 1):
        length = int(rows["attention_mask"][row].sum())
        part = {key: value[row : row + 1] for key, value in rows.items()}
        cut = {k: v[:, :length] if v.ndim > 1 else v for k, v in part.items()}
        yield TensorDict(cut, batch_size=[1])


def test_outputs_stand_in_the_order_of_the_rows_with_0_behind_them():
    outputs = full_batch_forward(Tenfold(), BATCH, {"log_probs", "advantage"}, shortest_first)

    assert {*outputs} == {"log_probs"}  # entropy is not wanted, advantage not the model's
    assert outputs["log_probs"].tolist() == [[10, 20, 30], [40, 50, 0], [60, 0, 0]]
    assert not outputs["log_probs"].requires_grad


def test_full_distributions_are_left_out_and_the_batch_is_as_it_was():
    wanted = {"log_probs", "log_distribution"}

    assert {*full_batch_forward(Tenfold(), BATCH, wanted, shortest_first)} == {"log_probs"}
    assert {*BATCH.keys()} == {"tokens", "attention_mask"}
