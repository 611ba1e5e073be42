"""The batch: every key with its shape, dtype and meaning (docs: the key schema).

``B`` rows (= prompts x group_size), ``T`` tokens of prompt and response, ``W`` bytes of the longest
text, ``K`` objectives. Position ``t`` of any ``[B, T]`` tensor refers to ``tokens[:, t]``. No torch
here: the schema is read by ``rlcomp-describe`` before anything heavy is imported.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlcomp.errors import ConfigError, nearest

Key = str

_F, _I, _M, _U = "float", "int64", "bool", "uint8"


@dataclass(frozen=True)
class Spec:
    """Specification of one entry of a batch."""

    shape: str
    dtype: str
    meaning: str

    @property
    def per_token(self) -> bool:
        """Whether the entry has one value per token."""
        return self.shape == "B T"

    @property
    def along_tokens(self) -> bool:
        """Whether the second dimension counts tokens."""
        return self.shape.startswith("B T")

    @property
    def text(self) -> bool:
        """Whether the entry holds texts."""
        return self.shape == "B W" and self.dtype == _U


SCHEMA: dict[Key, Spec] = {
    "tokens": Spec("B T", _I, "prompt, response, then padding"),
    "attention_mask": Spec("B T", _M, "not padding"),
    "response_mask": Spec("B T", _M, "tokens the policy sampled and is trained on, EOS included"),
    "group_id": Spec("B", _I, "which prompt the row answers"),
    "prompt": Spec("B W", _U, "prompt text (rlcomp.batch.decode_texts)"),
    "answer": Spec("B W", _U, "the task's gold answer, text"),
    "answer_ends": Spec("B W", _M, "a token of the answer, or all of it, ends with this byte"),
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
    "ratio_floor": Spec("B", _F, "lower bound of the ratio, found for the whole optimiser step"),
    "ratio_ceiling": Spec("B", _F, "upper bound of the ratio, found for the whole optimiser step"),
    "entropy_floor": Spec("B", _F, "least entropy of a trained token, for the whole step, nats"),
    "selected": Spec("B T", _M, "tokens a part picked out of the whole optimiser step"),
    "surrogate": Spec("B T", _F, "per-token objective, to be maximised"),
    "token_weight": Spec("B T", _F, "factor on the surrogate: importance weights and filters"),
    "weight_scale": Spec("B", _F, "normaliser of importance weights, for the whole step"),
    "role_weight": Spec("B", _F, "factor that makes two roles weigh the same in the whole step"),
    "loss_weight": Spec("B T", _F, "share of the token in the loss of the whole optimiser step"),
    "row_weight": Spec("B", _F, "share of the row's unit (pair) in the loss of the whole step"),
    "reward": Spec("B", _F, "scalar outcome"),
    "rewards": Spec("B", "nested", "each named part of the reward, [B] by name; NaN if missing"),
    "advantages": Spec(
        "B T K", _F, "detached advantage of each objective, in the order of rewards"
    ),
    "advantage_scale": Spec(
        "B K", _F, "what each of advantages was divided by; the same in all rows"
    ),
    "preference": Spec("B K", _F, "how much each objective is wanted; a row sums to 1"),
    "policy_prompt": Spec("B W", _U, "what the policy is asked, where it differs from prompt"),
    "token_reward": Spec("B T", _F, "dense rewards, beside the outcome"),
    "step_end": Spec("B T", _M, "the token ends a step that was rewarded"),
    "truncated": Spec("B", _M, "length limit hit before EOS"),
    "correct": Spec("B", _M, "the verifier says right"),
    "reward_valid": Spec("B", _M, "the reward could be computed"),
    "chosen": Spec("B", _M, "chosen side of a pair"),
    "policy_version": Spec("B T", _I, "which weights sampled the token"),
    "greedy": Spec("B", _M, "decoded greedily, as a baseline; not trained on"),
    "is_proposer": Spec("B", _M, "the row poses a question; the others answer one"),
    "answers_group_id": Spec("B", _I, "group_id of the answers to what the row poses; -1: none"),
    "example_id": Spec("B", _I, "which example of the task the prompt is"),
    "squared_probs": Spec("B T", _F, "sum over the vocabulary of pi_old squared"),
    "log_distribution": Spec("B T V", _F, "log-probs of all tokens, current policy, with gradient"),
    "ref_log_distribution": Spec("B T V", _F, "log-probs of all tokens, reference policy"),
    "sampling_mask": Spec("B T V/8", _U, "tokens truncated sampling kept, one bit each"),
}


def check_key(owner: str, key: Key) -> None:
    """Refuse a key that the schema does not know.

    Raises:
        ConfigError: the key is unknown; the message suggests the nearest.
    """
    if key not in SCHEMA:
        raise ConfigError(f"{owner}: '{key}' is not a key of the batch{nearest(key, SCHEMA)}")
