"""Optimisers: groups, schedules, Muon, and checks of the memory layout."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from rlcomp.arguments import (
    Checked,
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    Probability,
    RegularExpression,
)
from rlcomp.component import check_arguments
from rlcomp.errors import ConfigError


def optimizer_groups(
    named: Iterable[tuple[str, Tensor]],
    *,
    optimizer: Callable[..., torch.optim.Optimizer],
    lr: Mapping[str, PositiveFloat],
) -> torch.optim.Optimizer:
    """Create an optimiser whose groups are networks, each with its own learning rate.

    An elementwise optimiser (SGD, Adam) is then equivalent to one optimiser per network: a network
    without a gradient in a step is not changed.

    Args:
        named: the trained parameters with their names.
        optimizer: called with the groups, e.g. a partial of ``torch.optim.Adam``.
        lr: learning rate by prefix of a name at any level: ``actor_network`` is the group of
            ``losses.control.objective.actor_network_params.module.0.weight``.

    Raises:
        ConfigError: a prefix matches no parameter, or a parameter matches none or several.
    """
    groups: dict[str, list[tuple[str, Tensor]]] = {prefix: [] for prefix in lr}
    for name, parameter in named:
        prefixes = [prefix for prefix in lr if f".{prefix}" in f".{name}"]
        if len(prefixes) != 1:
            names = " and ".join(map(repr, prefixes)) or "none"
            raise ConfigError(
                f"the parameter '{name}' belongs to {names} of the groups {list(lr)}: every "
                "parameter has one learning rate; name its network, set +learner.optimizer.lr.NAME"
            )
        groups[prefixes[0]].append((name, parameter))
    empty = [prefix for prefix, members in groups.items() if not members]
    if empty:
        raise ConfigError(
            f"learner.optimizer.lr.{empty[0]}: no trained parameter has such a name: delete it, "
            f"'~learner.optimizer.lr.{empty[0]}'"
        )
    return optimizer([{"params": members, "lr": lr[prefix]} for prefix, members in groups.items()])


# Steps of the grid of a schedule: a warm-up of 1 % of the phase has 100 values.
_STEPS = 10_000


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Multiplier of the learning rate: transformers' formulas on a grid of 10,000 steps.

    With progress ``t`` in the phase, ``warmup`` w and ``final`` f: ``t / w`` up to ``t = w``, the
    end of the warm-up. Later, with ``p = (t - w) / (1 - w)``: 1 (constant), ``(1 - f) (1 - p) + f``
    (linear) or ``(1 - f) (1 + cos(pi p)) / 2 + f`` (cosine).

    Attributes:
        name: shape after the warm-up.
        warmup: share of the phase in which the multiplier rises linearly from 0 to 1.
        final: multiplier at the end of the phase; not used by a constant schedule.

    Source:
        transformers 5, ``get_scheduler``: ``constant_with_warmup``, ``polynomial`` of power 1,
        ``cosine_with_min_lr``; equal to the bit.

    Examples:
        >>> [Schedule(name="linear", final=0.1)(progress) for progress in (0.0, 0.5, 1.0)]
        [1.0, 0.55, 0.1]
    """

    name: Literal["constant", "linear", "cosine"] = "constant"
    warmup: Fraction = 0.0
    final: Probability = 0.0

    def __post_init__(self) -> None:
        check_arguments(type(self), (), asdict(self))

    def __call__(self, progress: float) -> float:
        """Return the multiplier, in [0, 1], at a progress in [0, 1] of the phase."""
        step = round(progress * _STEPS)
        # At least one step remains: the formulas divide by the number of steps after the warm-up.
        warmup = min(round(self.warmup * _STEPS), _STEPS - 1)
        if step < warmup:
            return step / warmup
        share = (step - warmup) / (_STEPS - warmup)
        if self.name == "linear":
            return (1 - self.final) * (1 - share) + self.final
        if self.name == "cosine":
            cosine = 0.5 * (1 + math.cos(math.pi * share))
            return cosine * (1 - self.final) + self.final
        return 1.0


# Usual names of embeddings and output heads, which Muon must not train.
NOT_MUON = r"embed|wte|wpe|lm_head|value_head|(^|[._])(head|score|output|classifier)\.weight"


class MuonAdamW(Optimizer, metaclass=Checked):
    """Optimiser: Muon for hidden matrices, AdamW for the rest, both torch's own.

    Muon steps along the orthogonalised momentum of a matrix, ``W <- W - lr 0.2 sqrt(max(A, B)) O``
    for ``W`` of shape ``[A, B]``. The factor gives ``O`` the size of AdamW's step, so that one
    ``lr`` serves both.

    A parameter is Muon's if it has two dimensions and its name does not match ``not_muon``. The
    default matches the usual names of embeddings and output heads. Only names count: the last layer
    of a network that numbers its layers is Muon's unless ``not_muon`` names it.

    Args:
        params: trained parameters with their names, as ``named_parameters`` yields them.
        lr: learning rate of both.
        not_muon: regular expression, searched in names: matrices left to AdamW.
        momentum: momentum of Muon.
        betas: betas of AdamW.
        weight_decay: decoupled, of both.

    Raises:
        ConfigError: an argument is out of range; parameters have no names, or none of them is
            Muon's.

    Source:
        Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; the factor: Liu et al. 2025,
        arXiv:2502.16982, section 2.2.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: NonNegativeFloat = 1e-3,
        not_muon: RegularExpression = NOT_MUON,
        momentum: Fraction = 0.95,
        betas: tuple[Fraction, Fraction] = (0.9, 0.95),
        weight_decay: NonNegativeFloat = 0.0,
    ) -> None:
        matrices, others = _split_parameters(list(params), not_muon)
        muon = Muon(
            matrices,
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            adjust_lr_fn="match_rms_adamw",
        )
        self.parts: list[Optimizer] = [muon]
        if others:
            self.parts.append(
                AdamW(others, lr=lr, betas=betas, weight_decay=weight_decay, fused=True)
            )
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share_state()

    def _share_state(self) -> None:
        """Give both optimisers the groups and the state of this one.

        A schedule or a checkpoint changes only those of this one.
        """
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step of both."""
        del closure
        for part in self.parts:
            part.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the moments of both."""
        super().load_state_dict(state_dict)
        self._share_state()


def _split_parameters(params: list[Any], not_muon: str) -> tuple[list[Any], list[Any]]:
    """Split named parameters into Muon's and the others."""
    if any(isinstance(entry, Tensor) for entry in params):
        raise ConfigError("MuonAdamW splits parameters by name: give it named_parameters()")
    excluded = re.compile(not_muon)
    matrices = [(n, p) for n, p in params if p.ndim == 2 and not excluded.search(n)]
    if not matrices:
        raise ConfigError(
            f"MuonAdamW: not_muon is {not_muon!r}, and no other parameter is a matrix "
            f"({', '.join(name for name, _ in params[:4])}, ...): choose optimizer=adamw"
        )
    names = {name for name, _ in matrices}
    return matrices, [entry for entry in params if entry[0] not in names]


def check_dense(optimizer: torch.optim.Optimizer) -> None:
    """Check that the parameters of a fused optimiser are dense in memory.

    On a CPU torch's fused optimisers read parameter, gradient and moments as flat memory and ignore
    strides.

    Raises:
        ConfigError: a parameter is not dense; the message names its shape and strides.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"] if group.get("fused") else ():
            if torch.empty_like(parameter, device="meta").stride() != parameter.stride():
                raise ConfigError(
                    f"a trained parameter of shape {list(parameter.shape)} is a view with strides "
                    f"{list(parameter.stride())}, not dense as a fused optimiser needs it: set "
                    "learner.optimizer.fused=false, or train a contiguous copy"
                )


def match_strides(parameters: Iterable[Tensor]) -> None:
    """Give each gradient the strides of its parameter.

    Fused optimisers on a CPU require it (:func:`check_dense`).

    Examples:
        >>> weight = torch.nn.Parameter(torch.zeros(2, 3))
        >>> weight.grad = torch.ones(3, 2).t()
        >>> match_strides([weight])
        >>> weight.grad.stride()
        (3, 1)
    """
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is not None and gradient.stride() != parameter.stride():
            parameter.grad = torch.empty_like(parameter).copy_(gradient)
