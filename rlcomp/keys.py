"""The batch: every key with its shape, dtype and meaning (docs: the key schema).

``B`` rows (= prompts x group_size), ``T`` tokens of prompt and response, ``W`` bytes of the longest
text. Position ``t`` of any ``[B, T]`` tensor speaks of ``tokens[:, t]``. No torch here: the schema
is read by ``rlcomp-describe`` before anything heavy is imported.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlcomp.errors import ConfigError, nearest

Key = str


@dataclass(frozen=True)
class Spec:
    """What one entry of a batch is."""

    shape: str
    dtype: str
    meaning: str

    @property
    def per_token(self) -> bool:
        """Whether the entry has one value per token."""
        return self.shape == "B T"


_F, _I, _M, _U = "float", "int64", "bool", "uint8"

SCHEMA: dict[Key, Spec] = {
    "tokens": Spec("B T", _I, "prompt, response, then padding"),
    "attention_mask": Spec("B T", _M, "not padding"),
    "response_mask": Spec("B T", _M, "tokens the policy sampled and is trained on, EOS included"),
    "group_id": Spec("B", _I, "which prompt the row answers"),
    "prompt": Spec("B W", _U, "prompt text (rlcomp.batch.decode_texts)"),
    "answer": Spec("B W", _U, "the task's gold answer, text"),
    "response": Spec("B W", _U, "decoded response text, special tokens removed"),
    "rollout_log_probs": Spec("B T", _F, "log-probs recorded while sampling"),
    "old_log_probs": Spec("B T", _F, "policy at the start of the update"),
    "ref_log_probs": Spec("B T", _F, "reference policy"),
    "log_probs": Spec("B T", _F, "current policy, with gradient"),
    "entropy": Spec("B T", _F, "entropy of the current policy, nats"),
    "value": Spec("B T", _F, "critic before the token"),
    "old_value": Spec("B T", _F, "critic at the start of the update"),
    "returns": Spec("B T", _F, "return from the token on"),
    "advantage": Spec("B T", _F, "detached advantage"),
    "ratio": Spec("B T", _F, "pi / pi_old, token or sequence"),
    "surrogate": Spec("B T", _F, "per-token objective, to be maximised"),
    "loss_weight": Spec("B T", _F, "share of the token in the loss of the whole optimiser step"),
    "reward": Spec("B", _F, "scalar outcome"),
    "rewards": Spec("B", "nested", "each named part of the reward, [B] by name"),
    "token_reward": Spec("B T", _F, "dense rewards"),
    "truncated": Spec("B", _M, "length limit hit before EOS"),
    "correct": Spec("B", _M, "the verifier says right"),
    "reward_valid": Spec("B", _M, "the reward could be computed"),
    "chosen": Spec("B", _M, "chosen side of a pair"),
    "policy_version": Spec("B T", _I, "which weights sampled the token"),
}


def check_key(owner: str, key: Key) -> None:
    """Refuse a key that the schema does not know.

    Raises:
        ConfigError: the key is unknown; the message suggests the nearest.
    """
    if key not in SCHEMA:
        raise ConfigError(f"{owner}: '{key}' is not a key of the batch{nearest(key, SCHEMA)}")
