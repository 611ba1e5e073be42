"""A config composed outside Hydra's app, or the reason why not in our words."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from rlcomp.errors import ConfigError
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.explain import explain_composition, keys_below


def compose_checked(overrides: Sequence[str], config_dirs: Sequence[str] = ()) -> DictConfig:
    """The config of overrides.

    Args:
        overrides: as on the command line.
        config_dirs: directories of the user's own configs.

    Raises:
        ConfigError: what Hydra refuses: what, where and the nearest name.

    Examples:
        >>> compose_checked(["learning_rate=1e-5"])
        Traceback (most recent call last):
            ...
        rlcomp.errors.ConfigError: learning_rate is not in the config; here it is \
learner.optimizer.lr=1e-5
    """
    try:
        return compose_config(overrides, config_dirs)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explained(error, overrides, config_dirs)) from None  # it says all


def explained(error: Exception, words: Sequence[str], config_dirs: Sequence[str]) -> str:
    """One message for an error of Hydra or OmegaConf.

    Args:
        error: what composing ended with.
        words: of the command line.
        config_dirs: directories of the user's own configs.
    """
    return explain_composition(error, config_dirs, lambda parent: _keys(parent, words, config_dirs))


def _keys(parent: str, words: Sequence[str], config_dirs: Sequence[str]) -> list[str]:
    """The keys beside a mistyped one, in the config that the rest of the words give."""
    sound = [text for text in words if "=" in text and not text.startswith("-")]
    choices = [text for text in sound if "." not in text.split("=")[0] and "," not in text]
    while choices:
        try:
            return keys_below(compose_config(choices, config_dirs), parent)
        except (HydraException, OmegaConfBaseException):
            choices.pop()
    return keys_below(compose_config([], config_dirs), parent)
