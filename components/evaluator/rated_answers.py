"""Held-out rated answers: rank correlation of a reward model's scores with the ratings."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import demonstrations, held_out_examples
from rlcomp.data.pairs import ratings
from rlcomp.functional.rank_correlation import rank_correlation
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.model.scorer import Scorer
from rlcomp.text.prompt import or_text
from rlcomp.text.rows import demonstration_rows


class RatedAnswers(Component):
    """Evaluator of a reward model's order of held-out rated answers.

    Records ``<name>/rank_correlation``, Spearman's correlation of scores and ratings, and
    ``<name>/accuracy``: among pairs of answers with different ratings, the share whose better
    answer has the higher score (equal scores count half).

    Args:
        scorer: the reward model.
        task: the task with the held-out examples, which have a column ``rating`` or ``desirable``.
        num_answers: number of answers; fewer if the task has fewer.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: how prompts become tokens, as in training; plain text if not given.

    Raises:
        DataError: an example has no rating.
    """

    def __init__(
        self,
        *,
        scorer: Scorer,
        task: Task,
        num_answers: PositiveInt = 512,
        name: NonEmptyText = "held_out",
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.name = name
        tokenizer = scorer.policy.tokenizer
        # The same answers at every evaluation, so that only the reward model differs.
        examples = held_out_examples(task, num_answers, torch.initial_seed())
        self.ratings = ratings(examples)
        answers = demonstrations(or_text(prompt, tokenizer), examples)
        self.rows = demonstration_rows(tokenizer, answers)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        with torch.no_grad():
            scores = self.scorer.scores(self.rows.to(self.scorer.policy.device)).double().cpu()
        correlation = rank_correlation(self.ratings.double().numpy(), scores.numpy())
        record(f"{self.name}/rank_correlation", correlation)
        better = self.ratings[:, None] > self.ratings
        lead = (scores[:, None] - scores)[better]
        record(f"{self.name}/accuracy", (lead > 0).double() + (lead == 0).double() / 2)
        return batch
