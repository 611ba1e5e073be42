"""Searches for proofs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from tensordict import TensorDict

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt, Unbuilt
from rlcomp.batch import cat, decode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.protocols import Searchable
from rlcomp.interfaces.task import Example
from rlcomp.prover.graph import ProofGraph, ProofNode, Proposal, Trial
from rlcomp.text.answers import answer_prompts
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.workers.function_call import load


class SearchStrategy(Protocol):
    """Interface of search strategies; their memory is in the graph.

    Attributes:
        samples: tactics that the policy samples in an expansion.
    """

    samples: int

    def select(self, graph: ProofGraph) -> ProofNode:
        """Return the state to expand next; a state may be expanded several times."""
        ...

    def update(self, graph: ProofGraph, node: ProofNode, trials: Sequence[Trial]) -> None:
        """Update the memory with the trials of an expansion."""
        ...


_METHODS = ("start", "apply", "solved", "text")


class SearchResult(NamedTuple):
    """Result of the searches of a batch.

    Attributes:
        graphs: the graph of each example.
        rows: all sampled tactics as rows; a proposal's ``place`` is the index of its row.
    """

    graphs: list[ProofGraph]
    rows: TensorDict


class Searcher(metaclass=Checked):
    """Searcher for proofs of several examples in parallel, each within its budgets.

    A search ends when its goal is proven, or after ``max_calls`` calls of its environment or
    ``max_tokens`` sampled tokens.

    Args:
        policy: the policy of the tactics.
        environment: a class of environments with immutable states
            (:class:`rlcomp.interfaces.protocols.Searchable`), or its description.
        strategy: selects the state to expand.
        max_calls: maximum number of tactics that the environment applies for one example.
        max_tokens: number of tokens sampled for one example after which no expansion begins; the
            last expansion may exceed it.
        max_new_tokens: maximum number of tokens of a tactic, its end included; a longer one is not
            tried.
        value: a critic that writes ``value``; its value at the first token of an answer, clamped to
            [0, 1], is the value of the state.
        wording: the policy's prompt; the state replaces ``{state}``.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: the environment cannot be searched, or the wording has no ``{state}``.
    """

    def __init__(  # noqa: PLR0913
        self,
        *,
        policy: Policy,
        environment: Callable[..., Any] | Unbuilt,
        strategy: SearchStrategy,
        max_calls: PositiveInt = 64,
        max_tokens: PositiveInt = 1024,
        max_new_tokens: PositiveInt,
        value: Component | None = None,
        wording: NonEmptyText = "{state}\n",
        prompt: PromptFormat | None = None,
    ) -> None:
        self.environment = environment
        instance = self._make_environment()
        missing = [name for name in _METHODS if not callable(getattr(instance, name, None))]
        if missing:
            raise ConfigError(
                f"environment is a {type(instance).__name__}, which cannot be searched: it has no "
                f"method {' and no '.join(missing)}; environment=tactics and environment=lean do"
            )
        if "{state}" not in wording:
            raise ConfigError(f"prover.wording is {wording!r:.60}: must hold {{state}}")
        self.policy = policy
        self.strategy = strategy
        self.max_calls = max_calls
        self.max_tokens = max_tokens
        self.max_new_tokens = max_new_tokens
        self.value = value
        self.wording = wording
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        self.prompt.check_policy(policy)

    def search(self, examples: Sequence[Example], generator: torch.Generator) -> SearchResult:
        """Search for a proof of each example; ``generator`` draws the policy's tokens."""
        environments = [self._make_environment() for _ in examples]
        try:
            return self._search(list(zip(environments, examples, strict=True)), generator)
        finally:
            for environment in environments:
                getattr(environment, "close", lambda: None)()

    def _make_environment(self) -> Any:  # noqa: ANN401
        if isinstance(self.environment, Unbuilt):
            return load(self.environment.target, self.environment.arguments)
        return self.environment()

    def _search(
        self, searches: Sequence[tuple[Searchable[Any], Example]], generator: torch.Generator
    ) -> SearchResult:
        graphs = [ProofGraph(environment, example, self._fits) for environment, example in searches]
        rows, count = list[TensorDict](), 0
        while open_graphs := [graph for graph in graphs if self._is_open(graph)]:
            nodes = [self.strategy.select(graph) for graph in open_graphs]
            sampled = self._sample(nodes, generator)
            rows.append(sampled)
            indices = range(count, count + sampled.shape[0])
            count += sampled.shape[0]
            self._expand(open_graphs, nodes, sampled, indices)
        return SearchResult(graphs, cat(rows) if rows else TensorDict({}, batch_size=[0]))

    def _is_open(self, graph: ProofGraph) -> bool:
        return (
            not graph.root.solved
            and graph.calls < self.max_calls
            and graph.tokens < self.max_tokens
        )

    def prompt_text(self, text: str) -> str:
        """Return the policy's prompt for the text of a state."""
        return self.wording.replace("{state}", text)

    def _fits(self, text: str) -> bool:
        context_length = self.policy.context_length
        (ids,) = self.prompt.encode([self.prompt_text(text)], [{}])
        return context_length is None or len(ids) + self.max_new_tokens <= context_length

    def _sample(self, nodes: Sequence[ProofNode], generator: torch.Generator) -> TensorDict:
        prompts = [self.prompt_text(node.text) for node in nodes]
        rows = answer_prompts(
            self.policy,
            prompts,
            prompt_ids=self.prompt.encode(prompts, [{} for _ in prompts]),
            group_size=self.strategy.samples,
            max_new_tokens=self.max_new_tokens,
            generator=generator,
        )
        if self.value is not None:
            self._set_values(nodes, rows)
        return rows

    def _set_values(self, nodes: Sequence[ProofNode], rows: TensorDict) -> None:
        """Set the critic's value of each state."""
        assert self.value is not None
        # The samples of a node have the same prompt, so the first sample gives the node's value.
        first = rows["response_mask"].int().argmax(1, keepdim=True)
        value = self.value(rows.copy())["value"].gather(1, first)[:: self.strategy.samples, 0]
        for node, number in zip(nodes, value.clamp(0, 1).tolist(), strict=True):
            node.value = number

    def _expand(
        self,
        graphs: Sequence[ProofGraph],
        nodes: Sequence[ProofNode],
        rows: TensorDict,
        indices: range,
    ) -> None:
        tactics, truncated = decode_texts(rows["response"]), rows["truncated"].tolist()
        log_probs = rows["rollout_log_probs"].sum(1).tolist()
        lengths = rows["response_mask"].sum(1).tolist()
        for number, (graph, node) in enumerate(zip(graphs, nodes, strict=True)):
            samples = range(number * self.strategy.samples, (number + 1) * self.strategy.samples)
            graph.tokens += sum(lengths[row] for row in samples)
            proposals = [
                Proposal(tactics[row], log_probs[row], indices[row])
                for row in samples
                if not truncated[row]
            ]
            trials = graph.expand(node, proposals, self.max_calls - graph.calls)
            self.strategy.update(graph, node, trials)
