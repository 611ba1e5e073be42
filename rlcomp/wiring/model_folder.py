"""Folders of models that are no language model by themselves: what they hold, and the remedy."""

from __future__ import annotations

import json
import os
import re

# Bytes of a config that is looked at.
_LARGEST = 1 << 20
# Words in the names of architectures without a head that says tokens.
_SCORES = ("SequenceClassification", "TokenClassification", "RewardModel", "QuestionAnswering")


def no_policy(path: str) -> str | None:
    """Why a folder holds nothing that samples: an adapter alone, a classifier; None: it may.

    Args:
        path: of a folder, or a name on the hub, of which nothing is known here.
    """
    adapter, config = (_json(path, name) for name in ("adapter_config.json", "config.json"))
    if adapter is not None and config is None:
        told = "it holds an adapter of peft (adapter_config.json) and no model"
        return f"{told}: {_merged(path, adapter)}"
    kinds = (config or {}).get("architectures")
    kind = str(kinds[0]) if isinstance(kinds, list) and kinds else ""
    if not kind.endswith(_SCORES):
        return None
    return (
        f"its config.json says {kind}, a classifier such as a reward model, which says no tokens: "
        "a policy is a ...ForCausalLM, of AutoModelForCausalLM; this folder may be the reward, "
        f"reward=learned reward.path={path}"
    )


def _json(path: str, name: str) -> dict[str, object] | None:
    """The object in a file of a folder; {} where it cannot be read, which its reader will tell."""
    file = os.path.join(path, name)
    if not os.path.isfile(file):
        return None
    try:
        with open(file, encoding="utf-8") as opened:
            found = json.loads(opened.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _merged(path: str, adapter: dict[str, object]) -> str:
    """How an adapter becomes a model: by what wrote it."""
    card = os.path.join(path, "README.md")
    if os.path.isfile(card):
        with open(card, encoding="utf-8", errors="replace") as file:
            if "trained with rlcomp" in file.read(4000):
                return "rlcomp-export RUN NEW_FOLDER --merge writes it whole, or name its run"
    base, merged = adapter.get("base_model_name_or_path"), f"{path.rstrip('/')}_merged"
    own = os.path.isfile(os.path.join(path, "tokenizer_config.json"))
    tokens = path if own or not isinstance(base, str) else base
    code = (
        "from peft import AutoPeftModelForCausalLM as Model; "
        "from transformers import AutoTokenizer; "
        f"Model.from_pretrained({path!r}).merge_and_unload().save_pretrained({merged!r}); "
        f"AutoTokenizer.from_pretrained({tokens!r}).save_pretrained({merged!r})"
    )
    escaped = re.sub(r'(["\\$`])', r"\\\1", code)
    return f'write {merged} with python -c "{escaped}", then base={merged}'
