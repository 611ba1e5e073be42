"""The batch: every key with its shape, dtype and meaning (docs: the key schema).

:data:`SCHEMA` is for rows of tokens, :data:`CONTROL` for steps in environments of control.

``B`` rows (= prompts x group_size), ``T`` tokens of prompt and response, ``W`` bytes of the longest
text, ``K`` objectives. Position ``t`` of any ``[B, T]`` tensor refers to ``tokens[:, t]``. A key of
a single method is declared by the method's parts (:func:`declare_keys`). This module does not
import
torch: ``rlcomp-describe`` reads the schema before any heavy import.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rlcomp.errors import ConfigError, nearest

Key = str
OwnKey = tuple[str, str, str] | tuple[str, str, str, Mapping[str, Any]]

_F, _I, _M, _U = "float", "int64", "bool", "uint8"
_DTYPES = (_F, _I, _M, _U, "nested")
# Range of paddings of each dtype; a float holds these whole numbers exactly.
_PADS = {_F: (-(2**24), 2**24), _I: (-(2**63), 2**63 - 1), _M: (0, 1), _U: (0, 255)}
_EXAMPLES = (
    "log_prob",
    "probability",
    "positive",
    "ratio",
    "first_of_group",
    "same_in_all_rows",
)
_OF_KEYS = 'a tuple of keys, such as ("reward",)'
_OF_ARGUMENTS = 'a tuple of names of arguments, such as ("stages",)'
# Required type of each declaration of a component.
DECLARED = {
    **dict.fromkeys(("reads", "writes", "optional", "may_write", "step_keys"), _OF_KEYS),
    **dict.fromkeys(("must_reach", "supplies"), _OF_KEYS),
    **dict.fromkeys(("runs", "watches", "earlier"), _OF_ARGUMENTS),
    "keys": "a dict of specifications by key",
    "writes_if": 'a dict of keys by argument, such as {"full": ("ref_log_distribution",)}',
    **dict.fromkeys(("fresh", "keeps_prompt", "contained", "drops_rows"), "True or False"),
    "min_group_size": "a whole number, at least 1",
    **dict.fromkeys(("min_group_size_from", "exclusive", "exclusive_if", "equation"), "a text"),
}
# 0xFF never occurs in UTF-8: it ends a text and fills the rest of its row.
TEXT_END = 255


@dataclass(frozen=True)
class Spec:
    """Specification of one entry of a batch.

    Attributes:
        shape: dimensions, ``B`` first.
        dtype: ``float``, ``int64``, ``bool``, ``uint8`` or ``nested`` (named parts).
        meaning: one line.
        pad: padding of widened rows; by default 255 for texts, -1 for ids (with ``offset``; -1
            stands for no id), else 0.
        offset: the family of its ids. Ids of a family are shifted together when batches are joined,
            so that no two batches share one; negative values stand for no id and stay.
        per_prompt: it belongs to the prompt, and each answer gets a copy.
        absent: for a nested entry, the value in the rows of a batch that lacks a part of another
            batch: a text, or NaN for numbers; by default all batches have the same parts. For a
            float entry, NaN: the value of unknown numbers.
        example: kind of values that :mod:`rlcomp.testing` generates if shape and dtype leave it
            open: ``log_prob``, ``probability``, ``positive``, ``ratio`` (of tokens),
            ``first_of_group``, ``same_in_all_rows`` (of rows).
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
        """Test if the entry has one value per token."""
        return self.shape == "B T"

    @property
    def along_tokens(self) -> bool:
        """Test if the second dimension counts tokens."""
        return self.shape.startswith("B T")

    @property
    def text(self) -> bool:
        """Test if the entry holds texts."""
        return self.shape == "B W" and self.dtype == _U

    @property
    def fill(self) -> int:
        """Return the value that fills the entry where rows are widened."""
        if self.pad is not None:
            return self.pad
        if self.offset and len(self.shape.split()) > 1:
            return -1
        return TEXT_END if self.text else 0


SCHEMA: dict[Key, Spec] = {
    "tokens": Spec("B T", _I, "prompt, response, then padding"),
    "attention_mask": Spec("B T", _M, "not padding"),
    "response_mask": Spec("B T", _M, "tokens the policy sampled and is trained on, EOS included"),
    "group_id": Spec("B", _I, "which prompt the row answers", offset="group_id"),
    "prompt": Spec("B W", _U, "prompt text (rlcomp.batch.decode_texts)", per_prompt=True),
    "answer": Spec("B W", _U, "the task's gold answer, text", per_prompt=True),
    "answer_ends": Spec(
        "B W", _M, "a token of the answer, or all of it, ends with this byte", per_prompt=True
    ),
    "example_id": Spec("B", _I, "which example of the task the prompt is", per_prompt=True),
    "columns": Spec(
        "B",
        "nested",
        "what else the task knows of the example: texts (JSON) by name",
        per_prompt=True,
        absent="null",
    ),
    "kl_weight": Spec("B", _F, "weight of the row's KL penalty, by its domain", example="positive"),
    "policy_prompt": Spec(
        "B W", _U, "prompt of a conditioned policy: preference and prompt", per_prompt=True
    ),
    "teacher_prompt": Spec(
        "B W", _U, "prompt of a teacher that has seen more than the policy", per_prompt=True
    ),
    "preference": Spec(
        "B K",
        _F,
        "objective weights the policy is conditioned on; a row sums to 1",
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
    "step_end": Spec("B T", _M, "the token ends a step that was rewarded"),
    "truncated": Spec("B", _M, "length limit hit before EOS"),
    "correct": Spec("B", _M, "the verifier accepts the response"),
    "reward_valid": Spec("B", _M, "the reward could be computed"),
    "invalid_reason": Spec("B W", _U, "why the reward could not be computed; empty where it could"),
    "chosen": Spec("B", _M, "chosen side of a pair"),
    "model_score": Spec("B", _F, "r(x, y): score of the answer by a reward model, with gradient"),
    "label_logits": Spec("B K", _F, "log-odds of each label of the text, with gradient"),
    "labels": Spec(
        "B K", _F, "probability of each label of the text; NaN where unknown", absent=math.nan
    ),
    "policy_version": Spec("B T", _I, "which weights sampled the token"),
    "too_old": Spec("B T", _M, "the weights that sampled the token are too old to learn from it"),
    "log_distribution": Spec("B T V", _F, "log-probs of all tokens, current policy, with gradient"),
    "ref_log_distribution": Spec("B T V", _F, "log-probs of all tokens, reference policy"),
    "trajectory_id": Spec("B", _I, "which episode the row belongs to", offset="trajectory_id"),
    "seat": Spec("B", _I, "which player of a match wrote the row, from 0"),
    "match_id": Spec("B", _I, "which match the row belongs to", offset="match_id"),
    "turn_id": Spec(
        "B T", _I, "which turn of the episode sampled the token, from 0; else -1", pad=-1
    ),
    "turn_reward": Spec("B T", _F, "the environment's reward of a turn, at its last sampled token"),
    "anchor_id": Spec(
        "B T", _I, "the state in which the token's turn was decided; -1: unknown", pad=-1
    ),
    "turn_entropy": Spec(
        "B T",
        _F,
        "entropy / log V of the model where a turn begins, at its first token; 0 elsewhere",
    ),
    "branch_depth": Spec(
        "B", _I, "leading tokens that the row shares with the one it was branched from; 0: none"
    ),
    "branch_parent": Spec(
        "B",
        _I,
        "trajectory_id of the row it was branched from; -1: none",
        offset="trajectory_id",
    ),
    "branch_share": Spec(
        "B",
        _F,
        "what part of an independent episode the row is: product of 1 / continuations",
        example="positive",
    ),
    "transcript": Spec("B W", _U, "everything behind the prompt, observations included, as text"),
    "episode_error": Spec("B W", _U, "why the environment failed; empty where it did not"),
    "facts": Spec(
        "B",
        "nested",
        "numbers that the environment tells of the episode, [B] by name; NaN if missing",
        absent=math.nan,
    ),
    "sampling_mask": Spec("B T V/8", _U, "tokens truncated sampling kept, one bit each"),
    "routed_experts": Spec(
        "B T L E",
        _U,
        "the E experts of each of L layers that read the token; 255: unknown",
        pad=255,
    ),
}
# Keys of control, under torchrl's names; a nested name is written with a dot. ``N`` is the number
# of copies of an environment, or of rows drawn from a replay. In a batch ``[N, T]`` every entry has
# one value a step.
CONTROL: dict[Key, Spec] = {
    "observation": Spec("N D", _F, "what the policy sees"),
    "action": Spec("N A", _F, "what was done; of numbered actions int64 [N]"),
    "action_log_prob": Spec("N", _F, "log-prob of the action, by the policy that drew it"),
    "achieved_goal": Spec("N G", _F, "the goal that the state before the action would be"),
    "desired_goal": Spec("N G", _F, "the goal that is asked for"),
    "expert_action": Spec("N A", _F, "what the expert would have done here"),
    "intervened": Spec("N 1", _M, "the action is that of an intervener, not the policy's"),
    "trajectory": Spec("N 1", _I, "which episode the step belongs to"),
    "step_count": Spec("N 1", _I, "steps of the episode before this one"),
    "index": Spec("N", _I, "which row of the replay it is"),
    "priority_weight": Spec("N", _F, "importance weight of a row that was drawn by priority"),
    "value_target": Spec("N 1", _F, "return that the value of a state is fitted to"),
    "next.observation": Spec("N D", _F, "what the policy sees after the step"),
    "next.desired_goal": Spec("N G", _F, "the goal that is asked for after the step"),
    "next.reward": Spec("N 1", _F, "reward of the step"),
    "next.done": Spec("N 1", _M, "the episode is over: terminated or truncated"),
    "next.terminated": Spec("N 1", _M, "it ended in a state without a future"),
    "next.truncated": Spec("N 1", _M, "it was cut; its last state has a future"),
    "next.step_count": Spec("N 1", _I, "steps of the episode, this one included"),
    "next.episode_reward": Spec("N 1", _F, "sum of the episode's rewards so far"),
    "next.achieved_goal": Spec("N G", _F, "the goal that the state after the action would be"),
}
# Keys that components declare beside the schema: by key, then by the declaring class.
_OWN: dict[Key, dict[str, Spec]] = {}


def declare_keys(owner: str, keys: Mapping[Key, OwnKey]) -> None:
    """Add the own keys of a class to the known keys.

    Args:
        owner: dotted name of the class; a second declaration replaces its first.
        keys: ``(shape, dtype, meaning)`` by key, with an optional dict of further fields of
            :class:`Spec`.

    Raises:
        ConfigError: a literal is no specification, or contradicts the schema or another class.
    """
    if not isinstance(keys, Mapping):
        raise ConfigError(f"{owner}.keys is {_short(keys)}: must be {DECLARED['keys']}")
    for key, literal in keys.items():
        own = _read(owner, key, literal)
        known = {"the schema": SCHEMA[key]} if key in SCHEMA else _OWN.get(key, {})
        for other, spec in known.items():
            if other != owner and not _agree(own, spec, shared=key in SCHEMA):
                raise ConfigError(
                    f"{owner}.keys: '{key}' is {_shown(own)}, but {other} has it as "
                    f"{_shown(spec)}: declare it the same, or take another name"
                )
        if key not in SCHEMA:
            _OWN.setdefault(key, {})[owner] = own


def check_declared(owner: str, name: str, value: object) -> None:
    """Refuse a declaration of the wrong type.

    Args:
        owner: the class.
        name: one of :data:`DECLARED`.
        value: the declaration of the class.

    Raises:
        ConfigError: the declaration has another type.

    Examples:
        >>> check_declared("Mine", "fresh", 1)
        Traceback (most recent call last):
        ...
        rlcomp.errors.ConfigError: Mine.fresh is 1: must be True or False
    """
    kind = DECLARED[name]
    fits = {
        _OF_KEYS: _texts(value),
        _OF_ARGUMENTS: _texts(value),
        "True or False": isinstance(value, bool),
        "a text": isinstance(value, str),
        DECLARED["keys"]: isinstance(value, Mapping),
        DECLARED["writes_if"]: isinstance(value, Mapping) and all(map(_texts, value.values())),
        DECLARED["min_group_size"]: type(value) is int and value >= 1,
    }
    if not fits[kind]:
        raise ConfigError(f"{owner}.{name} is {_short(value)}: must be {kind}")


def _texts(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(each, str) for each in value)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def _agree(own: Spec, known: Spec, *, shared: bool) -> bool:
    """Test if two specifications are equal; against the schema only shape and dtype count."""
    return (own.shape, own.dtype) == (known.shape, known.dtype) if shared else own == known


def _read(owner: str, key: Key, literal: OwnKey) -> Spec:
    more = [field.name for field in fields(Spec)[3:]]
    if not isinstance(key, str) or not key.isidentifier():
        raise ConfigError(
            f"{owner}.keys: {_short(key)} is no key: must be a name of letters, digits and _"
        )
    try:
        shape, dtype, meaning, *rest = literal if isinstance(literal, (tuple, list)) else ()
        own = Spec(shape, dtype, meaning, **(rest[0] if rest else {}))
        sound = len(rest) < 2 and shape.split()[0] == "B" and dtype in _DTYPES
        sound = sound and isinstance(meaning, str)
    except (TypeError, ValueError, AttributeError, IndexError):
        sound = False
    if not sound:
        raise ConfigError(
            f"{owner}.keys: '{key}' is {_short(literal)}: must be (shape, dtype, meaning) such as "
            f'("B T", "int64", "which span it is of"), dtype one of {", ".join(_DTYPES)}, perhaps '
            f"with a dict of {', '.join(more)} behind them"
        )
    for name, (holds, valid) in _limits(own).items():
        if not holds:
            value = _short(getattr(own, name))
            raise ConfigError(f"{owner}.keys: '{key}' has {name} {value}: must be {valid}")
    return own


def _limits(own: Spec) -> dict[str, tuple[bool, str]]:
    """Return for each further field of a specification if it is valid, and the valid values."""
    pad, dtype = own.pad, own.dtype
    low, high = _PADS.get(dtype, (0, -1))
    return {
        "pad": (
            pad is None or (type(pad) is int and low <= pad <= high),
            f"a whole number from {low} to {high} ({dtype})" if low <= high else "left out: nested",
        ),
        "offset": (
            isinstance(own.offset, str) and (not own.offset or dtype == _I),
            "the name of a family of ids, of an int64 only",
        ),
        "per_prompt": (isinstance(own.per_prompt, bool), "True or False"),
        "absent": (
            isinstance(own.absent, (str, float)) and (not own.absent or dtype == "nested"),
            "a text, of nested texts only, or a float, of nested numbers",
        ),
        "example": (
            isinstance(own.example, str) and own.example in ("", *_EXAMPLES),
            f"one of {', '.join(_EXAMPLES)}",
        ),
    }


def _shown(spec: Spec) -> str:
    more = [(f.name, getattr(spec, f.name)) for f in fields(Spec)[3:]]
    options = "".join(
        f", {name}={value!r}" for name, value in more if value not in (None, "", False)
    )
    return f"[{','.join(spec.shape.split())}] {spec.dtype}, {spec.meaning!r}{options}"


def lookup(key: Key) -> Spec | None:
    """Return the specification of a key of the schema or of a component; None if unknown."""
    return SCHEMA.get(key) or next(iter(_OWN.get(key, {}).values()), None)


def nested(key: Key) -> str | tuple[str, ...]:
    """Return a key as TensorDict writes it; a dot separates the levels of a nested key.

    Examples:
        >>> nested("next.reward"), nested("reward")
        (('next', 'reward'), 'reward')
    """
    return tuple(key.split(".")) if "." in key else key


def dotted(key: str | tuple[str, ...]) -> Key:
    """Return a TensorDict's key as a component declares it.

    Examples:
        >>> dotted(("next", "reward"))
        'next.reward'
    """
    return key if isinstance(key, str) else ".".join(key)


def spec(key: Key) -> Spec:
    """Return the specification of a key of the schema or of a component.

    Raises:
        ConfigError: the key is unknown; the message suggests the nearest.

    Examples:
        >>> spec("advantage").shape
        'B T'
    """
    entry = lookup(key)
    if entry is None:
        raise ConfigError(f"{key!r} is not a key of the batch{nearest(key, {*SCHEMA, *_OWN})}")
    return entry


def prompt_keys() -> frozenset[Key]:
    """Return every key that belongs to a prompt, including those declared by components."""
    known = (*SCHEMA, *_OWN)
    return frozenset(key for key in known if (entry := lookup(key)) and entry.per_prompt)


def check_key(owner: str, key: Key, own: Collection[Key] = ()) -> None:
    """Refuse a key that is neither in the schema nor among a component's own.

    Raises:
        ConfigError: the key is unknown; the message suggests the nearest, or names its declaring
            class.
    """
    if key in SCHEMA or key in CONTROL or key in own:
        return
    hint = nearest(key, {*SCHEMA, *CONTROL, *own})
    if key in _OWN:
        other, entry = next(iter(_OWN[key].items()))
        hint = f": declare it in keys as {other} does, {_shown(entry)}"
    raise ConfigError(f"{owner}: {_short(key)} is not a key of the batch{hint}")
