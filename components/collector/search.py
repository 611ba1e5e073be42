"""Proof search rollouts: the tactics that a search has tried."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.batch import decode_columns, decode_texts, keep_prompt, trim
from rlcomp.errors import DataError
from rlcomp.interfaces.collector import Collector
from rlcomp.interfaces.task import Example
from rlcomp.metrics import record, record_total
from rlcomp.prover.graph import ProofGraph, Trial
from rlcomp.prover.searcher import Searcher
from rlcomp.seed import new_generator


class SearchCollector(Collector):
    """Searches a proof of each prompt: one row for each tactic that was tried in a state.

    ``prompt`` is what the policy has read of the state, ``response`` the tactic; the tactics of one
    state are a group. ``on_proof`` marks those of the proof that was found, for
    ``reward=on_proof``. Rows are as many as tactics were tried.

    Reads ``prompt`` ``[P, W]``, where they are there ``columns`` and ``answer``, which the
    environment is told. Writes a new batch of rows as every collector, and ``on_proof`` ``[B]``.

    Records of each goal ``search/solved``, ``search/calls`` of the environment, ``search/tokens``
    sampled, ``search/states`` and, of those proven, ``search/proof_length``; ``rollout/tokens``.

    Args:
        prover: searches.

    Raises:
        DataError: no tactic of the policy was tried.
    """

    optional = ("columns", "answer")
    writes = (*Collector.writes, "on_proof")
    keys = {"on_proof": ("B", "bool", "the tactic is one of a proof that was found")}
    must_reach = ("on_proof",)

    def __init__(self, *, prover: Searcher) -> None:
        super().__init__()
        self.policy = prover.policy
        self.prover = prover
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Search."""
        examples = _examples(batch)
        graphs, rows = self.prover.search(examples, self.generator)
        for graph in graphs:
            _record(graph)
        tried = [(n, trial) for n, graph in enumerate(graphs) for trial in graph.trials]
        if not tried:
            raise DataError(
                "of all tactics that the policy sampled none was tried: each was longer than "
                f"max_new_tokens ({self.prover.max_new_tokens}), or every goal held at once"
            )
        record_total("rollout/tokens", float(sum(graph.tokens for graph in graphs)))
        return self._rows(batch, rows, tried, graphs)

    def _rows(
        self,
        batch: TensorDict,
        rows: TensorDict,
        tried: list[tuple[int, Trial]],
        graphs: list[ProofGraph],
    ) -> TensorDict:
        places = torch.tensor([trial.proposal.place for _, trial in tried])
        device = rows["tokens"].device
        kept = rows[places.to(device)]
        asked = kept["prompt"]
        owner = torch.tensor([number for number, _ in tried], device=device)
        kept = keep_prompt(kept, batch, owner)
        kept["prompt"] = asked
        nodes: dict[int, int] = {}
        group = [nodes.setdefault(id(trial.node), len(nodes)) for _, trial in tried]
        kept["group_id"] = torch.tensor(group, device=device)
        edges = {id(edge) for graph in graphs for edge in graph.proof()}
        proves = [id(trial.edge) in edges for _, trial in tried]
        kept["on_proof"] = torch.tensor(proves, device=device)
        return trim(kept)


def _examples(batch: TensorDict) -> list[Example]:
    prompts, columns = decode_texts(batch["prompt"]), decode_columns(batch)
    answers = decode_texts(batch["answer"]) if "answer" in batch.keys() else [""] * len(prompts)
    told = zip(prompts, answers, columns, strict=True)
    return [Example(prompt, answer, "", columns=row) for prompt, answer, row in told]


def _record(graph: ProofGraph) -> None:
    record("search/solved", float(graph.root.solved))
    record("search/calls", float(graph.calls))
    record("search/tokens", float(graph.tokens))
    record("search/states", float(len(graph.nodes)))
    if graph.root.solved:
        record("search/proof_length", float(len(graph.proof())))
