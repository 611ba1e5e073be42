"""Folders of models that are no language model by themselves: what they hold, and the remedy."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

# Bytes of a config that is looked at.
_LARGEST = 1 << 20
# Entries of folders that hold a policy: a model, adapters, a run or a checkpoint.
_SIGNS = ("config.json", "adapter_config.json", "run.yaml", "checkpoints", "manifest.json")
# Entries of a folder that are looked into.
_MOST = 1000
# Words in the names of architectures without a head that says tokens.
_SCORES = ("SequenceClassification", "TokenClassification", "RewardModel", "QuestionAnswering")


def no_policy(path: str) -> str | None:
    """Why a folder holds nothing that samples: an adapter alone, a classifier; None: it may.

    Args:
        path: of a folder, or a name on the hub, of which nothing is known here.
    """
    adapter, config = (_json(path, name) for name in ("adapter_config.json", "config.json"))
    if adapter is not None and config is None:
        reason = "it holds an adapter of peft (adapter_config.json) and no model"
        return f"{reason}: {_merged(path, adapter)}"
    kinds = (config or {}).get("architectures")
    kind = str(kinds[0]) if isinstance(kinds, list) and kinds else ""
    if not kind.endswith(_SCORES):
        return None
    return (
        f"its config.json says {kind}, a classifier such as a reward model, which says no tokens: "
        "a policy is a ...ForCausalLM, of AutoModelForCausalLM; this folder may be the reward, "
        f"reward=learned reward.path={path}"
    )


def no_model(what: str, path: str) -> str | None:
    """Why nothing can be read from a folder, as its names tell; None: it may be a model, or a run.

    Args:
        what: the setting that names it.
        path: of a folder, or a name on the hub, of which nothing is known here.
    """
    if not os.path.isdir(path) or _is_read(path):
        return None
    if inner := _models_below(path):
        more = f" and {len(inner) - 3} more" if len(inner) > 3 else ""
        return (
            f"{what} is {path!r}: it is no model or run itself, but holds {', '.join(inner[:3])}"
            f"{more}; set {what}={inner[0]}"
        )
    names = sorted(os.listdir(path))
    holds = f"holds {', '.join(names[:4])}{', …' if names[4:] else ''}" if names else "is empty"
    return (
        f"{what} is {path!r}: it {holds}; a model has config.json, "
        f"model.safetensors and tokenizer.json; set {what}=DIR, a folder of save_pretrained, a "
        "run's directory, or a name on the Hugging Face hub"
    )


def _is_read(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, sign)) for sign in _SIGNS)


def _models_below(path: str) -> list[str]:
    """Folders of models and runs in a folder, and those one deeper (a cache of the hub)."""
    folders = [entry for entry in sorted(Path(path).glob("[!.]*"))[:_MOST] if entry.is_dir()]
    own = [str(one) for one in folders if _is_read(str(one))]
    deeper = (below for one in folders for below in sorted(one.glob("[!.]*"))[:_MOST])
    return own or [str(one) for one in deeper if _is_read(str(one))]


def _json(path: str, name: str) -> dict[str, object] | None:
    """Return the object in a file of a folder; {} if unreadable, which its reader reports."""
    file = os.path.join(path, name)
    if not os.path.isfile(file):
        return None
    try:
        with open(file, encoding="utf-8") as opened:
            content = json.loads(opened.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _merged(path: str, adapter: dict[str, object]) -> str:
    """Return how an adapter is merged into a model, by the program that wrote it."""
    target = f"{path.rstrip('/')}_merged"
    card = os.path.join(path, "README.md")
    if os.path.isfile(card):
        with open(card, encoding="utf-8", errors="replace") as file:
            if "trained with rlcomp" in file.read(4000):
                return (
                    f"its run can be read, base=RUN; or rlcomp-export RUN {target} --merge writes "
                    f"the whole model, then base={target}"
                )
    base = adapter.get("base_model_name_or_path")
    own = os.path.isfile(os.path.join(path, "tokenizer_config.json"))
    tokens = path if own or not isinstance(base, str) else base
    code = (
        "from peft import AutoPeftModelForCausalLM as Model; "
        "from transformers import AutoTokenizer; "
        f"Model.from_pretrained({path!r}).merge_and_unload().save_pretrained({target!r}); "
        f"AutoTokenizer.from_pretrained({tokens!r}).save_pretrained({target!r})"
    )
    escaped = re.sub(r'(["\\$`])', r"\\\1", code)
    return f'write {target} with python -c "{escaped}", then base={target}'
