"""Check of the folders of models and tokenizers that a run reads: ``base=DIR``, ``path=DIR``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node

# Beginning of the names of the functions that read `base`.
_READERS = "rlcomp.model.load_model.pretrained_"
_BASES = "a folder of save_pretrained, a run's directory, or a name on the Hugging Face hub"
# Largest config that is parsed, in bytes, and largest number of entries of a folder.
_MAX_BYTES, _MAX_ENTRIES = 1 << 20, 1000
# Entries of folders that hold a policy: a model, adapters, a run or a checkpoint.
_SIGNS = ("config.json", "adapter_config.json", "run.yaml", "checkpoints", "manifest.json")
# Ends of the names of architectures without a language-model head.
_SCORERS = ("SequenceClassification", "TokenClassification", "RewardModel", "QuestionAnswering")


def is_folder_name(path: str) -> bool:
    """Return whether a path must name a folder, and cannot name a model of the hub.

    Examples:
        >>> is_folder_name("/models/a"), is_folder_name("runs/today/a"), is_folder_name("gpt2")
        (True, True, False)
    """
    return path.startswith(("/", ".", "~")) or path.count("/") > 1


def named_models(plan: Plan) -> dict[str, str]:
    """Return the folders or hub names of models and tokenizers, by the setting of each."""
    named = {
        str(path): node.path for node in _readers(plan) if (path := node.arguments.get("path"))
    }
    return {
        "base" if plan.tree.get("base") == path else f"{reader}.path": path
        for path, reader in named.items()
    }


def _readers(plan: Plan) -> list[Node]:
    return [node for node in plan.nodes.values() if node.target.startswith(_READERS)]


def check_base(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each model or tokenizer that cannot be read from its folder."""
    if faults := model_faults(named_models(plan)):
        yield from map(refuse, faults)
        return
    unset = [node.path for node in _readers(plan) if node.arguments.get("path") is None]
    if unset:
        yield refuse(
            f"base is not set, and {' and '.join(unset)} "
            f"{'is' if len(unset) == 1 else 'are'} read from it: set base=DIR, {_BASES}"
        )


def model_faults(named: Mapping[str, str]) -> list[str]:
    """Return messages on folders of models that are missing or hold no model.

    All messages are of one kind, the first that occurs: missing folders are the first kind, folders
    without a model the last.

    Args:
        named: folders or hub names, by the setting of each.
    """
    for kind in (
        _missing_folder,
        _folder_inside_model,
        policy_fault,
        _trainer_folder,
        no_model_fault,
    ):
        if faults := [fault for name, path in named.items() if (fault := kind(name, path))]:
            return faults
    return []


def _missing_folder(name: str, path: str) -> str | None:
    if not is_folder_name(path) or os.path.isdir(path):
        return None
    home = os.path.expanduser(path)
    reason = "there is no such folder"
    if home != path:
        reason = f"write {home}, for ~ is not read in quotes"
    return f"{name} is {path!r}: {reason}; set {name}={_model_above(path) or f'DIR, {_BASES}'}"


# A missing path with one slash may be a name of the hub, unless its parent is a model here.
def _folder_inside_model(name: str, path: str) -> str | None:
    above = _model_above(path)
    return above and (
        f"{name} is {path!r}: there is no such folder, and {above} is a model itself: set "
        f"{name}={above}"
    )


def _model_above(path: str) -> str | None:
    """Return the parent of a missing folder, if the parent is a model."""
    above = os.path.dirname(path.rstrip("/"))
    if os.path.isdir(path) or not above:
        return None
    signs = ("config.json", "checkpoints", "run.yaml")
    return above if any(os.path.exists(os.path.join(above, sign)) for sign in signs) else None


def policy_fault(name: str, path: str) -> str | None:
    """Return why a folder holds nothing that samples: an adapter alone, a classifier; else None."""
    adapter, config = (_json(path, file) for file in ("adapter_config.json", "config.json"))
    if adapter is not None and config is None:
        return (
            f"{name} is {path!r}: it holds an adapter of peft (adapter_config.json) and no model: "
            f"{_merge_command(path, adapter)}"
        )
    architectures = (config or {}).get("architectures")
    kind = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    if not kind.endswith(_SCORERS):
        return None
    return (
        f"{name} is {path!r}: its config.json says {kind}, a classifier such as a reward model, "
        "which generates no tokens: a policy is a ...ForCausalLM, of AutoModelForCausalLM; "
        f"this folder may be the reward, reward=learned reward.path={path}"
    )


def _json(path: str, name: str) -> dict[str, object] | None:
    """Return the object in a file of a folder; None without the file.

    An unreadable file, which its reader reports, gives {}.
    """
    file = os.path.join(path, name)
    if not os.path.isfile(file):
        return None
    try:
        with open(file, encoding="utf-8") as opened:
            content = json.loads(opened.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _merge_command(path: str, adapter: dict[str, object]) -> str:
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
    has_tokenizer = os.path.isfile(os.path.join(path, "tokenizer_config.json"))
    tokenizer = path if has_tokenizer or not isinstance(base, str) else base
    code = (
        "from peft import AutoPeftModelForCausalLM as Model; "
        "from transformers import AutoTokenizer; "
        f"Model.from_pretrained({path!r}).merge_and_unload().save_pretrained({target!r}); "
        f"AutoTokenizer.from_pretrained({tokenizer!r}).save_pretrained({target!r})"
    )
    escaped = re.sub(r'(["\\$`])', r"\\\1", code)
    return f'write {target} with python -c "{escaped}", then base={target}'


def _trainer_folder(name: str, path: str) -> str | None:
    """Return that a folder without a model has a ``checkpoint-N`` of transformers' Trainer."""
    if not os.path.isdir(path) or os.path.exists(os.path.join(path, "config.json")):
        return None
    numbers = [int(e[11:]) for e in os.listdir(path) if re.fullmatch(r"checkpoint-\d{1,12}", e)]
    if not numbers:
        return None
    newest = f"checkpoint-{max(numbers)}"
    return f"{name} is {path!r}: no model, but it holds {newest}; set {name}={path}/{newest}"


def no_model_fault(name: str, path: str) -> str | None:
    """Return why no model can be read from a folder, by the names in it; a tokenizer may be."""
    if "tokenizer" in name or not os.path.isdir(path) or _holds_model(path):
        return None
    if inner := _models_below(path):
        more = f" and {len(inner) - 3} more" if len(inner) > 3 else ""
        return (
            f"{name} is {path!r}: it is not a model or run itself, but holds {', '.join(inner[:3])}"
            f"{more}; set {name}={inner[0]}"
        )
    names = sorted(os.listdir(path))
    holds = f"holds {', '.join(names[:4])}{', …' if names[4:] else ''}" if names else "is empty"
    return (
        f"{name} is {path!r}: it {holds}; a model has config.json, model.safetensors and "
        f"tokenizer.json; set {name}=DIR, {_BASES}"
    )


def _holds_model(path: str | Path) -> bool:
    return any(os.path.exists(os.path.join(path, sign)) for sign in _SIGNS)


def _models_below(path: str) -> list[str]:
    """Return the models and runs in a folder; else the ones a level deeper (a hub cache)."""
    folders = [e for e in sorted(Path(path).glob("[!.]*"))[:_MAX_ENTRIES] if e.is_dir()]
    deeper = (b for folder in folders for b in sorted(folder.glob("[!.]*"))[:_MAX_ENTRIES])
    models = [str(folder) for folder in folders if _holds_model(folder)]
    return models or [str(folder) for folder in deeper if _holds_model(folder)]
