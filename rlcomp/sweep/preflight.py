"""Preflight of a sweep: warning of jobs that will be refused, before the first job runs."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence

from omegaconf import DictConfig, OmegaConf, open_dict

from rlcomp.config.checks.overrides import check_added
from rlcomp.config.finding import messages
from rlcomp.config.plan import read
from rlcomp.config.resolve import check_plan, typed_messages
from rlcomp.errors import RlcompWarning
from rlcomp.sweep.job_configs import JobConfigs, describe_refused

_MAX_CONFIGS = 60  # with so many overrides checked, the check ends; a job takes a third of a second
_MAX_SHOWN = 5  # jobs in a warning


def warn_of_refused_jobs(
    jobs: Sequence[Sequence[str]], loader: JobConfigs, master: DictConfig, varied: Sequence[str]
) -> None:
    """Warn of jobs with a config that will be refused; the others run.

    Every value is checked in the first job that has it, not every combination, until about 60
    overrides are checked. Faults of data or model are reported when the job is built.

    Args:
        jobs: the overrides of each job, in order.
        loader: composes the configs of jobs.
        master: the sweep's own config.
        varied: the swept keys.
    """
    first: dict[str, int] = {}  # the first job with each fault
    accepted, rejected = set[str](), set[str]()
    for number in _jobs_with_each_value(jobs):
        faults = _faults(loader, master, jobs[number])
        (rejected if faults else accepted).update(jobs[number])
        for fault in faults:
            first.setdefault(fault, number)
    if refusals := [
        f"job {number} ({_job_name(jobs[number], varied)}) will be refused: {fault}"
        for fault, number in first.items()
    ]:
        more = [f"... and {len(refusals) - _MAX_SHOWN} more"] if len(refusals) > _MAX_SHOWN else []
        remedies = _remedies(rejected - accepted, jobs, varied)
        lines = [
            *refusals[:_MAX_SHOWN],
            *more,
            *remedies,
            "the other jobs run; Ctrl-C stops the sweep",
        ]
        warnings.warn("\n".join(lines), RlcompWarning, stacklevel=2)


def _jobs_with_each_value(jobs: Sequence[Sequence[str]]) -> Iterator[int]:
    """Yield the indices of jobs that together contain each override, or at least 60 of them.

    Examples:
        >>> [*_jobs_with_each_value([["a=1", "b=1"], ["a=1", "b=2"], ["a=2", "b=1"], ["a=2"]])]
        [0, 1, 2]
    """
    words = set[str]()
    for number, job in enumerate(jobs):
        if {*job} - words and len(words) < _MAX_CONFIGS:
            words |= {*job}
            yield number


def _remedies(
    rejected: Collection[str], jobs: Sequence[Sequence[str]], varied: Sequence[str]
) -> list[str]:
    """Return a hint for each swept key that has refused values: the key with its other values."""
    hints = []
    for key in varied:
        words = dict.fromkeys(
            word for job in jobs for word in job if word.lstrip("+").partition("=")[0] == key
        )
        accepted = [word.partition("=")[2] for word in words if word not in rejected]
        if accepted and len(accepted) < len(words):
            hints.append(f"without the refused values: {key}={','.join(accepted)}")
    return hints


def _job_name(job: Sequence[str], varied: Sequence[str]) -> str:
    """Return the job's values of the varied keys; ``all`` if it has none."""
    return " ".join(word for word in job if word.lstrip("+").partition("=")[0] in varied) or "all"


def _faults(loader: JobConfigs, master: DictConfig, job: Sequence[str]) -> list[str]:
    """Return the reasons to refuse a job's config."""
    config, refused = loader.compose_known(master, job)
    if refused:
        return describe_refused(refused, [config]).splitlines()
    words = [*job]
    OmegaConf.set_struct(config, False)
    with open_dict(config):
        config.pop("hydra", None)
    if faults := messages(check_added(config, words)):
        return faults
    plan, errors = read(config, words)
    return typed_messages(errors + check_plan(plan), plan)
