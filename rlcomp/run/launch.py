"""From a checked plan to a finished run: build, check once more, resume, run."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from torch import nn

from rlcomp.errors import CheckpointError, ConfigError, Interrupted
from rlcomp.io.attempt import accept
from rlcomp.io.checkpoint import Checkpoint, Saved, open_checkpoint
from rlcomp.io.display import Display
from rlcomp.io.lock import locked
from rlcomp.io.saved_config import saved_config
from rlcomp.io.storing import storing
from rlcomp.io.tracking import JsonLines, Tracker, WandB
from rlcomp.io.watch import Watch
from rlcomp.run.phase import Phase
from rlcomp.run.program import run_phases
from rlcomp.wiring.build import Builder
from rlcomp.wiring.compare import changed
from rlcomp.wiring.plan import PhasePlan, Plan
from rlcomp.wiring.renamed import of_version_0_1


def launch(config: DictConfig, plan: Plan, watch: Watch | None = None) -> None:
    """Build and run a checked plan.

    Args:
        config: of the run.
        plan: read from it.
        watch: is told where the run is.

    Raises:
        Interrupted: stopped on request; the message says how to go on.
    """
    directory = Path(config.directory)
    with locked(directory):
        _launch(config, plan, directory, watch or Watch())


def _launch(config: DictConfig, plan: Plan, directory: Path, watch: Watch) -> None:
    builder = Builder(plan, int(config.seed))
    where = device(str(config.get("device", "auto")))
    cheap = builder.without_models().values()
    checkpoint = next((node for node in cheap if isinstance(node, Checkpoint)), None)
    if checkpoint is not None:
        checkpoint.config = OmegaConf.to_yaml(config)
    saved = saved_run(config, checkpoint)
    nodes = builder.all()
    place_on(where, nodes)
    phases = {name: build_phase(phase, builder) for name, phase in plan.phases.items()}
    with storing("run.yaml", watch):
        accept(config, directory)
    try:
        run_phases(
            phases,
            nodes=nodes,
            seed=int(config.seed),
            trackers=trackers(nodes, config, directory),
            checkpoint=checkpoint,
            saved=saved,
            watch=watch,
        )
    except Interrupted as error:
        raise Interrupted(f"{error}; go on with: {resume_command(directory)}") from error


def device(name: str) -> torch.device:
    """The device of a run: ``auto`` takes a GPU when there is one.

    Raises:
        ConfigError: no such device here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ConfigError(f"device is {name!r}: must be auto, cpu or cuda")
    chosen = torch.device(name)
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
    later = {step: builder.value(stages) for step, stages in plan.later.items()}
    return Phase(plan.steps, builder.value(plan.stages), every, later)


def saved_run(config: DictConfig, checkpoint: Checkpoint | None) -> Saved | None:
    """What to continue from, by ``resume``: auto (the newest, if any), must, never, or a path.

    Raises:
        CheckpointError: there is nothing to continue from, but there must be; or there is something
            that is not meant.
    """
    resume = str(config.resume)
    if resume not in ("auto", "must", "never"):
        return elsewhere(Path(resume), Path(config.directory))
    found = checkpoint.newest() if checkpoint is not None else None
    if found is None and resume == "must":
        where = checkpoint.directory if checkpoint is not None else "a run without checkpoints"
        raise CheckpointError(
            f"resume is must, but there is no whole checkpoint in {where}: name the run to "
            "continue with directory=..., or start one with resume=auto"
        )
    if found is not None and resume == "never":
        raise CheckpointError(
            f"resume is never, but {found.path} is there: choose another directory, or resume=auto"
        )
    if found is not None:
        same_config(found, config)
    return found


def elsewhere(path: Path, directory: Path) -> Saved:
    """The checkpoint at a path; refuses to write into another run's directory.

    Raises:
        CheckpointError: there is none, or ``directory`` belongs to another run.
    """
    try:
        saved = open_checkpoint(path)
    except CheckpointError as error:
        raise CheckpointError(f"resume is {path}: {error}") from error
    record = directory / "metrics.jsonl"
    own = directory.resolve() in saved.path.resolve().parents
    if not own and record.is_file() and record.stat().st_size:
        raise CheckpointError(
            f"resume is {path}, but {directory} holds the record of another run: choose another "
            "directory"
        )
    return saved


# What may change between a run and its continuation without changing its numbers.
FREE = ("directory", "resume", "device", "tracker", "trust")


def _free(path: str) -> bool:
    # trust: that of a soup or a tokenizer as well.
    return path.split(".")[0] in FREE or path.endswith(".trust")


def same_config(saved: Saved, config: DictConfig) -> None:
    """Refuse to resume under a changed config unless allowed.

    Raises:
        CheckpointError: names every value that changed.
    """
    file = saved.path / "config.yaml"
    if not file.is_file():
        return
    old = saved_config(file, trust=True)  # compared, not built
    renamed = of_version_0_1(old)
    if renamed is not None:
        raise CheckpointError(f"{saved.path}: {renamed}; choose another directory")
    paths = {p: v for p, v in changed(old, config).items() if not _free(p)}
    if paths:
        told = "; ".join(f"{path} was {was}, is {now}" for path, (was, now) in paths.items())
        raise CheckpointError(
            f"{saved.path} is of another config ({told}): choose another directory, or continue it "
            f"on purpose with resume={saved.path}"
        )


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
    """The command line that continues this run, or the sweep it belongs to."""
    if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
        directory = directory.parent
    own = ("directory=", "resume=")
    given = [text for text in sys.argv[1:] if not text.lstrip("+").startswith(own)]
    return " ".join(["rlcomp", *map(shlex.quote, given), f"directory={directory}", "resume=auto"])
