"""Evaluation of agents on held-out prompts: episodes, and searches for proofs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict

from components.evaluator.accuracy import Accuracy
from rlcomp.arguments import NonEmptyText, NonNegativeInt, PositiveInt
from rlcomp.batch import encode_texts
from rlcomp.component import Component
from rlcomp.data.examples import Split, prompt_batch, split_examples
from rlcomp.engine.decoding import Decoding
from rlcomp.episodes.player import Plays
from rlcomp.functional.statistics import share_interval
from rlcomp.interfaces.reward import without_failed
from rlcomp.interfaces.task import Task
from rlcomp.interfaces.turns import last_rows
from rlcomp.metrics import record, record_sample, recording
from rlcomp.prover.searcher import Searcher


class AgentAccuracy(Accuracy):
    """Evaluator of accuracy and pass@k of episodes with an environment, on held-out prompts.

    Works like :class:`components.evaluator.accuracy.Accuracy`, with episodes in place of answers.
    Records the metrics of ``Accuracy``, and ``<name>/turns``, the mean number of turns of the
    sampled episodes. Episodes whose environment failed are left out.

    Args:
        player: the player of the episodes, with the policy's own sampling settings and greedily.
        task: the task with the held-out prompts.
        reward: the reward; writes ``correct`` and ``reward_valid`` of an episode.
        split: ``"training"`` takes prompts of the training split instead.
        num_prompts: number of prompts; fewer if the task has fewer.
        samples_per_prompt: sampled episodes per prompt.
        num_shown: number of episodes saved as samples.
        name: prefix of its metrics; each evaluator needs its own.
        by: levels of difficulty, or domains, as for the accuracy.

    Raises:
        ConfigError: as for the accuracy.
        DataError: a held-out prompt and its first turn may exceed the policy's context.
    """

    def __init__(
        self,
        *,
        player: Plays,
        task: Task,
        reward: Component,
        split: Split = "held_out",
        num_prompts: PositiveInt = 256,
        samples_per_prompt: PositiveInt = 4,
        num_shown: NonNegativeInt = 8,
        name: NonEmptyText = "evaluation",
        by: NonEmptyText | None = None,
    ) -> None:
        super().__init__(
            policy=player.policy,
            task=task,
            reward=reward,
            split=split,
            num_prompts=num_prompts,
            samples_per_prompt=samples_per_prompt,
            max_new_tokens=player.limits.turn_tokens,
            num_shown=num_shown,
            name=name,
            by=by,
            prompt=player.prompt,
        )
        self.player = player

    def measure(self, greedy: TensorDict, sampled: TensorDict) -> None:
        """Record the metrics of the episodes."""
        super().measure(greedy, sampled)
        complete = without_failed(sampled, torch.ones_like(sampled["reward_valid"]))
        record(f"{self.name}/turns", sampled["turn_id"].amax(1) + 1.0, where=complete)

    def answers(
        self, prompts: Sequence[str], group_size: int, decoding: Decoding | None
    ) -> TensorDict:
        """Return episodes of the held-out prompts with rewards, ``group_size`` rows per prompt.

        An episode with several rows is represented by the row of its last turn.
        """
        batch = prompt_batch(self.examples)
        batch["policy_prompt"] = encode_texts(prompts)
        rows = self.player.play(
            batch,
            group_size=group_size,
            decoding=decoding,
            generator=torch.Generator().manual_seed(self.seed),
            seed=self.seed,
        )
        with recording():  # drop the reward's metrics: they are for training
            judged: TensorDict = self.reward(rows)
        judged["reward_valid"] = without_failed(rows, judged["reward_valid"])
        return judged[last_rows(judged)]


class ProvenShare(Component):
    """Evaluator of the share of held-out goals that a search proves within its budgets.

    Records ``<name>/solved`` with Wilson's 95 % interval (``_low``, ``_high``); for each goal
    ``<name>/calls`` (of the environment) and ``<name>/tokens`` (sampled); for proven goals
    ``<name>/proof_length``, the number of tactics. The first ``num_shown`` goals are saved as
    samples, with their proofs (empty for an unproven goal).

    Args:
        prover: the searcher.
        task: the task with the held-out prompts.
        split: ``"training"`` takes goals of the training split instead.
        num_prompts: number of goals; fewer if the task has fewer.
        num_shown: number of goals saved as samples.
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
