"""Value estimates and targets."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.policy import SupportsTurns
from rlcomp.interfaces.reward import without_failed
from rlcomp.metrics import record, record_total, recording
from rlcomp.model.critics import ActorCritic, Critic
from rlcomp.model.language_critic import LanguageCritic
from rlcomp.pareto.objective_critic import ObjectiveCritic
from rlcomp.seed import new_generator
from rlcomp.text.answers import continue_rows, state_ids
from rlcomp.text.rows import rows_from_ids


class ValueEstimate(Component):
    """Stage that writes the critic's values before the update.

    The advantages and the clip of the value loss use them. Reads ``tokens``, ``attention_mask``,
    ``response_mask`` ``[B, T]``.

    Writes ``value`` and ``old_value`` ``[B, T]``, in reward units, without gradient; 0 outside
    ``response_mask``. A learner overwrites ``value`` with the value of its own forward pass.

    Records ``value/mean``.

    Args:
        critic: a separate model, or a policy with a value head.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, algorithm 1.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("value", "old_value")

    def __init__(self, *, critic: ActorCritic | Critic | LanguageCritic) -> None:
        super().__init__()
        self.critic = critic

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the values."""
        with torch.no_grad():
            value = self.critic.values(batch)
        record("value/mean", value, where=batch["response_mask"])
        batch["value"], batch["old_value"] = value, value.clone()
        return batch


class LanguageTargets(Component):
    """Stage that writes targets of a language value function (Monte-Carlo or TD) to imitate.

    Each response is cut before a random token, and the policy continues it ``continuations`` times:
    ``y = (1 / K) sum_k R_k``. With a ``horizon``, a continuation that has not ended has the
    critic's value of its last state as ``R_k`` (temporal difference). The new response of the row
    is the word whose value is nearest to ``y``, and EOS.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]`` and the prompt's entries.
    Writes a new batch of ``tokens`` (state, word, EOS), ``attention_mask`` and ``response_mask``
    (word and EOS). A row is dropped if none of its continuations has a valid reward.

    Records ``value_targets/mean`` (of ``y``), ``value_targets/tokens`` (sampled) and
    ``value_targets/invalid_fraction``.

    Args:
        policy: the policy, which samples the continuations.
        critic: the critic, for its words and for the values of unfinished continuations.
        reward: the reward of a whole response.
        max_new_tokens: longest response, in tokens.
        continuations: K, number of continuations of each state.
        horizon: largest number of tokens of a continuation; None: no limit besides
            ``max_new_tokens``.

    Raises:
        ConfigError: the reward compares the answers of a group.
        DataError: (when called) no continuation has a valid reward.

    Source:
        Feng et al. 2024, arXiv:2411.14251, section 4: language Monte-Carlo and language TD. There a
        model writes the aggregate; here it is a mean, rounded to a word.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("tokens", "attention_mask", "response_mask")
    runs = ("reward",)
    contained = True
    supplies = ("tokens", "attention_mask", "response_mask", "response", "truncated", "group_id")
    fresh = True

    def __init__(
        self,
        *,
        policy: SupportsTurns,
        critic: LanguageCritic,
        reward: Component,
        max_new_tokens: PositiveInt,
        continuations: PositiveInt = 4,
        horizon: PositiveInt | None = None,
    ) -> None:
        super().__init__()
        if reward.min_group_size > 1:
            raise ConfigError(
                f"value_targets.reward is a {type(reward).__name__}, which compares the answers of "
                "a group: set value_targets.reward to a verifier"
            )
        self.policy = policy
        self.critic = critic
        self.reward = reward
        self.max_new_tokens = max_new_tokens
        self.continuations = continuations
        self.horizon = horizon
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Continue each row from a random token and write the word of its mean reward."""
        lengths = batch["response_mask"].sum(1).cpu()
        cuts = (torch.rand(len(lengths), generator=self.generator) * lengths).long()
        target = self._targets(batch, cuts)
        known = target.isfinite()
        if not bool(known.any()):
            raise DataError(
                "no continuation has a valid reward: see the first failure in reward_check"
            )
        record("value_targets/mean", target, where=known)
        prompts, prefixes = state_ids(batch, cuts)
        words = [self.critic.nearest(float(y)) for y in target[known]]
        rows = known.nonzero().flatten().tolist()
        eos = self.policy.tokenizer.eos_token_id
        return rows_from_ids(
            self.policy.tokenizer,
            [prompts[row] + prefixes[row] for row in rows],
            [[*self.critic.word_ids[word], eos] for word in words],
        ).to(self.policy.device)

    def _targets(self, batch: TensorDict, cuts: Tensor) -> Tensor:
        """Return the mean outcome of each row's continuations, ``[B]``; NaN if none is valid."""
        rows = continue_rows(
            self.policy,
            batch,
            cuts,
            continuations=self.continuations,
            max_new_tokens=self.max_new_tokens,
            horizon=self.horizon,
            generator=self.generator,
        )
        sampled = int(rows["response_mask"].sum()) - self.continuations * int(cuts.sum())
        record_total("value_targets/tokens", float(sampled))
        with recording():  # these metrics of the reward would mix with the metrics of responses
            judged = self.reward(rows.copy())
        outcome, valid = judged["reward"], without_failed(rows, judged["reward_valid"])
        length = rows["response_mask"].sum(1)
        unfinished = rows["truncated"] & (length < self.max_new_tokens)
        if bool(unfinished.any()):
            outcome = torch.where(unfinished, self._last_values(rows), outcome)
            valid = valid | unfinished
        record("value_targets/invalid_fraction", (~valid).float())
        shape = (len(cuts), self.continuations)
        total = torch.where(valid, outcome, 0.0).view(shape).sum(1)
        return (total / valid.view(shape).sum(1)).cpu()

    def _last_values(self, rows: TensorDict) -> Tensor:
        """Return the critic's value of the state after each row's last token, ``[B]``."""
        pad = torch.zeros_like(rows["tokens"][:, :1])
        tokens = torch.cat([rows["tokens"], pad], 1)
        length = rows["attention_mask"].sum(1, keepdim=True)
        position = torch.arange(tokens.shape[1], device=tokens.device)
        # The value of a token is the value of the state before it: append a token to every row.
        extended = TensorDict(
            {
                "tokens": tokens,
                "attention_mask": position <= length,
                "response_mask": position == length,
            },
            batch_size=[len(tokens)],
        )
        return self.critic.values(extended).sum(1)


class ObjectiveValueEstimate(Component):
    """Stage that writes the values of each objective before the update.

    The advantages and the clip of the value loss use them. Reads ``tokens``, ``attention_mask``,
    ``response_mask`` ``[B, T]``, and the names of ``rewards`` if already present.

    Writes ``objective_values`` and ``old_objective_values`` ``[B, T, K]``, in units of the rewards,
    without gradient; 0 outside ``response_mask``.

    Records ``value/mean/<objective>``.

    Args:
        critic: a critic with a value for each objective.

    Raises:
        ConfigError: the critic and ``rewards`` differ in their objectives or in the order.
    """

    keys = {
        "objective_values": ("B T K", "float", "value of each objective, in the order of rewards"),
        "old_objective_values": ("B T K", "float", "objective_values before the update"),
    }
    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("objective_values", "old_objective_values")
    optional = ("rewards",)

    def __init__(self, *, critic: ObjectiveCritic) -> None:
        super().__init__()
        self.critic = critic

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the values."""
        self._check_names(batch)
        with torch.no_grad():
            values = self.critic.values(batch)
        for k, name in enumerate(self.critic.names):
            record(f"value/mean/{name}", values[..., k], where=batch["response_mask"])
        batch["objective_values"], batch["old_objective_values"] = values, values.clone()
        return batch

    def _check_names(self, batch: TensorDict) -> None:
        names = tuple(batch["rewards"].keys()) if "rewards" in batch.keys() else self.critic.names
        if names != self.critic.names:
            raise ConfigError(
                f"the critic has values for {', '.join(self.critic.names)}, but 'rewards' holds "
                f"{', '.join(names)}: critic.objectives must be the stage that writes 'rewards'"
            )
