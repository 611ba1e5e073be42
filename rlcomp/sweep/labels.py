"""Labels of a job in a tracker: name, group, job type and tags."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from hydra.conf import HydraConf
from hydra.types import RunMode
from omegaconf import OmegaConf

from rlcomp.sweep.jobs import plain_key, requested_overrides, swept_keys

# Limits of W&B, in characters.
_LONGEST_NAME, _LONGEST_TAG = 128, 64
# Groups of options that do not change results.
_NO_METHODS = ("tracker", "experiment", "hydra")


def labels(hydra_config: HydraConf) -> dict[str, object]:
    """Return name, group, job type and tags of one job.

    Returns:
        ``run_name``: in a sweep this job's values of the varied keys (``advantage=leave_one_out
        seed=1``), otherwise the recipe, and the options and seed of the command line; ``tags``: the
        recipe, and the options of the command line without seeds and numbers; in a sweep also
        ``group``, the name of its directory, and ``job_type``, the varied keys without ``seed``
        (``seed`` if only the seed varies).
    """
    overrides = [str(text) for text in OmegaConf.to_container(hydra_config.overrides.task)]  # type: ignore[union-attr]
    choices = hydra_config.runtime.choices
    methods = _methods(overrides, choices)
    recipe = f"recipe={choices.get('recipe')}"
    tags = [text[:_LONGEST_TAG] for text in dict.fromkeys([recipe, *methods])]
    if hydra_config.mode != RunMode.MULTIRUN:
        words = [str(choices.get("recipe")), *(text for text in methods if text != recipe)]
        return {"run_name": _name([*words, *_with_keys(overrides, ["seed"])]), "tags": tags}
    directory = Path(hydra_config.runtime.cwd) / hydra_config.sweep.dir
    axes = swept_keys(requested_overrides(directory)) or [_key(text) for text in overrides]
    return {
        "run_name": _name(_with_keys(overrides, axes)),
        "group": directory.name,
        "job_type": "+".join([axis for axis in axes if axis != "seed"] or ["seed"]),
        "tags": tags,
    }


def _methods(overrides: Sequence[str], groups: Collection[str]) -> list[str]:
    """Return the options of the command line, ``group=option``.

    Removed ones are left out, and groups that do not change results (``_NO_METHODS``).
    """
    return [
        text.lstrip("+")
        for text in overrides
        if _key(text) in groups and not _key(text).startswith(_NO_METHODS) and text[:1] != "~"
    ]


def _with_keys(overrides: Sequence[str], keys: Collection[str]) -> list[str]:
    """Return the overrides of the keys, without ``+``."""
    return [text.lstrip("+") for text in overrides if _key(text) in keys]


def _key(text: str) -> str:
    return plain_key(text.partition("=")[0])


def _name(words: Sequence[str]) -> str:
    return " ".join(words)[:_LONGEST_NAME]
