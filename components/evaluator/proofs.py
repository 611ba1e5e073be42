"""Share of held-out goals that a search proves."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, NonNegativeInt, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import Split, split_examples
from rlcomp.functional.statistics import share_interval
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record, record_sample
from rlcomp.prover.searcher import Searcher


class ProvenShare(Component):
    """Evaluator of the share of held-out goals that a search proves within its budgets.

    Records ``<name>/solved`` with Wilson's 95 % interval (``_low``, ``_high``); for each goal
    ``<name>/calls`` (of the environment) and ``<name>/tokens`` (sampled); for proven goals
    ``<name>/proof_length``. The first ``num_shown`` proofs are saved as samples.

    Args:
        prover: the searcher.
        task: the task with the held-out prompts.
        split: ``"training"`` takes goals of the training split instead.
        num_prompts: number of goals; fewer if the task has fewer.
        num_shown: number of proofs saved as samples.
        name: prefix of its metrics; each evaluator needs its own.
    """

    def __init__(
        self,
        *,
        prover: Searcher,
        task: Task,
        split: Split = "held_out",
        num_prompts: PositiveInt = 128,
        num_shown: NonNegativeInt = 8,
        name: NonEmptyText = "evaluation",
    ) -> None:
        super().__init__()
        self.prover = prover
        self.name = name
        self.num_shown = num_shown
        # The same goals and the same draws at every evaluation, so that only the policy differs.
        self.seed = torch.initial_seed()
        self.examples = split_examples(task, split, num_prompts, self.seed)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Search and record; ignores the training batch."""
        draws = torch.Generator().manual_seed(self.seed)
        graphs = self.prover.search(self.examples, draws).graphs
        solved = torch.tensor([graph.root.solved for graph in graphs]).double()
        low, high = share_interval(solved, level=0.95, generator=draws)
        record(f"{self.name}/solved", solved)
        record(f"{self.name}/solved_low", low)
        record(f"{self.name}/solved_high", high)
        for graph in graphs:
            record(f"{self.name}/calls", float(graph.calls))
            record(f"{self.name}/tokens", float(graph.tokens))
            if graph.root.solved:
                record(f"{self.name}/proof_length", float(len(graph.proof())))
        shown = zip(self.examples[: self.num_shown], graphs, strict=False)
        for example, graph in shown:
            proof = "\n".join(edge.tactic for edge in graph.proof())
            record_sample(
                prompt=example.prompt,
                response=proof,
                answer=example.answer,
                correct=graph.root.solved,
            )
        return batch
