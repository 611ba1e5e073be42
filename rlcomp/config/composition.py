"""Composition of a config, with advice on the overrides that Hydra refuses."""

from __future__ import annotations

from collections.abc import Sequence

import yaml  # type: ignore[import-untyped]
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from rlcomp.config.choices import check_choices
from rlcomp.config.compose import compose_config
from rlcomp.errors import ConfigError, in_one_line


def compose_or_explain(overrides: Sequence[str], config_dirs: Sequence[str] = ()) -> DictConfig:
    """Return the config of overrides.

    Args:
        overrides: as on the command line.
        config_dirs: directories of the user's own configs.

    Raises:
        ConfigError: what Hydra refuses: what, where and the nearest name.

    Examples:
        >>> compose_or_explain(["learning_rate=1e-5"])
        Traceback (most recent call last):
            ...
        rlcomp.errors.ConfigError: learning_rate is not in the config; here it is \
learner.optimizer.lr=1e-5
    """
    try:
        check_choices(overrides, config_dirs)
        return compose_config(overrides, config_dirs)
    except (HydraException, OmegaConfBaseException) as error:
        from rlcomp.advice.explain import explained

        raise ConfigError(explained(error, overrides, config_dirs)) from None  # it says all
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        from rlcomp.advice.explain import unreadable_yaml

        raise ConfigError(unreadable_yaml(error, config_dirs)) from None
    except ValueError as error:  # Hydra's own, of overrides that cannot mean anything
        raise ConfigError(f"{' '.join(overrides)}: {in_one_line(error)}") from None
