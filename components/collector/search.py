"""Rollouts of a proof search, one row for each tactic."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.batch import decode_columns, decode_texts, keep_prompt, trim
from rlcomp.errors import DataError
from rlcomp.interfaces.stages import Collector
from rlcomp.interfaces.task import Example
from rlcomp.metrics import record, record_total
from rlcomp.prover.graph import ProofGraph, Trial
from rlcomp.prover.searcher import Searcher
from rlcomp.seed import new_generator


class SearchCollector(Collector):
    """Collector that searches a proof of each prompt; a row is a tactic tried in a state.

    ``prompt`` is the state's text as the policy read it, ``response`` the tactic. The tactics of a
    state are a group. ``on_proof`` marks the tactics of the proof, for ``reward=on_proof``. There
    are as many rows as tried tactics.

    Reads ``prompt`` ``[P, W]``, and for the environment ``columns`` and ``answer`` if they are
    there. Writes a new batch of rows like every collector, and ``on_proof`` ``[B]``.

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
    keys = {"on_proof": ("B", "bool", "the tactic is one of a proof that was found")}
    must_reach = ("on_proof",)

    def __init__(self, *, prover: Searcher) -> None:
        super().__init__()
        self.policy = prover.policy
        self.prover = prover
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Search a proof of each prompt."""
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
        tactics = rows[places.to(device)]
        prompts = tactics["prompt"]
        owner = torch.tensor([number for number, _ in tried], device=device)
        tactics = keep_prompt(tactics, batch, owner)
        tactics["prompt"] = prompts
        nodes: dict[int, int] = {}
        group = [nodes.setdefault(id(trial.node), len(nodes)) for _, trial in tried]
        tactics["group_id"] = torch.tensor(group, device=device)
        edges = {id(edge) for graph in graphs for edge in graph.proof()}
        proves = [id(trial.edge) in edges for _, trial in tried]
        tactics["on_proof"] = torch.tensor(proves, device=device)
        return trim(tactics)


def _examples(batch: TensorDict) -> list[Example]:
    prompts, columns = decode_texts(batch["prompt"]), decode_columns(batch)
    answers = decode_texts(batch["answer"]) if "answer" in batch.keys() else [""] * len(prompts)
    rows = zip(prompts, answers, columns, strict=True)
    return [Example(prompt, answer, "", columns=row) for prompt, answer, row in rows]


def _record(graph: ProofGraph) -> None:
    record("search/solved", float(graph.root.solved))
    record("search/calls", float(graph.calls))
    record("search/tokens", float(graph.tokens))
    record("search/states", float(len(graph.nodes)))
    if graph.root.solved:
        record("search/proof_length", float(len(graph.proof())))
