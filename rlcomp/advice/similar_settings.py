"""Settings of a command line's config that do what another recipe's settings do."""

from __future__ import annotations

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from rlcomp.advice.foreign_options import CONTROL_PATHS
from rlcomp.config.compose import CommandLine, compose_config

# Where the same setting stands in recipes that imitate instead of sampling.
_LIKES = {"prompts": "demonstrations", "learner": "sft_learner"}
# What control is used to call settings, where a recipe has them.
_OF_CONTROL = {**CONTROL_PATHS, "batch_size": "sample.batch_size", "gamma": "loss.gamma"}


def like(line: CommandLine, path: str) -> str | None:
    """Return the same setting in a line's config: itself, or what does that there.

    Args:
        line: the choices of a command line.
        path: of the setting, in another recipe.

    Returns:
        None: nothing does.
    """
    if line.has(path):
        return path
    if path in _OF_CONTROL and line.has(_OF_CONTROL[path]):
        return _OF_CONTROL[path]
    root, _, rest = path.partition(".")
    phase, _, of_phase = rest.partition(".")
    others = [f"{_LIKES.get(root)}.{rest}"]
    if root == "phases" and len(line.config.phases) == 1:
        others = [f"phases.{only}.{of_phase}" for only in line.config.phases if only != phase]
    return next((one for one in others if rest and line.has(one)), None)


def fit(line: CommandLine, remedy: str) -> str | None:
    """Return overrides that a line takes: as they are, or with what its config has instead."""
    instead = " ".join(_instead(line, word) for word in remedy.split())
    return next((one for one in (remedy, instead) if _takes(line, one)), None)


def _instead(line: CommandLine, word: str) -> str:
    path, is_set, value = word.partition("=")
    return f"{like(line, path) or path}{is_set}{value}"


def _takes(line: CommandLine, remedy: str) -> bool:
    if any(line.lacks(word.partition("=")[0].split(".")[0]) for word in remedy.split()):
        return False
    try:
        compose_config([*line.words, *remedy.split()], line.config_dirs)
    except (HydraException, OmegaConfBaseException, ValueError):
        return False
    return True
