"""The command line: a Hydra app. torch is imported only after all checks of the config."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import hydra
import yaml  # type: ignore[import-untyped]
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf, open_dict

from rlcomp import __version__
from rlcomp.arguments import NonEmptyText, problem
from rlcomp.cli.command_arguments import add_config_dirs, overrides_first
from rlcomp.cli.error_handler import error_report, run_program, user_directories
from rlcomp.cli.escape import printable
from rlcomp.cli.overrides import (
    check_folders,
    check_modes,
    check_no_config_file,
    check_options,
    check_overrides,
    check_sweep_directory,
    hydra_arguments,
    warn_repeated,
)
from rlcomp.cli.ranks import check_rank_settings, is_first_rank, rank_folder
from rlcomp.cli.supervisor import run_in_child
from rlcomp.config.choices import check_choices
from rlcomp.config.options import config_directory
from rlcomp.config.overrides import filter_overrides, with_base
from rlcomp.config.plan import Plan
from rlcomp.config.resolve import plan_of, traced_errors
from rlcomp.config.user_yaml import check_own_yamls
from rlcomp.errors import ConfigError, ConfigErrors, Died, Interrupted, RunFailed, UserError
from rlcomp.files.run_record import chosen_options, record_failure
from rlcomp.files.shared_status import SharedStatus, storage_errors
from rlcomp.sweep.job_configs import REFUSED_VARIABLE, hide_words
from rlcomp.sweep.labels import labels
from rlcomp.sweep.search import offer_search
from rlcomp.trackers.tracker import closing_tracker


def main(*, apart: bool = True) -> None:
    """Compose, check, build and run a config: the program ``rlcomp``.

    Args:
        apart: whether each run gets a process of its own (:mod:`rlcomp.cli.supervisor`).
    """
    argv = sys.argv
    sys.argv = [*argv[:1], *overrides_first(with_base(argv)[1:])]  # Hydra reads them there
    try:
        run_program(lambda: _app(apart), single_process=False)
    finally:
        sys.argv = argv


class Jobs:
    """Hydra's task function, called for a run or for every job of a sweep; collects errors.

    Hydra would report an exception in its own way. So the error of a single run is stored, and
    raised when Hydra is done.
    """

    def __init__(self, *, apart: bool) -> None:
        self.apart = apart
        self.errors: list[Exception] = []
        self.started = False

    def __call__(self, config: DictConfig) -> None:
        """Run one job."""
        self.started = True
        if self.interruptions():
            return  # the sweep was stopped, not one of its jobs
        status = SharedStatus(supervised=self.apart)
        multirun = HydraConfig.get().mode == RunMode.MULTIRUN
        try:
            with record_failure(Path(HydraConfig.get().runtime.output_dir), status, error_report):
                run_job(config, status, preload=multirun)
        except Exception as error:
            if isinstance(error, Interrupted) or not multirun:
                self.errors.append(error)
            if multirun:
                # Raised again: a launcher may run this in another process. Hydra goes on with the
                # other jobs, and its sweeper raises at the end.
                report = error_report(error)
                kind = "" if report["foreseen"] else f"{report['type']}: "
                number = HydraConfig.get().job.num
                print(printable(f"rlcomp: job {number}: {kind}{report['error']}"), file=sys.stderr)
                if isinstance(error, Died):  # a sweep must not die of the cause that killed a job
                    raise RunFailed({**report, "exit_code": 1}) from error
                raise

    def interruptions(self) -> list[Exception]:
        """Return the errors of the jobs that were stopped on request."""
        return [error for error in self.errors if isinstance(error, Interrupted)]

    def describe_error(self, error: Exception) -> Exception:
        """Return the error to report for an error that Hydra or a job raised."""
        if self.interruptions():
            return self.interruptions()[0]
        if self.started or isinstance(error, (UserError, HydraException)):
            return error
        if isinstance(error, OSError):
            return UserError(f"{error}: choose a directory you can write into, directory=...")
        if isinstance(error, (yaml.YAMLError, UnicodeDecodeError, RecursionError)):
            from rlcomp.advice.explain import unreadable_yaml

            return UserError(unreadable_yaml(error, user_directories()))
        return error


def _app(apart: bool) -> None:
    sys.argv = add_config_dirs(sys.argv)
    config_directories = [config_directory(), *map(Path, user_directories())]
    if {"--help", "-h"} & set(sys.argv[1:]):
        from rlcomp.cli.help import help_text, print_help

        excluded = {"help", *user_directories()}
        words = [w for w in sys.argv[1:] if re.fullmatch(r"\w+", w) and w not in excluded]
        return (
            print_help(words, config_directories) if words else print(help_text(config_directories))
        )
    if "--version" in sys.argv[1:]:
        return print(f"rlcomp {__version__}")
    check_no_config_file(sys.argv[1:])
    arguments, unknown = hydra_arguments(sys.argv[1:])
    if arguments.overrides[:1] == ["help"]:
        from rlcomp.cli.help import print_help

        return print_help(arguments.overrides[1:], config_directories)
    check_options(sys.argv[1:], unknown, config_directories)
    check_modes(sys.argv[1:], arguments)
    overrides = arguments.overrides
    check_overrides(overrides, config_directories)
    check_folders(user_directories())
    check_choices(sys.argv[1:], user_directories())
    check_own_yamls(overrides, user_directories())
    if arguments.multirun:
        check_sweep_directory(overrides)
    warn_repeated(overrides)
    offer_search()
    jobs = Jobs(apart=apart)
    app = hydra.main(version_base="1.3", config_path=str(config_directory()), config_name="config")
    try:
        with rank_folder(multirun=arguments.multirun):
            _run_hydra(app, jobs)
    except (OSError, ValueError, yaml.YAMLError, RecursionError, Interrupted) as error:
        raise jobs.describe_error(error) from error
    if jobs.errors:
        raise jobs.errors[0]


def _run_hydra(app: Callable[[Jobs], Callable[[], None]], jobs: Jobs) -> None:
    try:
        app(jobs)()
    except HydraException:
        words = [] if jobs.started else overrides_unknown_to_sweep(sys.argv[1:])
        if not words:
            raise
        with hide_words(words):
            app(jobs)()


def overrides_unknown_to_sweep(words: Sequence[str]) -> list[str]:
    """Return the overrides that a sweep's base config does not know; jobs may know them."""
    arguments = get_args_parser().parse_args(words)
    if not arguments.multirun:
        return []
    search_path = create_config_search_path(str(config_directory()))
    for directory in user_directories():
        path, anchor = f"file://{Path(directory).resolve()}", SearchPathQuery(provider="schema")
        search_path.prepend(provider="command-line", path=path, anchor=anchor)
    loader = ConfigLoaderImpl(search_path)
    _, refused = filter_overrides(
        lambda texts: loader.load_configuration("config", texts, RunMode.MULTIRUN),
        arguments.overrides,
    )
    return [text for text, _ in refused]


def run_job(config: DictConfig, status: SharedStatus, *, preload: bool) -> None:
    """Check and run a config, of a run or of a job of a sweep.

    Args:
        config: config of the run.
        status: shared status of the run; if it is ``supervised``, the run gets its own process.
        preload: import torch before the process of the run begins, once for all jobs.
    """
    if refused := HydraConfig.get().job.env_set.get(REFUSED_VARIABLE):
        raise ConfigErrors(refused.splitlines())
    OmegaConf.set_struct(config, False)
    if fault := problem(NonEmptyText, config.directory):
        raise ConfigError(f"directory is {config.directory!r}: {fault}; set directory=...")
    config.directory = str(Path(HydraConfig.get().runtime.output_dir).resolve())
    _set_tracker_labels(config)
    words = cast("list[str]", OmegaConf.to_container(HydraConfig.get().overrides.task))
    words += cast("list[str]", OmegaConf.to_container(HydraConfig.get().overrides.hydra))
    # Before its first job a sweep checks that some job reads each override.
    multirun = HydraConfig.get().mode == RunMode.MULTIRUN
    choices = None if multirun else chosen_options()
    plan = plan_of(config, words, choices=choices, config_dirs=user_directories())
    check_rank_settings(plan)
    if preload:
        importlib.import_module("rlcomp.run.launch")

    job = partial(_launch_and_summarise, config, plan, status)
    if status.supervised:
        with _tracker_closed(config, status):
            run_in_child(job, status)
    else:
        job()


def _tracker_closed(config: DictConfig, status: SharedStatus) -> AbstractContextManager[None]:
    """Return a context that closes the tracker of a run that dies."""
    tracker = config.get("tracker")
    if not tracker or not is_first_rank():
        return nullcontext()
    settings = cast("dict[str, Any]", OmegaConf.to_container(tracker, resolve=True))
    return closing_tracker(get_object(str(settings.pop("_target_"))), settings, status)


def _launch_and_summarise(config: DictConfig, plan: Plan, status: SharedStatus) -> None:
    from rlcomp.run.launch import launch

    with traced_errors(plan):
        launch(config, plan, status, _files_for_tracker)
    if is_first_rank():
        from rlcomp.report.summary import summarise

        with storage_errors("the summary", status):
            print(summarise(config.directory), flush=True)


def _files_for_tracker(directory: Path) -> Sequence[Path]:
    """Write the report of a finished run; return its files."""
    from rlcomp.cli.report import report_files

    return report_files(directory)


def _set_tracker_labels(config: DictConfig) -> None:
    """Set the unset of W&B's name, group, job type and tags by what distinguishes the run."""
    tracker = config.get("tracker")
    if not tracker or "job_type" not in tracker:
        return
    with open_dict(tracker):
        for name, value in labels(HydraConfig.get()).items():
            if name in tracker and not tracker[name]:
                tracker[name] = value


if __name__ == "__main__":
    main()
