"""Composing the config of a command line outside Hydra's app."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.utils import setup_globals
from omegaconf import DictConfig

from rlcomp.config.base_model import with_base
from rlcomp.config.options import config_directory
from rlcomp.config.user_yaml import check_own_yamls
from rlcomp.errors import ConfigError

# Set by the running app; a description stands outside one.
_PLACEHOLDERS = ["directory=runs/..."]


def compose_config(overrides: Sequence[str], config_dirs: Sequence[str] = ()) -> DictConfig:
    """Return the config of a command line, outside the app.

    Args:
        overrides: as on the command line.
        config_dirs: directories of the user's own configs.
    """
    return _compose(overrides, config_dirs, with_hydra=False)


def compose_with_choices(
    overrides: Sequence[str], config_dirs: Sequence[str]
) -> tuple[DictConfig, dict[str, str]]:
    """Return the config of a command line, and the chosen option of every group."""
    config = _compose(overrides, config_dirs, with_hydra=True)
    choices = {str(group): str(option) for group, option in config.hydra.runtime.choices.items()}
    return config, choices


def _compose(
    overrides: Sequence[str], config_dirs: Sequence[str], *, with_hydra: bool
) -> DictConfig:
    setup_globals()
    for place in config_dirs:
        if not Path(place).is_dir():
            raise ConfigError(f"--config-dir is {place}: there is no such directory")
    check_own_yamls(overrides, config_dirs)
    extra = [f"file://{Path(place).resolve()}" for place in config_dirs]
    search = [f"hydra.searchpath=[{','.join(extra)}]"] if extra else []
    placeholders = [
        text for text in _PLACEHOLDERS if not any(o.startswith("directory=") for o in overrides)
    ]
    with initialize_config_dir(str(config_directory()), version_base="1.3", job_name="rlcomp"):
        words = [*placeholders, *with_base(overrides), *search]
        return compose("config", overrides=words, return_hydra_config=with_hydra)
