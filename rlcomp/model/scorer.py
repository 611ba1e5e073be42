"""Reward model: a language model's backbone with a scalar head."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor, nn
from transformers import PreTrainedModel

from rlcomp.component import Component
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.engine.transformer import Transformer
from rlcomp.keys import Key
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.token_rows import token_rows
from rlcomp.model.value_head import read_values
from rlcomp.seed import new_generator


class ScoreHead(nn.Module):
    """Linear head without a bias, as in sequence classifiers of transformers.

    Args:
        model: its width and device are used.
        generator: draws the weights, ``N(0, 1 / (width + 1))``.
        outputs: K, for several scores; None for one.

    Source:
        Stiennon et al. 2020, arXiv:2009.01325, appendix B.1, for the initialisation.
    """

    def __init__(
        self, model: PreTrainedModel, generator: torch.Generator, outputs: int | None = None
    ) -> None:
        super().__init__()
        width = model.get_output_embeddings().weight.shape[1]
        shape = () if outputs is None else (outputs,)
        drawn = torch.randn(width, *shape, generator=generator) / (width + 1) ** 0.5
        self.weight = nn.Parameter(drawn.to(model.device))

    def forward(self, states: Tensor) -> Tensor:
        """Compute scores of states ``[N, H]``: shape ``[N]`` or ``[N, K]``, float32 at least."""
        return states.to(self.weight.dtype) @ self.weight


class Scorer(Component):
    """Reward model ``r(x, y) = w . h``: a copy of a policy's backbone with a scalar head.

    ``h`` is the state after the last token of the answer that is not a stop token. A sequence
    classifier of transformers reads the same state of the text ``x y``.

    The copy is made when the first phase with it begins, from the policy as it is then (fine-tuned,
    for instance). From then on the two are separate. It stays in eval mode, even while it is
    trained.

    Reads ``tokens``, ``attention_mask`` ``[B, T]``. Writes ``model_score`` ``[B]``, dimensionless,
    differentiable. It is not called ``reward``, because a learner needs both entries.

    Args:
        policy: its model is copied; it defines the tokens that end an answer.
        engine: the compute engine of the backbone.

    Attributes:
        labels: the names of its outputs.

    Source:
        Stiennon et al. 2020, arXiv:2009.01325, section 3.4; Ouyang et al. 2022, arXiv:2203.02155.
    """

    reads: ClassVar[tuple[Key, ...]] = ("tokens", "attention_mask")
    writes: ClassVar[tuple[Key, ...]] = ("model_score",)

    labels: Sequence[str] = ("score",)
    policy: LanguageModel
    started: Tensor
    _transformer: Transformer | None

    def __init__(self, *, policy: LanguageModel, engine: Engine = AUTO) -> None:
        super().__init__()
        # Not registered in nn.Module: the policy's tensors belong to the policy.
        object.__setattr__(self, "policy", policy)
        model = policy.model
        self.backbone = copy.deepcopy(model.get_decoder()).eval()
        self.engine = engine
        object.__setattr__(self, "_transformer", engine.backbone(model, self.backbone))
        self.score_head = ScoreHead(model, new_generator())
        # A buffer, so that a continued run does not start over.
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def train(self, mode: bool = True) -> Scorer:
        """Set this module's flag; the backbone itself stays in eval mode."""
        super().train(mode)
        self.backbone.eval()
        return self

    def begin_phase(self) -> None:
        """Copy the policy's current weights, once."""
        if not bool(self.started):
            self.backbone.load_state_dict(self.policy.model.get_decoder().state_dict())
            self.started.fill_(True)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the scores, with gradient where gradients are enabled."""
        batch["model_score"] = self.scores(batch)
        return batch

    def scores(self, batch: TensorDict) -> Tensor:
        """Compute scores of a batch, shape ``[B]``; 0 for a row without a token."""
        return self._read_head(batch)

    def _read_head(self, batch: TensorDict) -> Tensor:
        """Compute the output of the head at the last token: shape ``[B]``, or ``[B, K]``."""
        return read_values(
            self.backbone, self._transformer, self.score_head, self._read(batch)
        ).sum(1)

    def _read(self, batch: TensorDict) -> TensorDict:
        """Return the rows with one more column, and a mask behind the token that is read."""
        own = token_rows(type(self).__name__, batch, ("tokens", "attention_mask"))
        tokens, mask = own["tokens"], own["attention_mask"]
        column = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        ends = torch.isin(tokens, torch.tensor(self.policy.stops, device=tokens.device))
        last = (column * mask).amax(1, keepdim=True)
        last = last - (ends.gather(1, (last - 1).clamp(min=0)) & (last > 1)).long()
        columns = torch.arange(tokens.shape[1] + 1, device=tokens.device)
        rows = {
            "tokens": F.pad(tokens, (0, 1)),
            "attention_mask": F.pad(mask, (0, 1)) | (columns == last),
            "response_mask": (columns == last) & (last > 0),
        }
        return TensorDict(rows, batch_size=batch.batch_size)
