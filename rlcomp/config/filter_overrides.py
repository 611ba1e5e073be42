"""Separation of the overrides that a config knows from those that it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

Refused = list[tuple[str, Exception]]
_ERRORS = (HydraException, OmegaConfBaseException)


def sift(
    compose: Callable[[list[str]], DictConfig], overrides: Sequence[str]
) -> tuple[DictConfig, Refused]:
    """Compose with those overrides that the config knows.

    Args:
        compose: gives the config of a list of overrides.
        overrides: as on the command line.

    Returns:
        The config, and each override that was refused with the error.

    Raises:
        HydraException: no config composes, whatever is left out.
    """
    accepted = list(overrides)
    refused: Refused = []
    while True:
        try:
            return compose(accepted), refused
        except _ERRORS as error:
            culprit = _culprit(compose, accepted, error)
            if culprit is None:
                raise
            accepted.remove(culprit)
            refused.append((culprit, error))


def _culprit(
    compose: Callable[[list[str]], DictConfig], texts: Sequence[str], error: Exception
) -> str | None:
    """Return the override that an error names, or without which the error is another."""
    for text in texts:
        key = text.partition("=")[0].lstrip("+~")
        if f"'{key}'" in str(error) or text in str(error):
            return text
    for text in reversed(texts):
        try:
            compose([other for other in texts if other != text])
        except _ERRORS as other:
            if str(other) == str(error):
                continue
        return text
    return None
