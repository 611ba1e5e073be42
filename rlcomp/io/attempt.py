"""Run attempts: the requested command line and config, stored beside the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from rlcomp.io.draft import draft_of

# Hydra writes its own files before anybody can refuse the attempt, over those of a run that is
# there already: they may speak of another run than the record does.
ACCEPTED = "run.yaml"
# What the last attempt that was accepted failed by.
FAILURE = "failure.json"


@dataclass(frozen=True)
class Attempt:
    """The requested command line and config of a run.

    Attributes:
        config: None where it was not kept.
        overrides: those of the command line.
        choices: the option of every group of options.
        environment: versions, commits and the like (:mod:`rlcomp.io.environment`).
    """

    config: DictConfig | None = None
    overrides: list[str] = field(default_factory=list)
    choices: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


def accept(
    config: DictConfig, directory: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Store this attempt as the owner of the metrics in a directory; it has not failed yet.

    Args:
        config: of the run.
        directory: of the run; is there already.
        environment: in which it runs.
    """
    # As it was written: what an interpolation gives may be a secret of the environment.
    hydra = HydraConfig.get() if HydraConfig.initialized() else None
    kept = {
        "config": OmegaConf.to_container(config, resolve=False),
        "overrides": OmegaConf.to_container(hydra.overrides.task, resolve=False) if hydra else [],
        "choices": chosen_options(),
        "environment": dict(environment or {}),
    }
    with draft_of(directory / ACCEPTED) as draft:
        OmegaConf.save(OmegaConf.create(kept), draft)
    (directory / FAILURE).unlink(missing_ok=True)


def chosen_options() -> dict[str, Any]:
    """The option of every group of options, in the job that runs; none outside of one."""
    if not HydraConfig.initialized():
        return {}
    found = OmegaConf.to_container(HydraConfig.get().runtime.choices, resolve=False)
    return {str(group): option for group, option in dict(found).items()}  # type: ignore[arg-type]


def accepted_at(directory: Path) -> int | None:
    """When an attempt was accepted last, in nanoseconds of the clock of files; None: never."""
    accepted = directory / ACCEPTED
    return accepted.stat().st_mtime_ns if accepted.is_file() else None


def attempt_in(directory: Path) -> Attempt:
    """The attempt that was accepted, or else the one that Hydra or the newest checkpoint knows."""
    accepted = directory / ACCEPTED
    if accepted.is_file():
        kept: Any = OmegaConf.to_container(OmegaConf.load(accepted), resolve=False)
        # A root of its own, for the interpolations in it.
        config, environment = DictConfig(kept["config"]), kept.get("environment") or {}
        return Attempt(config, kept["overrides"], kept["choices"], environment)
    hydra = directory / ".hydra"
    checkpoints = sorted((directory / "checkpoints").glob("*/config.yaml"), reverse=True)
    configs = [file for file in (hydra / "config.yaml", *checkpoints) if file.is_file()]
    chosen = OmegaConf.select(_loaded(hydra / "hydra.yaml"), "hydra.runtime.choices", default={})
    return Attempt(
        _loaded(configs[0]) if configs else None,
        [str(text) for text in _loaded(hydra / "overrides.yaml")],
        {str(group): str(option) for group, option in chosen.items()},
    )


def _loaded(file: Path) -> Any:  # noqa: ANN401
    return OmegaConf.load(file) if file.is_file() else DictConfig({})
