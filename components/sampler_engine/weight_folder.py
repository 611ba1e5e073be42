"""Weights of one version as a folder of transformers, written atomically."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from transformers import PreTrainedModel

from rlcomp.errors import ConfigError, RlcompError
from rlcomp.files.progress_bars import no_progress_bars

# Link to the folder of the last version, for servers with a fixed path.
CURRENT = "current"
_NAME = re.compile(r"\.?version-\d+")


def check_no_adapters(model: PreTrainedModel) -> None:
    """Refuse a model with adapters (ConfigError)."""
    if any("lora_" in name for name, _ in model.named_parameters()):
        raise ConfigError(
            "sampler_engine sends whole models to its server, but the policy has adapters: set "
            "adapter=none, or sampler_engine=transformers_batching"
        )


def write_weights(folder: Path, version: int, model: PreTrainedModel) -> Path:
    """Write ``folder/version-N`` with ``model.safetensors`` and ``config.json``; return its path.

    The folder and the link ``folder/current`` to it are written under other names and renamed, so
    that a server reads a complete folder.

    Raises:
        ConfigError: the model has adapters.
        RlcompError: the folder cannot be written.
    """
    check_no_adapters(model)
    target, draft = folder / f"version-{version}", folder / f".version-{version}"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)
        draft.mkdir(parents=True)
        with no_progress_bars():
            model.save_pretrained(draft)
        draft.rename(target)
        link = folder / f".{CURRENT}"
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        os.replace(link, folder / CURRENT)
    except OSError as error:
        raise RlcompError(
            f"the weights of version {version} cannot be written into {folder}: {error}; make room "
            "for two versions, or set sampler_engine.folder"
        ) from error
    return target


def drop_others(folder: Path, version: int) -> None:
    """Remove the folders of all versions except the one that the server has read."""
    for path in folder.iterdir():
        # Other folders may have similar names (version-1.5).
        if _NAME.fullmatch(path.name) and path.name != f"version-{version}":
            shutil.rmtree(path, ignore_errors=True)
