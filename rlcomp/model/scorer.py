"""Reward models: copies of a policy that score answers, steps or labels."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor, nn
from transformers import PreTrainedModel

from rlcomp.arguments import MinLen, NonEmptyText
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.errors import ConfigError, nearest
from rlcomp.keys import Key, OwnKey
from rlcomp.model.backbone import BackboneCopy, read_values, token_rows
from rlcomp.model.language_model import LanguageModel
from rlcomp.seed import new_generator


class ScoreHead(nn.Module):
    """Linear head without bias, as in sequence classifiers of transformers.

    Args:
        model: gives the width and the device.
        generator: draws the weights, ``N(0, 1 / (width + 1))``.
        outputs: K: the head computes K scores; None: one score.

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


class Scorer(BackboneCopy):
    """Reward model ``r(x, y) = w . h``: a copy of a policy's backbone with a scalar head.

    ``h`` is the state after the last token of the answer, or after the token before it if the last
    one is a stop token. A sequence classifier of transformers reads the same state of the text
    ``x y``. The copy starts from the policy at the scorer's first phase (after a warm start, for
    instance); from then on the two are separate.

    Reads ``tokens``, ``attention_mask`` ``[B, T]``. Writes ``model_score`` ``[B]``, dimensionless,
    differentiable. It is not called ``reward``, because a learner needs both entries.

    Args:
        policy: its model is copied; it defines the tokens that end an answer.
        engine: the compute engine of the backbone.

    Attributes:
        labels: the names of the outputs.

    Source:
        Stiennon et al. 2020, arXiv:2009.01325, section 3.4; Ouyang et al. 2022, arXiv:2203.02155.
    """

    reads: ClassVar[tuple[Key, ...]] = ("tokens", "attention_mask")
    writes: ClassVar[tuple[Key, ...]] = ("model_score",)

    labels: Sequence[str] = ("score",)
    policy: LanguageModel

    def __init__(self, *, policy: LanguageModel, engine: Engine = AUTO) -> None:
        super().__init__(model=policy.model, engine=engine)
        # Not registered in nn.Module: the policy's tensors belong to the policy.
        object.__setattr__(self, "policy", policy)
        self.score_head = ScoreHead(policy.model, new_generator())

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the scores, with gradient if gradients are enabled."""
        batch["model_score"] = self.scores(batch)
        return batch

    def scores(self, batch: TensorDict) -> Tensor:
        """Compute scores ``[B]`` of a batch; 0 for a row without a token."""
        return self._read_head(batch)

    def _read_head(self, batch: TensorDict) -> Tensor:
        """Compute the output of the head at the end of the answer: shape ``[B]``, or ``[B, K]``."""
        rows = self._answer_ends(batch)
        return read_values(self.backbone, self._transformer, self.score_head, rows).sum(1)

    def _answer_ends(self, batch: TensorDict) -> TensorDict:
        """Return rows with one more column; ``response_mask`` is true after the token to read.

        That is the token of ``h``. A row without a token has no such column.
        """
        answers = token_rows(type(self).__name__, batch, ("tokens", "attention_mask"))
        tokens, mask = answers["tokens"], answers["attention_mask"]
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


class TokenScorer(Scorer):
    """Process reward model ``q_t = w . h_t``: a copy of a policy's backbone with a scalar head.

    ``h_t`` is the state after token t. ``sigmoid(q_t)`` is the probability that the step ending
    there is right, or that the answer will be right, depending on the labels. The whole answer is
    scored at the same state as by :class:`Scorer`.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``. Writes ``token_score``
    ``[B, T]``, log-odds, differentiable, 0 outside the response; and ``model_score`` ``[B]``, the
    ``token_score`` of the last token that is no stop token, 0 if this token is not in the response.

    Args:
        policy: its model is copied; it defines the tokens that end an answer.
        engine: the compute engine of the backbone.

    Source:
        Lightman et al. 2023, arXiv:2305.20050, section 2.6; Uesato et al. 2022, arXiv:2211.14275.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "token_score": ("B T", "float", "q_t: log-odds of a process reward model after the token"),
    }
    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("token_score", "model_score")

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the scores, with gradient if gradients are enabled."""
        score = batch["token_score"] = self.token_scores(batch)
        rows = self._answer_ends(batch)
        last = rows["response_mask"][:, 1:] & batch["response_mask"]
        batch["model_score"] = (score * last).sum(1)
        return batch

    def token_scores(self, batch: TensorDict) -> Tensor:
        """Compute the scores after the response tokens of a batch, shape ``[B, T]``, log-odds."""
        rows = token_rows(type(self).__name__, batch)
        # The state after token t is the state before column t + 1.
        shifted = {
            "tokens": F.pad(rows["tokens"], (0, 1)),
            "attention_mask": F.pad(rows["attention_mask"], (1, 0), value=True),
            "response_mask": F.pad(rows["response_mask"], (1, 0)),
        }
        shifted_rows = TensorDict(shifted, batch_size=batch.batch_size)
        return read_values(self.backbone, self._transformer, self.score_head, shifted_rows)[:, 1:]

    def scores_before(self, batch: TensorDict) -> Tensor:
        """Compute the scores before the response tokens of a batch, shape ``[B, T]``, log-odds."""
        return read_values(self.backbone, self._transformer, self.score_head, batch)


class LabelClassifier(Scorer):
    """Multi-label classifier ``log p_k / (1 - p_k) = w_k . h``: log-odds of the labels of a text.

    ``h`` is the same state as in :class:`Scorer`. As a reward model (``reward=scored``), its score
    is the log-odds of one label.

    Reads ``tokens``, ``attention_mask`` ``[B, T]``. Writes ``label_logits`` ``[B, K]``,
    differentiable.

    Args:
        policy: its model is copied; it defines the tokens that end a text.
        labels: the names of the ``K`` labels, in the order of the outputs.
        score: the label whose log-odds are the score; None for the first.
        engine: the compute engine of the backbone.

    Raises:
        ConfigError: a label occurs twice, or ``score`` is not a label.
    """

    writes = ("label_logits",)

    def __init__(
        self,
        *,
        policy: LanguageModel,
        labels: Annotated[Sequence[NonEmptyText], MinLen(1)],
        score: NonEmptyText | None = None,
        engine: Engine = AUTO,
    ) -> None:
        super().__init__(policy=policy, engine=engine)
        if len({*labels}) < len(labels):
            raise ConfigError(f"LabelClassifier: labels {list(labels)}: name each once")
        if score is not None and score not in labels:
            raise ConfigError(f"LabelClassifier: score is {score!r}{nearest(score, labels)}")
        self.labels = tuple(labels)
        self.score = score
        self.score_head = ScoreHead(policy.model, new_generator(), len(labels))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the log-odds, with gradient if gradients are enabled."""
        batch["label_logits"] = self.logits(batch)
        return batch

    def logits(self, batch: TensorDict) -> Tensor:
        """Compute log-odds of the labels, shape ``[B, K]``; 0 for a row without a token."""
        return self._read_head(batch)

    def scores(self, batch: TensorDict) -> Tensor:
        """Compute log-odds of one label, shape ``[B]``."""
        return self.logits(batch)[:, 0 if self.score is None else self.labels.index(self.score)]


class PolicyCopy(LanguageModel):
    """Copy of a policy that is trained separately, such as an implicit reward model.

    Like a :class:`Scorer`, it starts from the policy at its first phase. Reads and writes the
    entries of :class:`rlcomp.model.language_model.LanguageModel`.

    Args:
        policy: its model is copied; its tokenizer, decoding, engine and stop tokens are used.
    """

    policy: LanguageModel
    started: Tensor

    def __init__(self, *, policy: LanguageModel) -> None:
        super().__init__(
            model=copy.deepcopy(policy.model),
            tokenizer=policy.tokenizer,
            decoding=policy.decoding,
            engine=policy.engine,
        )
        # Not registered in nn.Module: the policy's tensors belong to the policy.
        object.__setattr__(self, "policy", policy)
        # The constructor takes stop tokens as texts, and the policy has their ids.
        self.generation.stops = policy.stops
        # A buffer, so that a resumed run does not copy the weights again.
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def begin_phase(self) -> None:
        """Copy the policy's current weights, once, and count an update."""
        if not bool(self.started):
            self.model.load_state_dict(self.policy.model.state_dict())
            self.started.fill_(True)
            self.updated()
