"""Launch of a checked plan: build, check once more, resume, run."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf
from torch import nn

from rlcomp.checkpoint.reader import SavedCheckpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.config.build import Builder
from rlcomp.config.checks.distributed import remote_runs
from rlcomp.config.checks.models import named_models
from rlcomp.config.checks.values import SETTINGS
from rlcomp.config.plan import PhasePlan, Plan
from rlcomp.engine.memory import keep_freed_memory
from rlcomp.errors import ConfigError, Interrupted
from rlcomp.files.digests import Digests, input_digests
from rlcomp.files.environment import environment
from rlcomp.files.run_directory import archive_run, check_links
from rlcomp.files.run_record import chosen_options, directory_lock, write_run_record
from rlcomp.files.shared_status import SharedStatus, storage_errors
from rlcomp.interfaces.cluster import Cluster
from rlcomp.parallel.ranks import Ranks
from rlcomp.parallel.world import rank_and_size
from rlcomp.run.check_tasks import check_columns, reward_and_task_nodes, warn_unreachable
from rlcomp.run.input_files import check_inputs, input_files
from rlcomp.run.phase import Phase
from rlcomp.run.program import run_phases
from rlcomp.run.resume import checkpoint_to_resume
from rlcomp.run.trials import try_engines, try_environments, try_rewards
from rlcomp.run.worker_rank import rank_context, run_worker_rank
from rlcomp.text.folder import check_available
from rlcomp.trackers.display import Display
from rlcomp.trackers.tracker import JsonLines, Tracker
from rlcomp.trackers.wandb import WandB

# Keys at the root of a config that are for the run itself.
_RUN_SETTINGS = (*SETTINGS, "base")

# Draws pictures and pages of a finished run, from its directory.
ReportFiles = Callable[[Path], Sequence[Path]]


def launch(
    config: DictConfig,
    plan: Plan,
    status: SharedStatus | None = None,
    report_files: ReportFiles | None = None,
) -> None:
    """Build and run the nodes that a checked plan needs.

    Args:
        config: config of the run.
        plan: plan of the config.
        status: gets the position of the run.
        report_files: makes pictures and pages of a finished run, for a tracker.

    Raises:
        Interrupted: stopped on request; the message says how to continue.
        ConfigError: a part cannot be built, or the directory has links at places where a run
            writes.
        CheckpointError: ``resume`` cannot be followed, or input files have changed.
    """
    keep_freed_memory()
    builder = Builder(plan.reached(), int(config.seed))
    run_device = device(str(config.get("device", "auto")))
    status = status or SharedStatus()
    with rank_context(builder, run_device) as ranks:
        if ranks is not None and ranks.rank > 0:
            run_worker_rank(ranks, builder, status)
            return
        check_links(Path(config.directory))
        with directory_lock(Path(config.directory)):
            make_trackers = partial(trackers, config=config, plan=plan, report_files=report_files)
            _build_and_run(config, builder, run_device, ranks, status, make_trackers)


def _build_and_run(
    config: DictConfig,
    builder: Builder,
    run_device: torch.device,
    ranks: Ranks | None,
    status: SharedStatus,
    make_trackers: Callable[[dict[str, object]], list[Tracker]],
) -> None:
    """Build, resume and run a plan as the only rank or as rank 0, in a locked directory."""
    directory = Path(config.directory)
    checkpoint = _build_without_models(builder, config)
    source = checkpoint_to_resume(config, checkpoint)
    if source is not None:
        accept_changes = bool(config.get("accept_changed_files", False))
        check_inputs(source, _inputs(config, builder, source), accept_changes)
    nodes = _build_all(builder, run_device if ranks is None else ranks.device)
    inputs = _inputs(config, builder, source)  # again: the hub's files are in the cache now
    phases = _build_phases(builder, nodes, directory)
    with storage_errors("run.yaml", status):
        _claim_directory(config, directory, checkpoint)
    if ranks is not None:
        ranks.lead(nodes)
    with _resumable(directory, checkpoint):
        run_phases(
            phases,
            nodes=nodes,
            seed=int(config.seed),
            trackers=make_trackers(nodes),
            checkpoint=checkpoint,
            saved=source,
            status=status,
            inputs=inputs,
        )


def _build_without_models(builder: Builder, config: DictConfig) -> Checkpoint | None:
    """Build and check the parts that need no model; return the checkpoint."""
    plan = builder.plan
    check_available(named_models(plan))
    # A missing column is reported before faults in the constructors of other parts.
    for node in reward_and_task_nodes(plan):
        builder.build(node)
    check_columns(plan, builder.built)
    nodes = builder.without_models().values()  # further rewards, which are checked as well
    check_columns(plan, builder.built)
    try_rewards(plan, builder.built)
    warn_unreachable(plan, builder.built)
    checkpoint = next((node for node in nodes if isinstance(node, Checkpoint)), None)
    if checkpoint is not None:
        checkpoint.config = OmegaConf.to_yaml(config)
    return checkpoint


def _build_all(builder: Builder, run_device: torch.device) -> dict[str, object]:
    """Build all nodes on a device; try engines and environments."""
    if isinstance(cluster := builder.built.get("cluster"), Cluster):
        cluster.prepare()  # processes import torch while models are built
    nodes = builder.all()
    try_engines(nodes)
    try_environments(nodes)
    place_on(run_device, nodes)
    return nodes


def _build_phases(builder: Builder, nodes: dict[str, object], directory: Path) -> dict[str, Phase]:
    """Return the phases; the remote stages of a cluster are added to the nodes."""
    plan = builder.plan
    phases = {name: build_phase(phase, builder) for name, phase in plan.phases.items()}
    if "cluster" in nodes:
        from rlcomp.run.place_remote import place_remote

        place_remote(phases, nodes, remote_runs(plan), directory)
    return phases


@contextmanager
def _resumable(directory: Path, checkpoint: Checkpoint | None) -> Iterator[None]:
    """Add the command that continues the run to an Interrupted error, if there is a checkpoint."""
    try:
        yield
    except Interrupted as error:
        if checkpoint is None:
            raise
        raise Interrupted(f"{error}; go on with: {resume_command(directory)}") from error


def _inputs(config: DictConfig, builder: Builder, saved: SavedCheckpoint | None) -> Digests:
    """Return the digests of the files that the config points to.

    A run that continues with its own config leaves out files that did not exist when it began,
    because the run itself has written them.
    """
    files = input_files(builder.plan, builder.built, Path(config.directory))
    saved_digests: Digests | None = None if saved is None else saved.position().get("inputs")
    if saved_digests is not None and str(config.resume) in ("auto", "must"):
        files = {name: group for name, group in files.items() if name in saved_digests}
    return input_digests(files, saved_digests)


def _claim_directory(config: DictConfig, directory: Path, checkpoint: Checkpoint | None) -> None:
    """Write the run's record into its directory; with ``overwrite``, move an earlier run aside."""
    if config.get("overwrite", False):
        folder = checkpoint.directory if checkpoint is not None else directory / "checkpoints"
        if (old := archive_run(directory, folder)) is not None:
            print(f"overwrite: what was in {directory} is in {old}", flush=True)
    write_run_record(config, directory, environment())


def device(name: str) -> torch.device:
    """Return the device of a run; ``auto`` takes a GPU if there is one.

    Raises:
        ConfigError: the name is not ``auto``, ``cpu`` or ``cuda``; or torch sees no GPU.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ConfigError(
            f"device is {name!r}: must be auto, cpu or cuda; set device=cuda (a GPU), or "
            "device=auto (a GPU where there is one)"
        )
    selected = torch.device(name)
    if selected.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device is {name!r}, but torch sees no GPU: set device=cpu")
    return selected


def place_on(run_device: torch.device, nodes: dict[str, object]) -> None:
    """Move every module; parameters keep their identity, so that optimisers still hold them."""
    for node in nodes.values():
        if isinstance(node, nn.Module):
            node.to(run_device)


def build_phase(plan: PhasePlan, builder: Builder) -> Phase:
    """Return the phase with its stages built."""
    every = {name: (period, builder.value(stage)) for name, (period, stage) in plan.every.items()}
    later = {step: builder.value(stages) for step, stages in plan.later.items()}
    stages, begin = builder.value(plan.stages), builder.value(plan.on_begin)
    return Phase(plan.steps, stages, every, later, begin)


def trackers(
    nodes: dict[str, object],
    config: DictConfig,
    plan: Plan,
    report_files: ReportFiles | None = None,
) -> list[Tracker]:
    """Return JSON lines, the display and the chosen tracker."""
    directory = Path(config.directory)
    chain: list[Tracker] = [JsonLines(directory=str(directory)), Display(seed=int(config.seed))]
    tracker: Any = nodes.get("tracker")
    if tracker is not None:
        if isinstance(tracker, WandB):
            tracker.config = tracker_config(config, plan)
            if report_files is not None:
                tracker.report_files = partial(report_files, directory)
        chain.append(tracker)
    return chain


def tracker_config(config: DictConfig, plan: Plan) -> dict[str, Any]:
    """Return the config for a tracker, with the values in use and references to nodes.

    A value at the root that is no setting of the run is the value that the parts use, and is left
    out if none uses it. ``choices`` has the option of every group, for filters and groups of runs:
    ``choices.advantage`` is ``leave_one_out``. A dot in the name of a group
    (``loss@learner.losses.kl``) would be a level, so it is a slash.

    Args:
        config: config of the run.
        plan: its plan.
    """
    values = cast("dict[str, Any]", _resolve_values(config))
    referred = {name for name in plan.origins.values() if "." not in name}
    for name in [*values]:
        if name in _RUN_SETTINGS or isinstance(values[name], (dict, list)):
            continue
        used_values = [n.arguments[name] for n in plan.nodes.values() if name in n.arguments]
        if used_values and all(value == used_values[0] for value in used_values):
            values[name] = used_values[0]
        elif name not in referred:
            del values[name]
    choices = {group: option for group, option in chosen_options().items() if group[:6] != "hydra/"}
    return {**values, "choices": {group.replace(".", "/"): choices[group] for group in choices}}


def _resolve_values(node: Any) -> Any:  # noqa: ANN401
    """Return a config as plain values; references to nodes and possible secrets stay texts."""
    if isinstance(node, DictConfig) and not (node._is_none() or node._is_interpolation()):
        return {str(key): _resolve_values(node._get_node(key)) for key in node}
    if isinstance(node, ListConfig) and not (node._is_none() or node._is_interpolation()):
        return [_resolve_values(node._get_node(place)) for place in range(len(node))]
    if node._is_interpolation():
        text, target = str(node._value()), node._dereference_node()
        is_node = isinstance(target, DictConfig) and "_target_" in target
        return text if is_node or "oc.env:" in text else _resolve_values(target)
    return node._value()


def resume_command(directory: Path) -> str:
    """Return the command line that continues this run; a job's is the line of its sweep."""
    if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
        directory = directory.parent
    excluded = ("directory=", "resume=", "overwrite=")
    options = [text for text in sys.argv[1:] if not text.lstrip("+").startswith(excluded)]
    size = rank_and_size()[1]
    program = "rlcomp" if size == 1 else f"torchrun --nproc-per-node {size} -m rlcomp"
    return " ".join([program, *map(shlex.quote, options), f"directory={directory}", "resume=auto"])
