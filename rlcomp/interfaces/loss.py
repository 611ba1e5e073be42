"""Base classes of losses: scalars from a batch with the model's outputs, without the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.functional.reduction import unit_mean
from rlcomp.key_declarations import check_declared, check_key
from rlcomp.keys import Key
from rlcomp.metrics import recording


class LossPart(Component):
    """Base class of the parts of a policy loss: ratio, trust region, weight.

    Class attributes:
        step_keys: step-level keys, one entry per row, that need all rows of the optimiser step (a
            quantile, a searched bound). :meth:`prepare` computes them from a no-gradient forward
            pass before the split into micro-batches.
        needs_forward: True if :meth:`prepare` needs model outputs in addition to the data.
        changes_on_policy_gradient: True if the part drops or reweights tokens, so that even
            on-policy the gradient differs from the plain policy gradient.
        has_own_gradient: True if the part adds a term that does not vanish at zero advantage.
            Without such a term, rows of zero advantage are not differentiated.
    """

    step_keys: ClassVar[tuple[Key, ...]] = ()
    needs_forward: ClassVar[bool] = True
    changes_on_policy_gradient: ClassVar[bool] = False
    has_own_gradient: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        check_declared(cls.__name__, "step_keys", cls.step_keys)
        for key in cls.step_keys:
            check_key(cls.__name__, key, cls.own_keys())

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return the entries ``step_keys`` alone, from all rows of an optimiser step."""
        return batch.select()

    def prepared(self, batch: TensorDict) -> TensorDict:
        """Return the batch with its step-level keys; compute them if they are missing."""
        if all(key in batch.keys() for key in self.step_keys):
            return batch
        with torch.no_grad():
            return batch.copy().update(self.prepare(batch))

    def after_step(self) -> None:
        """Update coefficients after each optimiser step."""


class Loss(Component):
    """Base class of losses: writes scalars whose names start with ``loss`` into a new TensorDict.

    ``prepare`` gets all rows of an optimiser step and computes everything that must not depend on
    the split into micro-batches. Micro-batches and ranks therefore change neither loss, gradient
    nor metric. A loss of tokens subclasses :class:`TokenLoss`, a loss of rows or pairs
    :class:`RowLoss`.

    Class attributes:
        unit_rows: number of adjacent rows that must be in the same micro-batch (2 for pairs).
        weight_key: key of the weight of a token or a row in the loss; ``prepare`` writes it.
    """

    unit_rows: int = 1
    weight_key: ClassVar[Key] = ""

    def parts(self) -> Iterator[LossPart]:
        """Yield all parts of the loss, including nested ones."""
        return (part for part in self.modules() if isinstance(part, LossPart))

    @property
    def needs_full_batch_forward(self) -> bool:
        """Return True if a part needs a no-gradient forward over all rows of the optimiser step."""
        return any(part.step_keys and part.needs_forward for part in self.parts())

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return the entries alone that depend on all rows of an optimiser step, one per row."""
        return batch.select()

    def gradient_rows(self, batch: TensorDict) -> Tensor | None:
        """Return the rows with a possible gradient, ``[B]``, bool; None for all, the default.

        The learner differentiates the model on these rows only. A loss may exclude a row only if
        the row's part of the gradient is exactly 0 for any model outputs, and if the gradients of
        other rows depend on it only through :meth:`prepare`.

        Args:
            batch: the rows of an optimiser step, without the model's outputs.
        """
        del batch
        return None

    def weighted(self, batch: TensorDict) -> TensorDict:
        """Return the batch with the entries of ``prepare``, computed without metrics if missing."""
        if self.weight_key in batch.keys():
            return batch
        with torch.no_grad(), recording():
            return batch.copy().update(self.prepare(batch))

    def after_step(self) -> None:
        """Update the parts after each optimiser step."""
        for part in self.parts():
            part.after_step()


class TokenLoss(Loss):
    """Base class of losses of tokens.

    ``loss = sum_it w_it l_it`` with ``w`` = ``loss_weight`` ``[B, T]``, which the reduction writes.

    A row without a valid reward (``reward_valid`` ``[B]`` is False) is an empty response: it adds
    nothing, and no denominator counts it. Tokens that are ``too_old`` ``[B, T]`` do not count
    either.

    Args:
        reduction: writes ``loss_weight`` from the ``response_mask`` of the whole optimiser step.
    """

    weight_key = "loss_weight"
    optional: ClassVar[tuple[Key, ...]] = ("reward_valid", "too_old")

    def __init_subclass__(cls, **kwargs: object) -> None:
        cls.optional = _add_optional(cls, TokenLoss.optional)
        super().__init_subclass__(**kwargs)

    def __init__(self, *, reduction: Component) -> None:
        super().__init__()
        self.reduction = reduction

    def view(self, batch: TensorDict) -> TensorDict:
        """Return the batch for the loss and its parts, without excluded tokens."""
        view = super().view(batch)
        if "response_mask" not in view.keys():
            return view
        mask = view["response_mask"]
        if "reward_valid" in view.keys():
            mask = mask & view["reward_valid"][:, None]
        if "too_old" in view.keys():
            mask = mask & ~view["too_old"]
        if mask is view["response_mask"]:
            return view
        return view.copy().set("response_mask", mask)

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``loss_weight`` ``[B, T]`` alone; subclasses add step-level keys of parts."""
        return self.reduction(batch.copy()).select("loss_weight")


class RowLoss(Loss):
    """Base class of losses of rows, or of units of adjacent rows (pairs: ``unit_rows = 2``).

    ``loss = sum_u w_u l_u`` with ``w_u = 1 / U``: the mean over the ``U`` units of the optimiser
    step, whatever the lengths of their responses. ``row_weight`` ``[B]`` holds ``w_u`` at every row
    of unit ``u``.

    A unit has weight 0 and does not count if one of its rows must not be learnt from:
    ``reward_valid`` ``[B]`` is False, or a filter has emptied its ``response_mask`` ``[B, T]``.
    """

    weight_key = "row_weight"
    optional: ClassVar[tuple[Key, ...]] = ("reward_valid", "response_mask")

    def __init_subclass__(cls, **kwargs: object) -> None:
        cls.optional = _add_optional(cls, RowLoss.optional)
        super().__init_subclass__(**kwargs)

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``row_weight`` of every row, ``[B]``, alone."""
        device = next(iter(batch.values(include_nested=True, leaves_only=True))).device
        valid = torch.ones(batch.batch_size, dtype=torch.bool, device=device)
        if "reward_valid" in batch.keys():
            valid = valid & batch["reward_valid"]
        if "response_mask" in batch.keys():
            valid = valid & batch["response_mask"].any(1)
        return batch.select().set("row_weight", unit_mean(valid, self.unit_rows))


def _add_optional(cls: type[Loss], keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return the optional keys of a class with the ``keys`` that it does not read yet."""
    known = (*cls.reads, *cls.optional)
    return (*cls.optional, *(key for key in keys if key not in known))


def scalars(**losses: object) -> TensorDict:
    """Return a TensorDict of scalars by name; its batch size is ``[]``, not ``[B]``."""
    return TensorDict(losses, batch_size=[])
