"""From a checked plan to a finished run: build, check once more, resume, run, sum up."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from rlcomp.errors import CheckpointError, ConfigError, Interrupted
from rlcomp.io.checkpoint import Checkpoint, Saved, open_checkpoint
from rlcomp.io.tracking import JsonLines, Tracker, WandB
from rlcomp.report.display import Display
from rlcomp.report.summary import summarise
from rlcomp.run.build import Builder
from rlcomp.run.phase import Phase
from rlcomp.run.program import run_phases
from rlcomp.run.wiring import PhasePlan, Plan


def launch(config: DictConfig, plan: Plan) -> None:
    """Build and run a checked plan.

    Raises:
        Interrupted: stopped on request; the message says how to go on.
    """
    directory = Path(config.directory)
    builder = Builder(plan, int(config.seed))
    nodes = builder.all()
    place_on(device(str(config.get("device", "auto"))), nodes)
    checkpoint = next((node for node in nodes.values() if isinstance(node, Checkpoint)), None)
    if checkpoint is not None:
        checkpoint.config = OmegaConf.to_yaml(config)
    saved = saved_run(str(config.resume), checkpoint)
    phases = {name: build_phase(phase, builder) for name, phase in plan.phases.items()}
    try:
        run_phases(
            phases,
            nodes=nodes,
            seed=int(config.seed),
            trackers=trackers(nodes, config, directory),
            checkpoint=checkpoint,
            saved=saved,
        )
    except Interrupted as error:
        raise Interrupted(f"{error}; go on with: {resume_command(directory)}") from error
    print(summarise(directory))


def device(name: str) -> torch.device:
    """The device of a run: ``auto`` takes a GPU when there is one.

    Raises:
        ConfigError: no such device here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device is {name!r}: must be auto, cpu or cuda ({error})") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device is {name!r}, but torch sees no GPU: set device=cpu")
    return chosen


def place_on(where: torch.device, nodes: dict[str, object]) -> None:
    """Move every node; parameters keep their identity, so optimisers still hold them."""
    for node in nodes.values():
        if isinstance(node, nn.Module):
            node.to(where)


def build_phase(plan: PhasePlan, builder: Builder) -> Phase:
    """The phase with its stages built."""
    every = {name: (period, builder.value(stage)) for name, (period, stage) in plan.every.items()}
    return Phase(plan.steps, builder.value(plan.stages), every)


def saved_run(resume: str, checkpoint: Checkpoint | None) -> Saved | None:
    """What to continue from.

    Args:
        resume: ``auto`` (the newest, if any), ``must``, ``never``, or a path.
        checkpoint: the run's own.

    Raises:
        CheckpointError: there is nothing to continue from, but there must be.
    """
    if resume == "never":
        return None
    if resume not in ("auto", "must"):
        return open_checkpoint(Path(resume))
    found = checkpoint.newest() if checkpoint is not None else None
    if found is None and resume == "must":
        where = (
            checkpoint.directory if checkpoint is not None else "a run without a checkpoint node"
        )
        raise CheckpointError(f"resume is must, but there is no whole checkpoint in {where}")
    return found


def trackers(nodes: dict[str, object], config: DictConfig, directory: Path) -> list[Tracker]:
    """JSON lines and the display always, and the chosen tracker."""
    found: list[Tracker] = [JsonLines(directory=str(directory)), Display(seed=int(config.seed))]
    chosen: Any = nodes.get("tracker")
    if chosen is not None:
        if isinstance(chosen, WandB):
            chosen.config = OmegaConf.to_container(config, resolve=False)  # type: ignore[assignment]
        found.append(chosen)
    return found


def resume_command(directory: Path) -> str:
    """The command line that continues this run."""
    given = [text for text in sys.argv[1:] if not text.startswith(("directory=", "resume="))]
    return " ".join(["rlcomp", *map(shlex.quote, given), f"directory={directory}", "resume=auto"])
