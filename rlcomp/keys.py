"""The batch: every key with its shape, dtype and meaning (docs: the key schema).

:data:`SCHEMA` is for rows of tokens, :data:`CONTROL` for steps in environments of control. A key of
a single method is declared by the method's parts (:func:`rlcomp.key_declarations.declare_keys`).

Dimensions of rows of tokens: ``B`` rows (prompts x group_size), ``T`` tokens of prompt and
response, ``W`` bytes of the longest text, ``K`` objectives or labels, ``V`` tokens of the
vocabulary, ``L`` layers with experts, ``E`` experts per token. Dimensions of control: ``N`` copies
of the environment or rows of the replay, ``D`` numbers of an observation, ``A`` of an action, ``G``
of a goal. Position ``t`` of any ``[B, T]`` tensor refers to ``tokens[:, t]``.

This module does not import torch: ``rlcomp-describe`` reads the schema before any heavy import.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlcomp.errors import ConfigError, nearest

Key = str
OwnKey = tuple[str, str, str] | tuple[str, str, str, Mapping[str, Any]]

_F, _I, _M, _U = "float", "int64", "bool", "uint8"
# 0xFF never occurs in UTF-8: it ends a text and fills the rest of its row.
TEXT_END = 255


@dataclass(frozen=True)
class Spec:
    """Specification of one entry of a batch.

    Attributes:
        shape: dimensions, separated by spaces; the first is ``B``, or ``N`` in control.
        dtype: ``float``, ``int64``, ``bool``, ``uint8`` or ``nested`` (a mapping of named parts).
        meaning: description in one line.
        pad: value of added columns when rows are widened. None: 255 for texts, -1 (no id) for ids
            with ``offset``, 0 for other entries.
        offset: name of the family of ids that the entry belongs to; empty for other entries. When
            batches are joined, all ids of a family are shifted together, so that ids of different
            batches differ. Negative values mean "no id" and are not shifted.
        per_prompt: True if the entry belongs to the prompt; each answer to the prompt gets a copy.
        absent: value of missing numbers or texts. For a nested entry: the value of a part in the
            rows of a batch that lacks this part, a text or NaN; empty if all batches must have the
            same parts. For a float entry of SCHEMA: NaN if numbers may be unknown.
        example: kind of values that :mod:`rlcomp.testing` generates: ``log_prob``,
            ``probability``, ``positive``, ``ratio`` (of tokens), ``first_of_group`` or
            ``same_in_all_rows`` (of rows); empty if shape and dtype suffice.
    """

    shape: str
    dtype: str
    meaning: str
    pad: int | None = None
    offset: str = ""
    per_prompt: bool = False
    absent: str | float = ""
    example: str = ""

    @property
    def per_token(self) -> bool:
        """Return True if the entry has one value per token."""
        return self.shape == "B T"

    @property
    def along_tokens(self) -> bool:
        """Return True if the second dimension counts tokens."""
        return self.shape.startswith("B T")

    @property
    def text(self) -> bool:
        """Return True if the entry holds texts."""
        return self.shape == "B W" and self.dtype == _U

    @property
    def fill(self) -> int:
        """Return the value of added columns when rows are widened."""
        if self.pad is not None:
            return self.pad
        if self.offset and len(self.shape.split()) > 1:
            return -1
        return TEXT_END if self.text else 0


SCHEMA: dict[Key, Spec] = {
    "tokens": Spec("B T", _I, "prompt, response, then padding"),
    "attention_mask": Spec("B T", _M, "tokens, not padding"),
    "response_mask": Spec("B T", _M, "tokens that the policy sampled and trains on, EOS included"),
    "group_id": Spec("B", _I, "index of the prompt that the row answers", offset="group_id"),
    "prompt": Spec("B W", _U, "prompt text (rlcomp.batch.decode_texts)", per_prompt=True),
    "answer": Spec("B W", _U, "the task's gold answer, text", per_prompt=True),
    "answer_ends": Spec(
        "B W", _M, "the byte ends a part of the answer that counts as an answer", per_prompt=True
    ),
    "example_id": Spec("B", _I, "index of the prompt's example in the task", per_prompt=True),
    "columns": Spec(
        "B",
        "nested",
        "further data of the example: texts (JSON) by name",
        per_prompt=True,
        absent="null",
    ),
    "kl_weight": Spec("B", _F, "weight of the row's KL penalty, by its domain", example="positive"),
    "policy_prompt": Spec(
        "B W", _U, "prompt of a conditioned policy: preference and prompt", per_prompt=True
    ),
    "teacher_prompt": Spec(
        "B W", _U, "prompt of a teacher, with more information than the policy's", per_prompt=True
    ),
    "preference": Spec(
        "B K",
        _F,
        "weights of the objectives for a conditioned policy; a row sums to 1",
        per_prompt=True,
    ),
    "response": Spec("B W", _U, "decoded response text, special tokens removed"),
    "rollout_log_probs": Spec("B T", _F, "log-probs recorded while sampling", example="log_prob"),
    "old_log_probs": Spec(
        "B T", _F, "log-probs of pi_old, the policy before the update", example="log_prob"
    ),
    "ref_log_probs": Spec(
        "B T", _F, "log-probs of pi_ref, the reference policy", example="log_prob"
    ),
    "log_probs": Spec(
        "B T", _F, "log-probs of pi_theta, the current policy, with gradient", example="log_prob"
    ),
    "entropy": Spec("B T", _F, "entropy of the current policy, nats", example="positive"),
    "value": Spec("B T", _F, "V_t: value of the state before the token"),
    "old_value": Spec("B T", _F, "V_old_t: the same before the update"),
    "returns": Spec("B T", _F, "G_t: return from the token on, the critic's target"),
    "advantage": Spec("B T", _F, "A_t: advantage, detached"),
    "ratio": Spec("B T", _F, "r_t: pi_theta / pi_old, of tokens or sequences", example="ratio"),
    "surrogate": Spec("B T", _F, "l_t: per-token surrogate, to be maximised"),
    "token_weight": Spec(
        "B T",
        _F,
        "c_t: importance weights and filters, multiplied into the surrogate",
        example="positive",
    ),
    "loss_weight": Spec(
        "B T",
        _F,
        "w_t: weight of the token in the loss of the whole optimiser step",
        example="positive",
    ),
    "row_weight": Spec(
        "B", _F, "weight of the row's unit (pair) in the loss of the whole step", example="positive"
    ),
    "reward": Spec("B", _F, "scalar outcome"),
    "rewards": Spec(
        "B",
        "nested",
        "each named part of the reward, [B] by name; NaN if missing",
        absent=math.nan,
    ),
    "advantages": Spec(
        "B T K", _F, "detached advantage of each objective, in the order of rewards"
    ),
    "token_reward": Spec("B T", _F, "dense rewards, beside the outcome"),
    "step_end": Spec("B T", _M, "the token ends a rewarded step"),
    "truncated": Spec("B", _M, "length limit hit before EOS"),
    "correct": Spec("B", _M, "the verifier accepts the response"),
    "reward_valid": Spec("B", _M, "the reward could be computed"),
    "invalid_reason": Spec("B W", _U, "reason of a missing reward; empty if there is none"),
    "chosen": Spec("B", _M, "chosen side of a pair"),
    "model_score": Spec("B", _F, "r(x, y): score of the answer by a reward model, with gradient"),
    "label_logits": Spec("B K", _F, "log-odds of each label of the text, with gradient"),
    "labels": Spec(
        "B K", _F, "probability of each label of the text; NaN where unknown", absent=math.nan
    ),
    "policy_version": Spec("B T", _I, "version of the weights that sampled the token"),
    "too_old": Spec("B T", _M, "the weights that sampled the token are too old for the loss"),
    "log_distribution": Spec("B T V", _F, "log-probs of all tokens, current policy, with gradient"),
    "ref_log_distribution": Spec("B T V", _F, "log-probs of all tokens, reference policy"),
    "trajectory_id": Spec("B", _I, "index of the row's episode", offset="trajectory_id"),
    "seat": Spec("B", _I, "player of a match that wrote the row, from 0"),
    "match_id": Spec("B", _I, "index of the row's match", offset="match_id"),
    "turn_id": Spec(
        "B T", _I, "turn of the episode that sampled the token, from 0; else -1", pad=-1
    ),
    "turn_reward": Spec("B T", _F, "the environment's reward of a turn, at its last sampled token"),
    "anchor_id": Spec("B T", _I, "index of the state before the token's turn; -1: unknown", pad=-1),
    "turn_entropy": Spec(
        "B T",
        _F,
        "entropy / log V of the model where a turn begins, at its first token; 0 elsewhere",
    ),
    "branch_depth": Spec(
        "B", _I, "leading tokens that the row shares with its branch_parent; 0: none"
    ),
    "branch_parent": Spec(
        "B",
        _I,
        "trajectory_id of the row from which this row branches; -1: none",
        offset="trajectory_id",
    ),
    "branch_share": Spec(
        "B",
        _F,
        "share of an independent episode: product of 1 / continuations",
        example="positive",
    ),
    "transcript": Spec("B W", _U, "text after the prompt, observations included"),
    "episode_error": Spec("B W", _U, "reason of the environment's failure; empty if there is none"),
    "facts": Spec(
        "B",
        "nested",
        "numbers of the environment about the episode, [B] by name; NaN if missing",
        absent=math.nan,
    ),
    "sampling_mask": Spec("B T V/8", _U, "tokens of the truncated sampling set, one bit each"),
    "routed_experts": Spec(
        "B T L E",
        _U,
        "the E experts of each of L layers for the token; 255: unknown",
        pad=255,
    ),
}
# Keys of control, under torchrl's names; a dot separates the levels of a nested key. A batch of
# whole trajectories has the shape [N, T]: each entry then has one value per step.
CONTROL: dict[Key, Spec] = {
    "observation": Spec("N D", _F, "observation of the policy"),
    "action": Spec("N A", _F, "action; discrete actions are int64 [N]"),
    "action_log_prob": Spec("N", _F, "log-prob of the action under the policy that drew it"),
    "achieved_goal": Spec("N G", _F, "goal that the state before the action achieves"),
    "desired_goal": Spec("N G", _F, "goal to reach"),
    "expert_action": Spec("N A", _F, "the expert's action in the state"),
    "intervened": Spec("N 1", _M, "the action is an intervener's, not the policy's"),
    "trajectory": Spec("N 1", _I, "index of the step's episode"),
    "step_count": Spec("N 1", _I, "steps of the episode before this one"),
    "index": Spec("N", _I, "index of the row in the replay"),
    "priority_weight": Spec("N", _F, "importance weight of a row drawn by priority"),
    "value_target": Spec("N 1", _F, "target of the state's value"),
    "next.observation": Spec("N D", _F, "observation after the step"),
    "next.desired_goal": Spec("N G", _F, "goal to reach after the step"),
    "next.reward": Spec("N 1", _F, "reward of the step"),
    "next.done": Spec("N 1", _M, "the episode is over: terminated or truncated"),
    "next.terminated": Spec("N 1", _M, "the episode ended in a state without a future"),
    "next.truncated": Spec("N 1", _M, "the episode was cut; its last state has a future"),
    "next.step_count": Spec("N 1", _I, "steps of the episode, including this one"),
    "next.episode_reward": Spec("N 1", _F, "sum of the episode's rewards so far"),
    "next.achieved_goal": Spec("N G", _F, "goal that the state after the action achieves"),
}
# Keys that components declare in addition to the schema, by key and by declaring class.
DECLARED_KEYS: dict[Key, dict[str, Spec]] = {}


def lookup(key: Key) -> Spec | None:
    """Return the specification of a key of SCHEMA or of a component; None for others (CONTROL)."""
    return SCHEMA.get(key) or next(iter(DECLARED_KEYS.get(key, {}).values()), None)


def nested(key: Key) -> str | tuple[str, ...]:
    """Return a key in the form of TensorDict: a nested key with dots becomes a tuple.

    Examples:
        >>> nested("next.reward"), nested("reward")
        (('next', 'reward'), 'reward')
    """
    return tuple(key.split(".")) if "." in key else key


def dotted(key: str | tuple[str, ...]) -> Key:
    """Return a key in the form of a component's declaration: a tuple becomes a text with dots.

    Examples:
        >>> dotted(("next", "reward"))
        'next.reward'
    """
    return key if isinstance(key, str) else ".".join(key)


def spec(key: Key) -> Spec:
    """Return the specification of a key of SCHEMA or of a component, as :func:`lookup`.

    Raises:
        ConfigError: the key is unknown; the message suggests the most similar key.

    Examples:
        >>> spec("advantage").shape
        'B T'
    """
    entry = lookup(key)
    if entry is None:
        raise ConfigError(
            f"{key!r} is not a key of the batch{nearest(key, {*SCHEMA, *DECLARED_KEYS})}"
        )
    return entry


def prompt_keys() -> frozenset[Key]:
    """Return every key that belongs to a prompt, including those declared by components."""
    known = (*SCHEMA, *DECLARED_KEYS)
    return frozenset(key for key in known if (entry := lookup(key)) and entry.per_prompt)
