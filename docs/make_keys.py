"""Writes ``keys.md`` from the key schema: ``python docs/make_keys.py``."""

from __future__ import annotations

from pathlib import Path

from rlcomp.keys import SCHEMA

PAGE = Path(__file__).with_name("keys.md")

INTRODUCTION = """\
# The keys of a batch

A batch is one TensorDict. This page lists every key that a component may read or write, with its
shape, dtype and meaning. It is made from `rlcomp/keys.py` by `python docs/make_keys.py`.
A component that declares a key outside this table does not import.

Shapes: `B` rows (prompts times group size), `T` tokens of prompt and response, `W` bytes of the
longest text. `[B K]` is a nested TensorDict: `K` named parts of shape `[B]`.

"""

RULES = """
Rules:

- Row `i` is prompt tokens, then response tokens, then padding. Padding is on the right.
- Position `t` of a `[B T]` entry speaks of `tokens[:, t]`:
  `log_probs[:, t] = log p(tokens[t] | tokens[<t])`. It is 0 at `t = 0` and wherever
  `response_mask` is False.
- `response_mask` covers what the policy sampled and is trained on, EOS included. It may have holes.
- Nothing outside a mask may matter. NaN in padding is harmless.
- `rollout_log_probs` is what generation recorded, under the distribution it sampled from
  (temperature, top-k, top-p, min-p). `old_log_probs` is the policy at the start of the update. The
  slot `old_log_probs` says whether it is taken from the rollout or computed again.
- `advantage` is always detached.
- A reward that could not be computed has `reward_valid` False. Its `reward` is 0, and nothing is
  learnt from it.
- Texts are UTF-8 bytes: `rlcomp.batch.encode_texts` and `decode_texts`.
- An instance can use other names: `_keys_: {reward: shaped}` in yaml, `.set_keys(reward="shaped")`
  by hand.
- Control recipes use torchrl's own keys. Those are not in the table.
"""


def keys_page() -> str:
    """The whole page."""
    rows = [
        f"| `{key}` | [{'B K' if spec.dtype == 'nested' else spec.shape}] "
        f"| {spec.dtype} | {spec.meaning} |"
        for key, spec in SCHEMA.items()
    ]
    head = ["| key | shape | dtype | meaning |", "|---|---|---|---|"]
    return INTRODUCTION + "\n".join([*head, *rows]) + "\n" + RULES


if __name__ == "__main__":
    PAGE.write_text(keys_page(), encoding="utf-8")
