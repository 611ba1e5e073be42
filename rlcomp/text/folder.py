"""Folders of models and tokenizers that others wrote: where they are, and what is never run."""

from __future__ import annotations

import os
from pathlib import Path

from rlcomp.errors import DataError


def local_only(path: str) -> bool:
    """Whether files must be on this machine: a folder is named, or Hugging Face is set offline.

    Raises:
        DataError: the path can only be a folder, and there is none.
    """
    if Path(path).is_dir():
        return True
    if path.startswith(("/", ".", "~")):
        raise DataError(f"'{path}' is not a folder: write the path of one, or a hub name")
    offline = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return any(value.upper() in {"1", "ON", "YES", "TRUE"} for value in offline)


def refuse_own_code(path: str, error: Exception) -> None:
    """Say so where transformers would run code that came with a model.

    Raises:
        DataError: it would; rlcomp never does.
    """
    if "trust_remote_code" in str(error):
        raise DataError(
            f"'{path}' brings code of its own (auto_map in its config), which rlcomp never runs: "
            "use a model of an architecture that transformers has"
        ) from error


def refuse_pickle(path: str) -> None:
    """Say so where a folder has its weights pickled only.

    Raises:
        DataError: it has.
    """
    if pickled := sorted(Path(path).glob("*.bin")):
        raise DataError(
            f"the weights at '{path}' are pickled ({pickled[0].name}), and reading them can run "
            "code: save them as safetensors, model.save_pretrained(...), where you trust them"
        )
