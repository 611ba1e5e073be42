"""Settings of a config that are equivalent to those of another recipe."""

from __future__ import annotations

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from rlcomp.advice.foreign_options import CONTROL_PATHS
from rlcomp.config.compose import CommandLine, compose_config

# Nodes of recipes that imitate, by their equivalents in recipes that sample.
_IMITATION = {"prompts": "demonstrations", "learner": "sft_learner"}
# Names of settings in control, with their paths here.
_CONTROL = {**CONTROL_PATHS, "batch_size": "sample.batch_size", "gamma": "loss.gamma"}


def equivalent(line: CommandLine, path: str) -> str | None:
    """Return the setting of a config that is equivalent to one of another recipe; None: none is.

    Args:
        line: the choices of the command line.
        path: path of the setting in the other recipe.
    """
    if line.has(path):
        return path
    if path in _CONTROL and line.has(_CONTROL[path]):
        return _CONTROL[path]
    root, _, rest = path.partition(".")
    phase, _, setting = rest.partition(".")
    candidate = f"{_IMITATION.get(root)}.{rest}"
    if root == "phases" and len(line.config.phases) == 1:
        (only,) = line.config.phases
        candidate = f"phases.{only}.{setting}" if only != phase else ""
    return candidate if rest and candidate and line.has(candidate) else None


def fit(line: CommandLine, remedy: str) -> str | None:
    """Return overrides that a line accepts: the remedy, or one with equivalent settings."""
    pairs = [word.partition("=") for word in remedy.split()]
    similar = " ".join(f"{equivalent(line, k) or k}{is_set}{v}" for k, is_set, v in pairs)
    return next((words for words in (remedy, similar) if _accepts(line, words)), None)


def _accepts(line: CommandLine, remedy: str) -> bool:
    if any(line.lacks(word.partition("=")[0].split(".")[0]) for word in remedy.split()):
        return False
    try:
        compose_config([*line.words, *remedy.split()], line.config_dirs)
    except (HydraException, OmegaConfBaseException, ValueError):
        return False
    return True
