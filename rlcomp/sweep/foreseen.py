"""Jobs of a sweep that will be refused: told before the first one is run."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence

from omegaconf import DictConfig, OmegaConf, open_dict

from rlcomp.errors import RlcompWarning
from rlcomp.sweep.job_configs import JobConfigs, refusals
from rlcomp.wiring.plan import read
from rlcomp.wiring.resolve import added, as_typed, check_plan, check_used

# Configs that are composed for it, at a third of a second each.
_MOST = 60
# Lines of a warning.
_SHOWN = 5


def tell_refused(
    jobs: Sequence[Sequence[str]], loader: JobConfigs, master: DictConfig, varied: Sequence[str]
) -> None:
    """Warn of jobs whose config is refused when their turn comes; the others are run.

    Not every combination is looked at, but every value in the first job that has it. What only the
    data or the model tells is told when the job is built.

    Args:
        jobs: the overrides of each, in order.
        loader: composes them.
        master: the sweep's own config.
        varied: the keys that are swept, for the names of jobs.
    """
    first: dict[str, int] = {}
    sound, faulty = set[str](), set[str]()
    for number in _first_with_each_value(jobs):
        faults = _faults(loader, master, jobs[number])
        (faulty if faults else sound).update(jobs[number])
        for fault in faults:
            first.setdefault(fault, number)
    if told := [
        f"job {number} ({_named(jobs[number], varied)}) will be refused: {fault}"
        for fault, number in first.items()
    ]:
        more = [f"... and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
        left = _without(faulty - sound, jobs, varied)
        lines = [*told[:_SHOWN], *more, *left, "the other jobs are run; Ctrl-C stops the sweep"]
        warnings.warn("\n".join(lines), RlcompWarning, stacklevel=2)


def _first_with_each_value(jobs: Sequence[Sequence[str]]) -> Iterator[int]:
    """The numbers of jobs, such that each override stands in one of them.

    Examples:
        >>> [*_first_with_each_value([["a=1", "b=1"], ["a=1", "b=2"], ["a=2", "b=1"], ["a=2"]])]
        [0, 1, 2]
    """
    seen = set[str]()
    for number, job in enumerate(jobs):
        if {*job} - seen and len(seen) < _MOST:
            seen |= {*job}
            yield number


def _without(
    bad: Collection[str], jobs: Sequence[Sequence[str]], varied: Sequence[str]
) -> list[str]:
    """What is swept without the values that every job that was looked at is refused for."""
    told = []
    for key in varied:
        words = dict.fromkeys(
            word for job in jobs for word in job if word.lstrip("+").partition("=")[0] == key
        )
        sound = [word.partition("=")[2] for word in words if word not in bad]
        if sound and len(sound) < len(words):
            told.append(f"without them: {key}={','.join(sound)}")
    return told


def _named(job: Sequence[str], varied: Sequence[str]) -> str:
    return " ".join(word for word in job if word.lstrip("+").partition("=")[0] in varied) or "all"


def _faults(loader: JobConfigs, master: DictConfig, job: Sequence[str]) -> list[str]:
    """What its config would be refused for."""
    config, refused = loader.sifted(master, job)
    if refused:
        return refusals(refused, [config]).splitlines()
    words = [*job]
    OmegaConf.set_struct(config, False)
    with open_dict(config):
        config.pop("hydra", None)
    if faults := check_used(config, added(words), words):
        return faults
    plan, errors = read(config)
    return as_typed(errors + check_plan(plan), words, plan)
