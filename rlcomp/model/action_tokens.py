"""Policy for control whose actions are tokens (VLA style)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch
from annotated_types import Ge
from tensordict import TensorDict
from torch import Tensor, nn
from torchrl.envs import EnvBase
from torchrl.modules import MLP

from rlcomp.arguments import MinLen, NonEmptyText, PositiveInt
from rlcomp.component import Component, is_loss_input
from rlcomp.functional.continuous_action import bin_index, bin_value
from rlcomp.functional.reduction import masked
from rlcomp.model.control import bounded_actions, observed_size

Bins = Annotated[int, Ge(2)]


class ActionTokenPolicy(Component):
    """Policy that draws each number of an action as one of ``n`` bins, a token of the row.

    A row is an episode of ``H`` steps; each step is ``D`` tokens of the observation and ``A`` of
    the action, so that ``T = H (D + A)``. Token 0 is padding; then follow the bins of observations,
    then those of actions. Given the observation, the ``A`` numbers of an action are independent:
    ``log pi(a|s)`` is the sum of the log-probs of their bins.

    Reads ``tokens``, ``response_mask`` ``[B, T]`` (true on the tokens of actions). Writes
    ``log_probs`` and ``entropy`` ``[B, T]``, nats, like a language model; in a learner ``entropy``
    only if a loss reads it. The losses, references and KL of language models work unchanged.

    Args:
        environment: defines the observations, and the bounds of its actions.
        inputs: the observed vectors to read.
        num_cells: width of each hidden layer.
        action_bins: ``n``, for each number of an action.
        observation_bins: number of bins for each number of the observation.
        low: lowest bin of every observed number; a lower number counts as ``low``.
        high: highest bin of every observed number; a higher number counts as ``high``.

    Raises:
        ConfigError: the actions are not bounded vectors, or an input is no vector.

    Source:
        Brohan et al. 2023, arXiv:2307.15818 (RT-2), section 3.2: actions as tokens.
    """

    reads = ("tokens", "response_mask")
    writes = ("log_probs", "entropy")

    updates: Tensor
    action_low: Tensor
    action_high: Tensor

    def __init__(
        self,
        *,
        environment: EnvBase,
        inputs: Annotated[list[NonEmptyText], MinLen(1)],
        num_cells: list[PositiveInt],
        action_bins: Bins = 7,
        observation_bins: Bins = 256,
        low: float = -1.0,
        high: float = 1.0,
    ) -> None:
        super().__init__()
        spec = bounded_actions(environment)
        self.inputs, self.low, self.high = inputs, low, high
        self.observation_size = sum(observed_size(environment, key) for key in inputs)
        self.action_size = int(spec.shape[-1])
        self.action_bins, self.observation_bins = action_bins, observation_bins
        self.network = MLP(
            in_features=self.observation_size,
            out_features=self.action_size * action_bins,
            num_cells=num_cells,
            activation_class=nn.Tanh,
        )
        self.register_buffer("action_low", spec.space.low.clone(), persistent=False)
        self.register_buffer("action_high", spec.space.high.clone(), persistent=False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @property
    def width(self) -> int:
        """Number of tokens of a step: ``D + A``."""
        return self.observation_size + self.action_size

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.updates.device

    @property
    def version(self) -> int:
        """Number of updates of the weights."""
        return int(self.updates)

    def updated(self) -> None:
        """Count an update."""
        self.updates += 1

    def weights(self) -> Mapping[str, Tensor]:
        """Return the weights of the network, by name."""
        return dict(self.network.named_parameters())

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the tokens of actions, with gradient."""
        distribution = self._log_distribution(batch, None)
        batch["log_probs"] = self._action_log_probs(batch, distribution)
        if is_loss_input("entropy"):
            entropy = -(distribution.exp() * distribution).sum(-1)
            batch["entropy"] = masked(self._to_rows(entropy), batch["response_mask"])
        return batch

    def log_probs(self, batch: TensorDict, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Compute log-probs of action tokens, ``[B, T]``, nats; 0 outside ``response_mask``."""
        return self._action_log_probs(batch, self._log_distribution(batch, weights))

    @torch.no_grad()
    def act(
        self, observation: TensorDict, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Return tokens ``[N, D + A]`` and log-probs ``[N, A]`` of a step.

        Without a generator, actions are the most likely bins.
        """
        tokens = self.encode_observation(observation)
        distribution = self._bin_log_probs(tokens, None)
        if generator is None:
            bins = distribution.argmax(-1)
        else:
            flat = distribution.exp().flatten(0, 1)
            bins = torch.multinomial(flat, 1, generator=generator).view(distribution.shape[:2])
        log_probs = distribution.gather(-1, bins[..., None])[..., 0]
        return torch.cat([tokens, self._first_action + bins], dim=1), log_probs

    def encode_observation(self, observation: TensorDict) -> Tensor:
        """Return the tokens of the observation, ``[N, D]``."""
        values = torch.cat([observation[key] for key in self.inputs], dim=-1)
        low, high = values.new_tensor(self.low), values.new_tensor(self.high)
        return 1 + bin_index(values, low, high, self.observation_bins)

    def encode_action(self, action: Tensor) -> Tensor:
        """Return the tokens of the bins nearest to an action ``[N, A]``."""
        bins = bin_index(action, self.action_low, self.action_high, self.action_bins)
        return self._first_action + bins

    def decode_action(self, tokens: Tensor) -> Tensor:
        """Return the action ``[N, A]`` of the tokens ``[N, D + A]`` of a step."""
        bins = tokens[:, self.observation_size :] - self._first_action
        return bin_value(bins, self.action_low, self.action_high, self.action_bins)

    @property
    def _first_action(self) -> int:
        """Token of the first bin of actions."""
        return 1 + self.observation_bins

    def _bin_log_probs(self, tokens: Tensor, weights: Mapping[str, Tensor] | None) -> Tensor:
        """Compute log-probs of all bins ``[M, A, n]`` given observation tokens ``[M, D]``."""
        low, high = (torch.tensor(bound) for bound in (self.low, self.high))
        values = bin_value((tokens - 1).clamp(min=0), low, high, self.observation_bins)
        parameters = self.weights() if weights is None else weights
        logits = torch.func.functional_call(self.network, dict(parameters), (values,))
        split = logits.view(len(tokens), self.action_size, self.action_bins)
        log_probs: Tensor = split.log_softmax(-1)
        return log_probs

    def _step_tokens(self, batch: TensorDict) -> Tensor:
        """Return the tokens of each step, ``[B H, D + A]``."""
        tokens: Tensor = batch["tokens"]
        return tokens.reshape(-1, self.width)

    def _log_distribution(self, batch: TensorDict, weights: Mapping[str, Tensor] | None) -> Tensor:
        """Compute log-probs of all bins at every step, ``[B, H, A, n]``."""
        log_probs = self._bin_log_probs(
            self._step_tokens(batch)[:, : self.observation_size], weights
        )
        return log_probs.view(len(batch["tokens"]), -1, *log_probs.shape[1:])

    def _action_log_probs(self, batch: TensorDict, distribution: Tensor) -> Tensor:
        """Return the log-probs of the batch's actions, ``[B, T]``; 0 outside ``response_mask``."""
        bins = self._step_tokens(batch)[:, self.observation_size :] - self._first_action
        # Padding gets an arbitrary bin and is masked.
        bins = bins.clamp(0, self.action_bins - 1).view(distribution.shape[:-1])
        log_probs = distribution.gather(-1, bins[..., None])[..., 0]
        return masked(self._to_rows(log_probs), batch["response_mask"])

    def _to_rows(self, values: Tensor) -> Tensor:
        """Scatter values of action tokens ``[B, H, A]`` to the rows, ``[B, T]``."""
        zeros = values.new_zeros(*values.shape[:2], self.observation_size)
        return torch.cat([zeros, values], dim=2).flatten(1)
