"""The command line: a Hydra app. torch is imported only once the config is known to be sound."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
import yaml  # type: ignore[import-untyped]
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rlcomp.arguments import NonEmptyText, problem
from rlcomp.cli.guard import explain, guard, user_directories
from rlcomp.cli.help import help_text
from rlcomp.cli.overrides import check_overrides
from rlcomp.errors import ConfigError, ConfigErrors, Interrupted, UserError
from rlcomp.io.outcome import failure_kept
from rlcomp.sweep.job_configs import REFUSED, hidden, sift
from rlcomp.sweep.jobs import labels
from rlcomp.sweep.search import offer_search
from rlcomp.wiring.explain import unreadable_yaml
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.resolve import plan_of


def main() -> None:
    """``rlcomp``: compose, check, build, run."""
    guard(_app)


class Jobs:
    """Hydra's task function, called once or for every job of a sweep; collects errors.

    Hydra reports a job's exceptions in its own way, so the error of a single run is kept and raised
    when Hydra is done.
    """

    def __init__(self) -> None:
        self.failed: list[Exception] = []
        self.started = False

    def __call__(self, config: DictConfig) -> None:
        """One job."""
        self.started = True
        if self.interrupted():
            return  # the sweep was stopped, not one of its jobs
        try:
            with failure_kept(Path(HydraConfig.get().runtime.output_dir), explain):
                run_job(config)
        # Whatever a job fails by: it is told and raised again, none is swallowed but the user's own
        # mistakes, which are raised when Hydra is done.
        except Exception as error:
            expected = isinstance(error, (UserError, OmegaConfBaseException, Interrupted))
            multirun = HydraConfig.get().mode == RunMode.MULTIRUN
            if isinstance(error, Interrupted) or (expected and not multirun):
                self.failed.append(error)
            if multirun:
                # Raised: a launcher may run this in a process of its own, where the list is
                # another. Hydra goes on with the other jobs, and its sweeper raises in the end.
                kind = "" if expected else f"{type(error).__name__}: "
                number = HydraConfig.get().job.num
                print(f"rlcomp: job {number}: {kind}{explain(error)}", file=sys.stderr)
                raise
            if not expected:
                raise

    def interrupted(self) -> list[Exception]:
        """The jobs that were stopped on request."""
        return [error for error in self.failed if isinstance(error, Interrupted)]

    def describe_error(self, error: Exception) -> Exception:
        """The message for an error raised by Hydra itself, or for a job."""
        if self.interrupted():
            return self.interrupted()[0]
        if self.started or isinstance(error, (UserError, HydraException)):
            return error
        if isinstance(error, OSError):
            return UserError(f"{error}: choose a directory you can write into, directory=...")
        if isinstance(error, (yaml.YAMLError, UnicodeDecodeError, RecursionError)):
            return UserError(unreadable_yaml(error, user_directories()))
        return error


def _app() -> None:
    if {"--help", "-h"} & set(sys.argv[1:]):
        print(help_text([config_directory(), *map(Path, user_directories())]))
        return
    given = get_args_parser().parse_args(sys.argv[1:]).overrides
    check_overrides(given, [config_directory(), *map(Path, user_directories())])
    offer_search()
    jobs = Jobs()
    app = hydra.main(version_base="1.3", config_path=str(config_directory()), config_name="config")
    try:
        try:
            app(jobs)()
        except HydraException:
            words = [] if jobs.started else unknown_to_sweep(sys.argv[1:])
            if not words:
                raise
            with hidden(words):
                app(jobs)()
    except (OSError, ValueError, yaml.YAMLError, RecursionError, Interrupted) as error:
        raise jobs.describe_error(error) from error
    if jobs.failed:
        raise jobs.failed[0]


def unknown_to_sweep(words: Sequence[str]) -> list[str]:
    """The overrides that a sweep's own config does not know: jobs with other choices may."""
    given = get_args_parser().parse_args(words)
    if not given.multirun:
        return []
    place = create_config_search_path(str(config_directory()))
    for directory in user_directories():
        own, anchor = f"file://{Path(directory).resolve()}", SearchPathQuery(provider="schema")
        place.prepend(provider="command-line", path=own, anchor=anchor)
    loader = ConfigLoaderImpl(place)
    _, refused = sift(
        lambda texts: loader.load_configuration("config", texts, RunMode.MULTIRUN), given.overrides
    )
    return [text for text, _ in refused]


def run_job(config: DictConfig) -> None:
    """One run, or one job of a sweep."""
    if refused := HydraConfig.get().job.env_set.get(REFUSED):
        raise ConfigErrors(refused.splitlines())
    OmegaConf.set_struct(config, False)
    if fault := problem(NonEmptyText, config.directory):
        raise ConfigError(f"directory is {config.directory!r}: {fault}; set directory=...")
    config.directory = str(Path(HydraConfig.get().runtime.output_dir).resolve())
    _label(config)
    plan = plan_of(config)
    from rlcomp.report.summary import summarise
    from rlcomp.run.launch import launch

    launch(config, plan)
    print(summarise(config.directory))


def _label(config: DictConfig) -> None:
    """W&B's group, job type and tags from the sweep, where the config does not set them."""
    tracker = config.get("tracker")
    if not tracker or "job_type" not in tracker:
        return
    with open_dict(tracker):
        for name, value in labels(HydraConfig.get()).items():
            if not tracker.get(name):
                tracker[name] = value


if __name__ == "__main__":
    main()
