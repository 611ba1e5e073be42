import torch
from tensordict import TensorDict

from components.loss.reduction.token_mean import TokenMean
from rlcomp.interfaces.loss import Loss, scalars


class Sum(Loss):
    reads = ("response_mask", "log_probs")
    runs = ("reduction",)
    contained = True

    def forward(self, batch: TensorDict) -> TensorDict:
        batch = self.weighted(batch)
        return scalars(loss=(batch["log_probs"] * batch["loss_weight"]).sum())


def batch() -> TensorDict:
    mask = torch.tensor([[True, True, True], [True, False, False]])
    log_probs = torch.tensor([[1.0, 2.0, 3.0], [6.0, 0.0, 0.0]])
    return TensorDict({"response_mask": mask, "log_probs": log_probs}, batch_size=[2])


def test_by_itself_a_loss_weighs_its_own_batch():
    assert Sum(reduction=TokenMean())(batch())["loss"].item() == 3.0  # (1 + 2 + 3 + 6) / 4


def test_prepared_weights_are_kept_for_a_part_of_the_batch():
    loss, rows = Sum(reduction=TokenMean()), batch()
    rows.update(loss.prepare(rows))

    assert loss(rows[:1])["loss"].item() == 1.5  # (1 + 2 + 3) / 4
    assert loss(rows[1:])["loss"].item() == 1.5


def test_preparing_gives_the_weights_alone_and_leaves_the_batch_alone():
    rows = batch()

    prepared = Sum(reduction=TokenMean()).prepare(rows)

    assert list(prepared.keys()) == ["loss_weight"]
    assert set(rows.keys()) == {"response_mask", "log_probs"}


def test_scalars_have_no_batch_size():
    result = scalars(loss=torch.tensor(1.0), loss_kl=torch.tensor(2.0))

    assert result.batch_size == torch.Size([])
    assert result["loss_kl"].item() == 2.0
