"""Write ``keys.md`` from the key schema and the parts' own keys: ``python docs/make_keys.py``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rlcomp.keys import CONTROL, SCHEMA, Spec, spec
from rlcomp.config.declarations import read_declaration
from rlcomp.config.options import config_directory

PAGE = Path(__file__).with_name("keys.md")

INTRODUCTION = """\
# The keys of a batch

A batch is one TensorDict. This page lists the keys that components share, with shape, dtype and
meaning. `python docs/make_keys.py` makes it from `rlcomp/keys.py`. A key of a single method is
declared by the parts of that method (`keys = {...}`, [how](how_to/own_part.md)) and is listed
below. A component that uses a key it does not declare does not import.

Shapes: `B` rows (prompts times group size), `T` tokens of prompt and response, `W` bytes of the
longest text, `K` objectives. A nested entry is a TensorDict of named parts of `B` rows each.

"""

OWN = """
Keys of single methods, which their parts declare:

"""

STEPS = """
Keys of control, under torchrl's names; a nested name is written with a dot. `N` copies of an
environment, or rows drawn from a replay; a batch `[N T]` has every entry once a step.

"""

RULES = """
Rules:

- Row `i` is prompt tokens, then response tokens, then padding. Padding is on the right:
  `rlcomp.batch.pad_right` moves it there in rows that transformers has padded on the left.
- Position `t` of a `[B T]` entry speaks of `tokens[:, t]`:
  `log_probs[:, t] = log p(tokens[t] | tokens[<t])`. It is 0 at `t = 0` and wherever
  `response_mask` is False.
- `response_mask` covers the tokens that the policy sampled and is trained on, EOS included. It may
  have holes.
- Nothing outside a mask changes a number. NaN in padding is harmless.
- `rollout_log_probs` is recorded by generation, under the distribution it sampled from
  (temperature, top-k, top-p, min-p). `old_log_probs` is the policy at the start of the update. The
  slot `old_log_probs` says whether it is taken from the rollout or computed again.
- `advantage` is always detached.
- Keys that belong to a prompt (`per_prompt`: PROMPT) pass every collector, filter and refill
  unchanged, repeated for each answer.
- Joined batches keep their groups apart: ids of one family (`offset`) are shifted together, and a
  negative id names nothing.
- A reward that could not be computed has `reward_valid` False and `reward` 0. Nothing is learnt
  from its row.
- Texts are UTF-8 bytes: `rlcomp.batch.encode_texts` and `decode_texts`.
- Further fields of a task's examples are in `columns`, as JSON texts:
  `rlcomp.batch.decode_columns`.
- An instance can use other names: `_keys_: {reward: shaped}` in yaml, `.set_keys(reward="shaped")`
  by hand.
- A batch of control also holds the keys that its environment and its policy write.
"""


def own_rows() -> list[str]:
    """Return a line for each declared key, with the parts that declare it."""
    owners: dict[str, set[str]] = {}
    for file in sorted(config_directory().glob("**/*.yaml")):
        for target in re.findall(r"(?m)^\s*_target_:\s*(components\.\S+)", file.read_text()):
            for key in read_declaration(target).keys:
                owners.setdefault(key, set()).add(f"`{target.removeprefix('components.')}`")
    return [
        f"- `{key}` [{spec(key).shape}] {spec(key).dtype}: {spec(key).meaning} "
        f"({', '.join(sorted(owners[key]))})"
        for key in sorted(owners)
    ]


def keys_page() -> str:
    """Return the text of the page."""
    prompt_keys = ", ".join(f"`{key}`" for key, spec in SCHEMA.items() if spec.per_prompt)
    own_keys = "\n".join(own_rows()) + "\n"
    tables = INTRODUCTION + _table(SCHEMA) + OWN + own_keys + STEPS + _table(CONTROL)
    return tables + RULES.replace("PROMPT", prompt_keys)


def _table(keys: Mapping[str, Spec]) -> str:
    rows = [
        f"| `{key}` | [{spec.shape}] | {spec.dtype} | {spec.meaning} |"
        for key, spec in keys.items()
    ]
    return "\n".join(["| key | shape | dtype | meaning |", "|---|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(keys_page(), encoding="utf-8")
