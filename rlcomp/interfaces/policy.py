"""Policy interface: sample from token ids, score rows, and record the version of the weights.

Collectors, references, rewards, evaluators and learners depend on this interface, not on a class:
:class:`rlcomp.model.language_model.LanguageModel` is one policy, a table of logits is another. Text
is handled by an adapter (:mod:`rlcomp.text.answers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.session import SamplingSession
from rlcomp.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@runtime_checkable
class ScoresRows(Protocol):
    """A model that computes the log-probs of rows; a position of a row is a token or a step.

    References, learners and old log-probs use this interface. :class:`Policy` scores the tokens of
    rows, :class:`rlcomp.model.flow_policy.FlowPolicy` scores the steps of a flow.
    """

    @property
    def device(self) -> torch.device:
        """Return the device that rows must be on."""
        ...

    @property
    def version(self) -> int:
        """Return the number of updates of its weights, which ``policy_version`` records.

        Each call of the learner counts once, with any number of minibatches and epochs. A
        checkpoint must contain the number, in a buffer or in ``run_state``.
        """
        ...

    def updated(self) -> None:
        """Increase :attr:`version` by 1; a learner calls this once after it changed the weights."""
        ...

    def weights(self) -> Mapping[str, Tensor]:
        """Return the trainable tensors by name, tied ones once; references copy them."""
        ...

    def __call__(self, batch: TensorDict) -> TensorDict:
        """Score rows as a stage: write ``log_probs`` and ``entropy`` ``[B, T]``, with gradient.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``.
        """
        ...

    def log_probs(self, batch: TensorDict, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Compute the log-prob of the sample at each position of the response.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``.
            weights: weights to score with, by the names of :meth:`weights`; None: the model's.

        Returns:
            Shape ``[B, T]``, nats, 0 outside ``response_mask``.
        """
        ...


@runtime_checkable
class Policy(ScoresRows, Protocol):
    """``pi(token | tokens before it)`` over rows of token ids.

    Attributes:
        tokenizer: the meaning of the token ids; only text adapters use it.
        decoding: the distribution of the policy's samples and scores.
    """

    tokenizer: PreTrainedTokenizerBase
    decoding: Decoding

    @property
    def context_length(self) -> int | None:
        """Return the largest number of tokens of prompt and response; None without a limit."""
        ...

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        group_size: int,
        max_new_tokens: int,
        decoding: Decoding | None = None,
        suppressed_tokens: Sequence[int] = (),
        generator: torch.Generator,
    ) -> TensorDict:
        """Sample ``group_size`` responses to every prompt.

        Args:
            prompts: ``P`` lists of token ids, none empty.
            group_size: responses per prompt; the responses to prompt 0 come first.
            max_new_tokens: largest number of tokens of a response, EOS included.
            decoding: the distribution to draw from; None: the policy's own.
            suppressed_tokens: ids that are not drawn.
            generator: generator of the draws, on the CPU.

        Returns:
            ``B = P * group_size`` rows: ``tokens``, ``attention_mask``, ``response_mask``,
            ``rollout_log_probs``, ``policy_version`` ``[B, T]``; ``group_id``, ``truncated``
            ``[B]``; ``sampling_mask`` ``[B, T, ceil(V / 8)]``, a bit for each token that passed the
            filters, if ``decoding`` replays (:func:`rlcomp.text.rows.rollout_rows` makes them).
        """
        ...

    def log_probs(
        self,
        batch: TensorDict,
        weights: Mapping[str, Tensor] | None = None,
        *,
        decoding: Decoding | None = None,
    ) -> Tensor:
        """Compute ``log p(tokens[t] | tokens[<t])`` of each response token.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``.
            weights: weights to score with, by the names of :meth:`weights`; None: the policy's.
            decoding: the distribution; None: the policy's own.

        Returns:
            Shape ``[B, T]``, nats, 0 outside ``response_mask``.
        """
        ...


@runtime_checkable
class SupportsTurns(Policy, Protocol):
    """A policy that continues after further input: episodes with an environment."""

    def session(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        decoding: Decoding | None = None,
        generator: torch.Generator,
    ) -> SamplingSession:
        """Return a session with a row for each prompt.

        The caller samples the rows, extends them with input, and samples again.
        """
        ...


@runtime_checkable
class SupportsAgentCalls(SupportsTurns, Protocol):
    """A policy that answers calls of outside agents, each with random numbers of its own."""

    def session(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        decoding: Decoding | None = None,
        generator: torch.Generator,
        seeds: Sequence[int] | None = None,
    ) -> SamplingSession:
        """Return a session as in :class:`SupportsTurns`.

        Args:
            prompts: lists of token ids.
            decoding: the distribution to draw from; None: the policy's own.
            generator: generator of the draws, on the CPU.
            seeds: a seed for each row's draws; the row then depends neither on the generator nor on
                other rows.
        """
        ...


@runtime_checkable
class FullDistributionPolicy(Policy, Protocol):
    """A policy that also gives the probabilities of all tokens."""

    def log_distribution(
        self, batch: TensorDict, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Compute log-probs of all tokens at each response token: ``[B, T, V]``, nats."""
        ...

    def squared_probs(self, batch: TensorDict) -> Tensor:
        """Compute ``sum_v pi(v)^2`` at each response token: ``[B, T]``, without gradient."""
        ...


@runtime_checkable
class StopsAtTokens(Protocol):
    """A policy whose responses may end at tokens other than EOS.

    Attributes:
        stops: the ids that end a response, EOS among them.
    """

    stops: Sequence[int]


@runtime_checkable
class PacksRows(Protocol):
    """A model whose forward pass may read rows without their padding, and equal prompts once."""

    @property
    def packs(self) -> bool:
        """Return True if the model packs rows."""
        ...


@runtime_checkable
class RoutesTokens(Policy, Protocol):
    """A policy that may be a mixture of experts with recorded routes."""

    def score_and_route(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Compute log-probs ``[B, T]`` and ``routed_experts`` ``[B, T, L, E]`` in one pass.

        ``L`` is the number of layers with experts, ``E`` the number of experts of a token.
        """
        ...


@runtime_checkable
class HasSamplerEngine(Protocol):
    """A policy that another engine may sample for.

    Attributes:
        sampler_engine: the other engine; None: the policy's own loop samples.
    """

    sampler_engine: object | None


def check_turns(policy: Policy) -> None:
    """Refuse a policy that cannot continue after further input.

    Raises:
        ConfigError: the policy has no method ``session``, its engine samples whole responses only,
            or ``decoding.keep_routing`` is ``rollout``.
    """
    if not callable(getattr(policy, "session", None)):
        raise ConfigError(
            f"policy is a {type(policy).__name__}, which cannot continue after further input: "
            "define a method session, as in rlcomp.model.language_model.LanguageModel"
        )
    engine = policy.sampler_engine if isinstance(policy, HasSamplerEngine) else None
    if engine is not None:
        raise ConfigError(
            f"{type(engine).__name__} samples whole responses only, but an environment, a tool or "
            "an agent of this run answers between a policy's turns: use sampler_engine=own"
        )
    if policy.decoding.keep_routing == "rollout":
        raise ConfigError(
            "decoding.keep_routing is rollout, but routes of several turns are not recorded: "
            "use keep_routing=proximal with old_log_probs=recomputed"
        )
