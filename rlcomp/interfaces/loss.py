"""What a loss is: TensorDict -> scalars, a weighted sum over tokens, and it holds no model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.keys import Key, check_key
from rlcomp.metrics import recording


class Part(Component):
    """A part of a loss: a ratio, a trust region, a weight.

    Class attributes:
        prepares: keys, one entry per row, that can be known only from the whole optimiser step (a
            quantile, a bound that is searched for). :meth:`prepare` finds them from a forward pass
            without gradient before the step is split.
        from_model: what it prepares hangs on the model's outputs, not on data alone.
        filters: it takes tokens out, so that even on-policy the gradient is not the plain one.
        penalises: it adds a term of its own, which a zero advantage leaves.
    """

    prepares: ClassVar[tuple[Key, ...]] = ()
    from_model: ClassVar[bool] = True
    filters: ClassVar[bool] = False
    penalises: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        for key in cls.prepares:
            check_key(cls.__name__, key)

    def prepare(self, batch: TensorDict) -> TensorDict:
        """The keys of ``prepares``, from all rows of an optimiser step."""
        return batch.select()

    def prepared(self, batch: TensorDict) -> TensorDict:
        """The batch with them: the learner's, or by itself the batch's own."""
        if all(key in batch.keys() for key in self.prepares):
            return batch
        with torch.no_grad():
            return batch.copy().update(self.prepare(batch))

    def after_step(self) -> None:
        """Called after each optimiser step: controllers move here."""


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

    def parts(self) -> Iterator[Part]:
        """Its parts, however deep."""
        return (part for part in self.modules() if isinstance(part, Part))

    @property
    def looks_ahead(self) -> bool:
        """Whether a part needs the model's outputs for the whole optimiser step."""
        return any(part.prepares and part.from_model for part in self.parts())

    def prepare(self, batch: TensorDict) -> TensorDict:
        """``loss_weight`` of every token, shape ``[B, T]``, and what the parts prepare."""
        return self.reduction(batch.copy()).select("loss_weight")

    def weighted(self, batch: TensorDict) -> TensorDict:
        """The batch with its ``loss_weight``: the learner's, or by itself the batch's own."""
        if "loss_weight" in batch.keys():
            return batch
        with torch.no_grad(), recording():
            return batch.copy().update(self.prepare(batch))

    def after_step(self) -> None:
        """Called after each optimiser step."""
        for part in self.parts():
            part.after_step()


def scalars(**losses: object) -> TensorDict:
    """A TensorDict of scalars (a ``[B]`` TensorDict refuses them)."""
    return TensorDict(losses, batch_size=[])
