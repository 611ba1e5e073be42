"""What a loss is: TensorDict -> scalars, a weighted sum over tokens, and it holds no model."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component


class Loss(Component):
    """Subclasses write every scalar whose name starts with ``loss`` into a new TensorDict.

    ``prepare`` sees all rows of an optimiser step before they are split into micro-batches;
    whatever must not depend on the split (``loss_weight``) is made there. ``forward`` is then a
    weighted sum, so that micro-batches and ranks change neither loss nor gradient.

    Class attributes:
        unit_rows: rows that must share a micro-batch (2 for pairs).
    """

    unit_rows = 1

    def __init__(self, *, reduction: Component) -> None:
        super().__init__()
        self.reduction = reduction

    def prepare(self, batch: TensorDict) -> TensorDict:
        """``loss_weight`` of every token, shape ``[B, T]``."""
        return self.reduction(batch.copy()).select("loss_weight")

    def weighted(self, batch: TensorDict) -> TensorDict:
        """The batch with its ``loss_weight``: the learner's, or by itself the batch's own."""
        if "loss_weight" in batch.keys():
            return batch
        return batch.copy().update(self.prepare(batch))


def scalars(**losses: object) -> TensorDict:
    """A TensorDict of scalars (a ``[B]`` TensorDict refuses them)."""
    return TensorDict(losses, batch_size=[])
