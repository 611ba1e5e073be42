"""How well a verifier tells a solver's right answers from its wrong ones, on held-out prompts."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples, prompt_batch
from rlcomp.engine.decoding import Decoding
from rlcomp.episodes.seated_player import SeatedPlayer
from rlcomp.functional.label_ranking import roc_auc
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.tokenizer import encode_all


class VerifierQuality(Component):
    """Accuracy of a solver and AUC of a verifier, in matches on held-out prompts.

    ``AUC = P(s_right > s_wrong)``, ties counted half, with ``s = log p(accept) - log p(refuse)`` of
    the verifier behind each answer that the solver sampled.

    Records ``<name>/solver``, the share of right answers; ``<name>/accepted`` and
    ``<name>/agreed``, the shares of sampled verdicts; and ``<name>/auc``, where there are right and
    wrong answers. Matches without a verdict are left out.

    Args:
        player: plays the matches: seat 0 solves, seat 1 verifies; its environment tells the facts
            ``right``, ``accepted`` and ``agreed``.
        task: its held-out part is asked.
        accept: text of the verdict that an answer is right.
        refuse: that it is wrong.
        num_prompts: how many prompts; fewer when the task has fewer.
        matches_per_prompt: of each.
        name: what its metrics are called; another beside it needs another.
    """

    def __init__(
        self,
        *,
        player: SeatedPlayer,
        task: Task,
        accept: NonEmptyText = "y",
        refuse: NonEmptyText = "n",
        num_prompts: PositiveInt = 128,
        matches_per_prompt: PositiveInt = 4,
        name: NonEmptyText = "evaluation",
    ) -> None:
        super().__init__()
        self.player = player
        self.accept = accept
        self.refuse = refuse
        self.matches_per_prompt = matches_per_prompt
        self.name = name
        # The same matches at every evaluation: differences are the policies'.
        self.seed = torch.initial_seed()
        self.examples = held_out_examples(task, num_prompts, self.seed)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        rows = self.player.play(
            prompt_batch(self.examples),
            group_size=self.matches_per_prompt,
            decoding=None,
            generator=torch.Generator().manual_seed(self.seed),
            seed=self.seed,
        )
        verdicts = rows[(rows["seat"] == 1) & ~rows["truncated"] & rows["response_mask"].any(1)]
        facts = {name: verdicts["facts", name] for name in ("right", "accepted", "agreed")}
        told = ~facts["right"].isnan()
        for fact, name in (("right", "solver"), ("accepted", "accepted"), ("agreed", "agreed")):
            record(f"{self.name}/{name}", facts[fact], where=told)
        right = facts["right"][told] == 1.0
        if right.any() and not right.all():
            record(f"{self.name}/auc", roc_auc(self._scores(verdicts[told]), right))
        return batch

    def _scores(self, rows: TensorDict) -> Tensor:
        """``log p(accept) - log p(refuse)`` in place of each verdict, nats."""
        policy = self.player.policies[1]
        first = rows["response_mask"].int().argmax(1).tolist()
        heads = [row[:end].tolist() for row, end in zip(rows["tokens"], first, strict=True)]
        scores = []
        for text in (self.accept, self.refuse):
            (tail,) = encode_all(policy.tokenizer, [text])
            asked = rows_from_ids(policy.tokenizer, heads, [tail] * len(heads))
            with torch.no_grad():
                found = policy.log_probs(asked.to(policy.device), decoding=Decoding())
            scores.append(found.sum(1).cpu())
        return scores[0] - scores[1]
