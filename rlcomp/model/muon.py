"""Muon for hidden matrices, AdamW for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from rlcomp.arguments import Checked, Fraction, NonNegativeFloat, RegularExpression
from rlcomp.errors import ConfigError

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
        momentum: of Muon.
        betas: of AdamW.
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
        matrices, others = _split(list(params), not_muon)
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
        self._share()

    def _share(self) -> None:
        """Let both optimisers use the groups and the state of this one."""
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
        self._share()


def _split(params: list[Any], not_muon: str) -> tuple[list[Any], list[Any]]:
    """Split named parameters: Muon's, and the others."""
    if any(isinstance(entry, Tensor) for entry in params):
        raise ConfigError("MuonAdamW splits parameters by name: give it named_parameters()")
    left_out = re.compile(not_muon)
    matrices = [(n, p) for n, p in params if p.ndim == 2 and not left_out.search(n)]
    if not matrices:
        raise ConfigError(
            f"MuonAdamW: not_muon is {not_muon!r}, and no other parameter is a matrix "
            f"({', '.join(name for name, _ in params[:4])}, ...): choose optimizer=adamw"
        )
    chosen = {name for name, _ in matrices}
    return matrices, [entry for entry in params if entry[0] not in chosen]
