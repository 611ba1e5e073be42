"""Rollouts of a proof search, one row for each tactic."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.batch import keep_prompt, trim
from rlcomp.data.examples import batch_examples
from rlcomp.errors import DataError
from rlcomp.interfaces.stages import Collector
from rlcomp.metrics import record, record_total
from rlcomp.prover.graph import ProofGraph
from rlcomp.prover.searcher import Searcher
from rlcomp.seed import new_generator


class SearchCollector(Collector):
    """Collector that searches for a proof of each prompt; a row is a tactic tried in a state.

    ``prompt`` is the policy's text of the state, ``response`` the tactic. The tactics of a state
    are a group. ``on_proof`` marks the tactics of the proof, for ``reward=on_proof``.

    Reads ``prompt`` ``[P, W]``, and for the environment ``columns`` and ``answer`` if
    present. Writes a new batch with every collector's keys, and ``on_proof`` ``[B]``.

    Records for each goal ``search/solved``, ``search/calls`` (of the environment),
    ``search/tokens`` (sampled), ``search/states`` and, if it is proven, ``search/proof_length``;
    and ``rollout/tokens``.

    Args:
        prover: the searcher.

    Raises:
        DataError: no tactic of the policy was tried.
    """

    optional = ("columns", "answer")
    writes = (*Collector.writes, "on_proof")
    keys = {"on_proof": ("B", "bool", "the tactic is part of the proof")}
    must_reach = ("on_proof",)

    def __init__(self, *, prover: Searcher) -> None:
        super().__init__()
        self.policy = prover.policy
        self.prover = prover
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Search for a proof of each prompt."""
        graphs, rows = self.prover.search(batch_examples(batch), self.generator)
        for graph in graphs:
            _record(graph)
        if not any(graph.trials for graph in graphs):
            raise DataError(
                "none of the policy's tactics was tried: each was longer than max_new_tokens "
                f"({self.prover.max_new_tokens}), or every goal was proven from the start"
            )
        record_total("rollout/tokens", float(sum(graph.tokens for graph in graphs)))
        return self._tactic_rows(batch, rows, graphs)

    def _tactic_rows(
        self, batch: TensorDict, rows: TensorDict, graphs: list[ProofGraph]
    ) -> TensorDict:
        """Return the rows of all trials, with their groups and ``on_proof``."""
        device = rows["tokens"].device
        trials = [trial for graph in graphs for trial in graph.trials]
        prompt_indices = [number for number, graph in enumerate(graphs) for _ in graph.trials]
        tactics = rows[torch.tensor([trial.proposal.place for trial in trials], device=device)]
        prompts = tactics["prompt"]
        tactics = keep_prompt(tactics, batch, torch.tensor(prompt_indices, device=device))
        tactics["prompt"] = prompts  # keep_prompt has replaced the states' texts
        nodes: dict[int, int] = {}
        groups = [nodes.setdefault(id(trial.node), len(nodes)) for trial in trials]
        tactics["group_id"] = torch.tensor(groups, device=device)
        proof = {id(edge) for graph in graphs for edge in graph.proof()}
        on_proof = [id(trial.edge) in proof for trial in trials]
        tactics["on_proof"] = torch.tensor(on_proof, device=device)
        return trim(tactics)


def _record(graph: ProofGraph) -> None:
    record("search/solved", float(graph.root.solved))
    record("search/calls", float(graph.calls))
    record("search/tokens", float(graph.tokens))
    record("search/states", float(len(graph.nodes)))
    if graph.root.solved:
        record("search/proof_length", float(len(graph.proof())))
