"""``base=DIR`` on a command line: the model and the tokenizer that exist already."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.model_folder import no_model, no_policy
from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node

# What reads `base`.
_CHOICES = ("model=pretrained", "tokenizer=pretrained")
_READERS = "rlcomp.model.load_model.pretrained_"
_BASES = "a folder of save_pretrained, a run's directory, or a name on the Hugging Face hub"


def with_base(words: Sequence[str]) -> list[str]:
    """Return overrides in which ``base=DIR`` chooses model and tokenizer, unless they are chosen.

    Args:
        words: overrides, or all words of a command line.

    Examples:
        >>> with_base(["recipe=rloo", "base=runs/a"])
        ['recipe=rloo', 'base=runs/a', 'model=pretrained', 'tokenizer=pretrained']
        >>> with_base(["base=runs/a", "model=soup"])
        ['base=runs/a', 'model=soup', 'tokenizer=pretrained']
        >>> with_base(["base=null"])
        ['base=null']
    """
    words = [expanded(word) for word in words]
    keys = [word.partition("=")[0].lstrip("+") for word in words]
    values = [
        word.partition("=")[2] for word, key in zip(words, keys, strict=True) if key == "base"
    ]
    if not values or values[-1] in ("", "null"):
        return [*words]
    return [*words, *(choice for choice in _CHOICES if choice.partition("=")[0] not in keys)]


def expanded(word: str) -> str:
    """Expand the home directory at the beginning of an override's value, ``path=~/a``.

    A shell leaves it as it is, and Hydra cannot read it.

    Examples:
        >>> expanded("task.path=~/a") == f"task.path={os.path.expanduser('~')}/a"
        True
        >>> expanded("~phases.rl"), expanded("a='~/b'")
        ('~phases.rl', "a='~/b'")
    """
    key, _, value = word.partition("=")
    return f"{key}={os.path.expanduser(value)}" if value.startswith("~/") else word


def is_folder_name(path: str) -> bool:
    """Return whether a path must be that of a folder, and is no name on the Hugging Face hub.

    Examples:
        >>> is_folder_name("/models/a"), is_folder_name("runs/today/a"), is_folder_name("gpt2")
        (True, True, False)
    """
    return path.startswith(("/", ".", "~")) or path.count("/") > 1


def _checkpoint_of_trainer(path: str) -> str | None:
    """Return the newest ``checkpoint-N`` of transformers' Trainer in a folder that is no model."""
    if not os.path.isdir(path) or os.path.exists(os.path.join(path, "config.json")):
        return None
    numbers = [
        int(name[11:]) for name in os.listdir(path) if re.fullmatch(r"checkpoint-\d{1,12}", name)
    ]
    return f"checkpoint-{max(numbers)}" if numbers else None


def named_models(plan: Plan) -> dict[str, str]:
    """Return the folders or names of models and tokenizers, by the setting of each."""
    named = {
        str(path): node.path for node in _readers(plan) if (path := node.arguments.get("path"))
    }
    return {
        "base" if plan.tree.get("base") == path else f"{reader}.path": path
        for path, reader in named.items()
    }


def _no_folder(path: str) -> str:
    home = os.path.expanduser(path)
    return (
        f"write {home}, for ~ is not read in quotes" if home != path else "there is no such folder"
    )


def _readers(plan: Plan) -> list[Node]:
    return [node for node in plan.nodes.values() if node.target.startswith(_READERS)]


def check_base(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each model or tokenizer that ``base`` or a path does not lead to."""
    if faults := check_models(named_models(plan)):
        yield from map(refuse, faults)
        return
    unset = [node.path for node in _readers(plan) if node.arguments.get("path") is None]
    if unset:
        yield refuse(
            f"base is not set, and {' and '.join(unset)} "
            f"{'is' if len(unset) == 1 else 'are'} read from it: set base=DIR, {_BASES}"
        )


def check_models(named: Mapping[str, str]) -> list[str]:
    """Errors where models are to be read from folders that are none, or hold no model.

    Args:
        named: folders, or names on the hub, by the setting that names each.
    """
    missing = {
        what: path
        for what, path in named.items()
        if is_folder_name(path) and not os.path.isdir(path)  # of any length, readable or not
    }
    if missing:
        return [
            f"{what} is {path!r}: {_no_folder(path)}; set {what}={_instead(path)}"
            for what, path in missing.items()
        ]
    inside = {what: (path, _model_above(path)) for what, path in named.items()}
    if found := {what: pair for what, pair in inside.items() if pair[1]}:
        return [
            f"{what} is {path!r}: there is no such folder, and {above} is a model itself: set "
            f"{what}={above}"
            for what, (path, above) in found.items()
        ]
    if told := {what: why for what, path in named.items() if (why := no_policy(path))}:
        return [f"{what} is {named[what]!r}: {why}" for what, why in told.items()]
    trainers = {what: (path, _checkpoint_of_trainer(path)) for what, path in named.items()}
    messages = [
        f"{what} is {path!r}: no model, but it holds {name}; set {what}={path}/{name}"
        for what, (path, name) in trainers.items()
        if name
    ]
    folders = (no_model(what, path) for what, path in named.items() if "tokenizer" not in what)
    return messages or [*filter(None, folders)]


def _instead(path: str) -> str:
    """Return the nearest folder above that is a model, else the kinds of bases."""
    return _model_above(path) or f"DIR, {_BASES}"


def _model_above(path: str) -> str | None:
    """Return the parent of a missing folder, if the parent is a model."""
    above = os.path.dirname(path.rstrip("/"))
    if os.path.isdir(path) or not above:
        return None
    signs = ("config.json", "checkpoints", "run.yaml")
    return above if any(os.path.exists(os.path.join(above, sign)) for sign in signs) else None
