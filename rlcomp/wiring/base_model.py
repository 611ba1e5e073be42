"""``base=DIR`` on a command line: the model and the tokenizer that exist already."""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.wiring.plan import Plan

# What reads `base`.
_CHOICES = ("model=pretrained", "tokenizer=pretrained")
_READERS = "rlcomp.model.trained.pretrained_"


def with_base(words: Sequence[str]) -> list[str]:
    """Overrides in which ``base=DIR`` chooses model and tokenizer, unless they are chosen.

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
    keys = [word.partition("=")[0].lstrip("+") for word in words]
    values = [
        word.partition("=")[2] for word, key in zip(words, keys, strict=True) if key == "base"
    ]
    if not values or values[-1] in ("", "null"):
        return [*words]
    return [*words, *(choice for choice in _CHOICES if choice.partition("=")[0] not in keys)]


def check_base(plan: Plan) -> list[str]:
    """One error where models or tokenizers are read from ``base``, and there is none."""
    lacking = [
        node.path
        for node in plan.nodes.values()
        if node.target.startswith(_READERS) and node.arguments.get("path") is None
    ]
    return lacking and [
        f"base is not set, and {' and '.join(lacking)} "
        f"{'is' if len(lacking) == 1 else 'are'} read from it: set base=DIR, a folder of "
        "save_pretrained, a run's directory, or a name on the Hugging Face hub"
    ]
