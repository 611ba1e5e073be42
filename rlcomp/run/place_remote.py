"""Placement of remote stages in phases, in place of the stages that they run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from rlcomp.interfaces.cluster import Cluster
from rlcomp.run.async_rollout import FreeStages
from rlcomp.run.phase import Phase
from rlcomp.run.remote import RemoteStages
from rlcomp.run.stages import Sequence


def place_remote(
    phases: Mapping[str, Phase],
    nodes: dict[str, object],
    runs: Iterable[tuple[str, ...]],
    directory: Path,
) -> None:
    """Put remote stages into phases, in place of the stages that they run.

    Args:
        phases: built phases.
        nodes: nodes by path; the remote stages are added, as ``cluster.<path of the first stage>``
            (and ``.free`` under that schedule), and their workers as ``cluster.<path>.workers``.
        runs: the stages that run on workers, as
            :func:`rlcomp.config.checks.distributed.remote_runs` lists them.
        directory: directory of the run.
    """
    cluster = nodes.get("cluster")
    if not isinstance(cluster, Cluster):
        return
    for number, run in enumerate(runs):
        stages: list[Any] = [nodes[path] for path in run]
        workers = cluster if number == 0 else cluster.unstarted_copy()
        free = cluster.schedule == "free"
        remote = (FreeStages if free else RemoteStages)(stages=stages, cluster=workers)
        remote.path, remote.directory = run[0], directory
        # The two schedules save different rollouts. The state has another name for each, so that a
        # run that continues under the other schedule begins without rollouts.
        name = f"cluster.{run[0]}.free" if free else f"cluster.{run[0]}"
        nodes |= {name: remote, f"cluster.{run[0]}.workers": workers}
        for phase in phases.values():
            phase.stages = _replace_run(phase.stages, stages, remote)
            later = phase.later.items()
            phase.later = {
                step: _replace_run(stage_list, stages, remote) for step, stage_list in later
            }


def _replace_run(stages: Iterable[nn.Module], run: list[object], remote: RemoteStages) -> list[Any]:
    """Return a list with several stages replaced by one; loops in it are changed in place."""
    stage_list = list(stages)
    for index, stage in enumerate(stage_list):
        if isinstance(stage, Sequence) and stage is not remote:
            stage.stages = nn.ModuleList(_replace_run(stage.stages, run, remote))
        if all(a is b for a, b in itertools.zip_longest(stage_list[index : index + len(run)], run)):
            stage_list[index : index + len(run)] = [remote]
    return stage_list
