"""Small protocols: what a part asks of another part, such as a learner, an endpoint or a suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example

if TYPE_CHECKING:
    from torchrl.objectives.common import LossModule


class ModelReply(NamedTuple):
    """Reply of a model.

    Attributes:
        text: the model's answer.
        first: probability of each of the likeliest first tokens, by token; None if the server
            returned no log-probs.
    """

    text: str
    first: Mapping[str, float] | None = None


class Endpoint(Protocol):
    """Server that answers several texts at a time."""

    def ask(
        self, prompts: Sequence[str], *, max_tokens: int, alternatives: int = 0
    ) -> list[ModelReply | None]:
        """Return one reply for each prompt; None if the server did not answer the prompt.

        Args:
            prompts: the questions.
            max_tokens: largest number of tokens of an answer.
            alternatives: number of likeliest first tokens in the reply.
        """
        ...


@runtime_checkable
class ExpertPolicy(Protocol):
    """A policy that knows the task."""

    def __call__(self, batch: TensorDict) -> TensorDict:
        """Write ``action``."""
        ...

    def distance_to_goal(self, batch: TensorDict) -> Tensor:
        """Return the distance from the states of a batch to the goal, ``[N]``, in any unit."""
        ...


@runtime_checkable
class HoldsObjective(Protocol):
    """A loss that wraps a loss module of torchrl, which holds the networks and target networks."""

    objective: LossModule


@runtime_checkable
class HasTdErrors(Protocol):
    """A loss that stores the temporal-difference errors of its last batch.

    Attributes:
        errors: indices of rows in the replay (``index``) and their ``|delta|``, ``[N]`` each; None
            before the first batch.
    """

    errors: tuple[Tensor, Tensor] | None


@runtime_checkable
class HasOptimizerState(Protocol):
    """A learner whose optimiser has state."""

    def forget_moments(self) -> None:
        """Reset the optimiser to its state before the first step."""
        ...


@runtime_checkable
class FreezesParameters(Protocol):
    """A learner that can exclude some of its parameters from its steps."""

    @property
    def trained_names(self) -> Sequence[str]:
        """Return the names of the parameters that the learner trains."""
        ...

    def freeze(self, names: Iterable[str]) -> None:
        """Exclude these parameters, and only these, from all further steps."""
        ...


@runtime_checkable
class SharesSteps(Protocol):
    """A learner whose steps several ranks may take together (:mod:`rlcomp.parallel`)."""

    def update(self, rows: TensorDict) -> bool:
        """Take the optimiser steps of a batch on all ranks; return True if one was taken."""
        ...

    def moments(self) -> dict[str, Any]:
        """Return the state of the optimiser, on all ranks."""
        ...


@runtime_checkable
class ResumableEnvironment(Protocol):
    """An environment in a checkpoint that continues exactly from its saved state."""

    def present(self) -> TensorDict:
        """Return the current observation: the input of the next step."""
        ...


S = TypeVar("S")


class Searchable(Protocol[S]):
    """A problem for a tree search; states are immutable, so that a search may revisit them."""

    def start(self, example: Example) -> S:
        """Return the initial state of an example."""
        ...

    def apply(self, state: S, action: str) -> S | str:
        """Return the state after an action, or a text with the error of an invalid action."""
        ...

    def solved(self, state: S) -> bool:
        """Return True if the state is a goal."""
        ...

    def text(self, state: S) -> str:
        """Return the policy's input; equal texts are equal states."""
        ...


@runtime_checkable
class Suite(Protocol):
    """Attributes of an evaluator of answers such as ``evaluator=accuracy``.

    Attributes:
        examples: the problems, the same for the same seed.
        levels: level of each problem, empty if there are none.
        policy: answers the problems.
        reward: judges the answers; writes ``correct`` and ``reward_valid``.
        prompt: converts a problem to tokens.
        max_new_tokens: longest answer, in tokens.
        samples_per_prompt: sampled answers to each problem.
        seed: seed of the evaluator's draws.
    """

    examples: list[Example]
    levels: list[str]
    policy: Policy
    reward: Component
    prompt: PromptFormat
    max_new_tokens: int
    samples_per_prompt: int
    seed: int


@runtime_checkable
class SupportsTrace(Protocol):
    """A learner whose steps can be repeated (``rlcomp-replay``)."""

    def trace(self, batch: TensorDict) -> dict[str, str | None]:
        """Repeat an optimiser step without taking it.

        Args:
            batch: the rows of the step.

        Returns:
            For each stage of the step, in order, a description of its first value that is not
            finite; None if all values are finite.
        """
        ...


class TextGenerator(Protocol):
    """Model that answers texts with texts, such as a judge that writes a rationale."""

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        """Return one text for each prompt."""
        ...
