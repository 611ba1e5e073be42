"""Weights of one version, as a folder of transformers that appears as a whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from transformers import PreTrainedModel

from rlcomp.errors import ConfigError, RlcompError
from rlcomp.files.progress_bars import no_progress_bars

# What a server reads that is told no path: the folder of the last version.
CURRENT = "current"
_NAME = re.compile(r"\.?version-\d+")


def check_whole(model: PreTrainedModel) -> None:
    """Refuse a model with adapters.

    Raises:
        ConfigError: it has some.
    """
    if any("lora_" in name for name, _ in model.named_parameters()):
        raise ConfigError(
            "sampler_engine hands whole models to its server, and the policy has adapters: use "
            "adapter=none, or sampler_engine=transformers_batching"
        )


def write_weights(folder: Path, version: int, model: PreTrainedModel) -> Path:
    """Write ``folder/version-N`` with ``model.safetensors`` and ``config.json``.

    It is written beside its place and renamed, and so is the link ``folder/current`` to it: a
    server that reads it reads all of it.

    Args:
        folder: made if it is not there.
        version: ``N``.
        model: without adapters.

    Returns:
        The folder of the version.

    Raises:
        ConfigError: the model has adapters.
        RlcompError: the folder cannot be written.
    """
    check_whole(model)
    place, draft = folder / f"version-{version}", folder / f".version-{version}"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
        draft.mkdir(parents=True)
        with no_progress_bars():
            model.save_pretrained(draft)
        draft.rename(place)
        link = folder / f".{CURRENT}"
        link.unlink(missing_ok=True)
        link.symlink_to(place.name)
        os.replace(link, folder / CURRENT)
    except OSError as error:
        raise RlcompError(
            f"the weights of version {version} cannot be written into {folder}: {error}; it needs "
            "room for two versions (sampler_engine.folder)"
        ) from error
    return place


def drop_others(folder: Path, version: int) -> None:
    """Remove the folders of all versions but one, which the server has read."""
    for place in folder.iterdir():
        # Others' folders may be called alike (version-1.5).
        if _NAME.fullmatch(place.name) and place.name != f"version-{version}":
            shutil.rmtree(place, ignore_errors=True)
