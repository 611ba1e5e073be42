"""Hyper-parameter search by Optuna: ``rlcomp -m hydra/sweeper=optuna ...`` (extra ``optuna``)."""

from __future__ import annotations

import inspect
import json
import sys
from abc import ABCMeta
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeInt, PositiveInt
from rlcomp.errors import ConfigError, Interrupted, RlcompError, UserError, nearest, require
from rlcomp.sweep.job_configs import check_known, restore_hidden_words, with_job_configs
from rlcomp.sweep.jobs import overrides_of, texts_of


class Space:
    """Search space: every override with several values, except seeds.

    Args:
        arguments: overrides, as on the command line.
        config_loader: finds the options that match a ``glob``.

    Attributes:
        searched: the overrides with several values, by key.
        seeds: ``seed=N`` for each run of a trial; an empty text without a seed.
        fixed: the other overrides, ``key=value``.

    Raises:
        ConfigError: no override except seeds has several values, or ``seed`` is an interval.
    """

    def __init__(self, arguments: Sequence[str], config_loader: ConfigLoader | None = None) -> None:
        overrides = overrides_of(arguments, config_loader)
        seeds = overrides.get("seed")
        swept = {
            key: override for key, override in overrides.items() if override.is_sweep_override()
        }
        self.searched = {key: override for key, override in swept.items() if key != "seed"}
        if not self.searched:
            raise ConfigError(
                "there is nothing to search: give a value a range, "
                "learner.optimizer.lr='tag(log,interval(1e-4,1e-2))', or several, loss=grpo,policy"
            )
        if seeds is not None and seeds.is_sweep_override() and not seeds.is_discrete_sweep():
            raise ConfigError("seed is an interval: list the seeds of a trial, seed=0,1,2")
        self.seeds = [""] if seeds is None else texts_of(seeds)
        self.fixed = [
            texts_of(override)[0]
            for key, override in overrides.items()
            if key not in {*swept, "seed"}
        ]

    def jobs(self, trial: Any) -> list[list[str]]:  # noqa: ANN401
        """Return the overrides of every run of an ``optuna.Trial``, one run a seed."""
        chosen = [
            f"{override.get_key_element()}={_suggest(trial, key, override)}"
            for key, override in self.searched.items()
        ]
        return [[*chosen, *self.fixed, *([seed] if seed else [])] for seed in self.seeds]


def _suggest(trial: Any, key: str, override: Override) -> object:  # noqa: ANN401
    sweep = override.value()
    if not isinstance(sweep, IntervalSweep):
        return trial.suggest_categorical(key, [*override.sweep_string_iterator()])
    low, high, log = sweep.start, sweep.end, "log" in sweep.tags
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(key, low, high, log=log)
    return trial.suggest_float(key, low, high, log=log)


class _CheckedPlugin(Checked, ABCMeta):
    """Metaclass of checked classes that are Hydra plugins as well."""


class Search(Sweeper, metaclass=_CheckedPlugin):
    """Hyper-parameter search by Optuna's TPE, as a Hydra sweeper.

    The search space consists of all overrides with several values on the command line, in
    ``hydra.sweeper.params`` or in an experiment: ``lr=interval(1e-4,1e-2)``,
    ``lr=tag(log,interval(1e-4,1e-2))``, ``n=int(interval(1,8))``,
    ``advantage=group_mean,leave_one_out``. Seeds are not part of it: every trial runs all of them,
    and their mean counts. A trial with a failed run fails; the search continues, but its exit code
    is not 0. The search is saved in the sweep's directory (``study.log``): the same command line
    continues a stopped one.

    Args:
        metric: the objective; its last value in a run's ``metrics.jsonl`` counts.
        direction: whether high (``maximize``) or low (``minimize``) values are better.
        n_trials: number of points.
        n_jobs: number of points at a time, for launchers that run jobs in parallel.
        n_random: number of random points at the beginning.
        seed: seeds the draws.
        params: as for Hydra's own sweeper.
    """

    def __init__(
        self,
        *,
        metric: NonEmptyText = "evaluation/sampled",
        direction: Literal["maximize", "minimize"] = "maximize",
        n_trials: PositiveInt = 20,
        n_jobs: PositiveInt = 1,
        n_random: NonNegativeInt = 10,
        seed: NonNegativeInt = 0,
        params: dict[str, object] | None = None,
    ) -> None:
        self.metric = metric
        self.direction = direction
        self.n_trials = n_trials
        self.n_jobs = n_jobs
        self.n_random = n_random
        self.seed = seed
        self.params = dict(params or {})
        self.launcher: Launcher | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Set up the sweeper; called by Hydra."""
        hydra_context = with_job_configs(hydra_context)
        self.hydra_context = hydra_context
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Search, print the best point, and write ``search.json`` to the sweep's directory.

        Raises:
            ConfigError: the search space is empty, the directory holds another search, no run knows
                an override, or runs do not record the metric.
            Interrupted: a run was interrupted; the same command line continues the search.
            UserError: every trial failed.
            RlcompError: some trials failed; the best point is printed first.
        """
        assert self.config is not None
        assert self.hydra_context is not None
        words = restore_hidden_words(arguments, self.config)
        requested = [*(f"{key}={value}" for key, value in self.params.items()), *words]
        check_known(requested, self.hydra_context, self.config)
        space = Space(requested, self.hydra_context.config_loader)
        directory = Path(self.config.hydra.sweep.dir)
        directory.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, directory / "multirun.yaml")
        study = self._study(directory, requested)
        failed = require("optuna.trial", "optuna").TrialState.FAIL
        while batch := self._next(study, space):
            values = self._run([trial.user_attrs["jobs"] for trial in batch], batch[0].number)
            for trial, value in zip(batch, values, strict=True):
                study.tell(trial.number, value, state=failed if value is None else None)
        self._report(study, directory)

    def _study(self, directory: Path, overrides: Sequence[str]) -> Any:  # noqa: ANN401
        """Return the earlier search in this directory, or a new one."""
        optuna = require("optuna", "optuna")
        journal = require("optuna.storages.journal", "optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        file = journal.JournalFileBackend(str(directory / "study.log"))
        study = optuna.create_study(
            study_name="search",
            storage=optuna.storages.JournalStorage(file),
            direction=self.direction,
            load_if_exists=True,
        )
        # A continued search must not repeat its draws.
        seed = self.seed + len(study.trials)
        study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=self.n_random)
        terms = [self.metric, self.direction, *sorted(overrides)]
        if study.user_attrs.get("terms", terms) != terms:
            raise ConfigError(
                f"directory is {directory}, and another search is in it: choose another directory"
            )
        study.set_user_attr("terms", terms)
        return study

    def _next(self, study: Any, space: Space) -> Sequence[Any]:  # noqa: ANN401
        """Return the next trials: a stopped one, else new ones, until there are enough."""
        trials = study.trials
        for trial in trials:
            if not trial.state.is_finished():
                return [trial]
        new = [study.ask() for _ in range(min(self.n_jobs, self.n_trials - len(trials)))]
        for trial in new:
            trial.set_user_attr("jobs", space.jobs(trial))
        return new

    def _run(self, trials: Sequence[Sequence[Sequence[str]]], first: int) -> list[float | None]:
        """Launch the jobs of trials; return the mean over each trial's runs, None if a run failed.

        ``first`` is the number of the first trial.
        """
        jobs = [job for trial in trials for job in trial]
        num_seeds = len(trials[0])
        results = self.launcher.launch(jobs, initial_job_idx=first * num_seeds)  # type: ignore[union-attr]
        values = [self._value(result) for result in results]
        groups = [values[start : start + num_seeds] for start in range(0, len(values), num_seeds)]
        return [
            None
            if None in group
            else sum(value for value in group if value is not None) / num_seeds
            for group in groups
        ]

    def _value(self, result: JobReturn) -> float | None:
        """Return the last value of the metric in a run; None if the run failed or that is null.

        A failed run has reported the reason. An interrupted run interrupts the search.
        """
        from rlcomp.files.json_lines import read_metrics

        if result.status != JobStatus.COMPLETED:
            if isinstance(result._return_value, Interrupted):
                raise result._return_value
            return None
        directory = Path(result.hydra_cfg.hydra.runtime.output_dir)  # type: ignore[union-attr]
        rows = read_metrics(directory / "metrics.jsonl")
        values = [row[self.metric] for row in rows if self.metric in row]
        if not values:
            known = {name for row in rows for name in row}
            raise ConfigError(
                f"hydra.sweeper.metric is {self.metric!r}, and {directory} did not record it"
                f"{nearest(self.metric, known)}"
            )
        return None if values[-1] is None else float(values[-1])

    def _report(self, study: Any, directory: Path) -> None:  # noqa: ANN401
        """Write all trials to a file, and print the best."""
        trials = [
            {"trial": trial.number, "value": trial.value, "jobs": trial.user_attrs["jobs"]}
            for trial in study.trials
        ]
        record = {"metric": self.metric, "direction": self.direction, "trials": trials}
        (directory / "search.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
        failed = sum(trial["value"] is None for trial in trials)
        if failed == len(trials):
            raise UserError(f"all {failed} trials failed: see rlcomp-report {directory}")
        best = study.best_trial
        chosen = " ".join(f"{key}={value}" for key, value in best.params.items())
        print(
            f"{len(trials)} trials, {failed} failed\n"
            f"best trial {best.number}: {self.metric} {best.value:.4g} with {chosen}"
        )
        if failed:
            raise RlcompError(
                f"{failed} of {len(trials)} trials failed, each with a failure.json: see "
                f"rlcomp-report {directory}"
            )


def offer_search() -> None:
    """Register ``hydra/sweeper=optuna``, and our grid as the sweeper of every other sweep."""
    from rlcomp.sweep.grid import offer_grid  # not for --help: the import searches for plugins

    folder = str(Path(__file__).parent / "plugins")
    if folder not in sys.path:
        sys.path.append(folder)
    target = "hydra_plugins.rlcomp_search.OptunaSearch"
    Plugins.instance().register(get_class(target))
    offer_grid()
    arguments = list(inspect.signature(Search.__init__).parameters.values())[1:]
    node = {"_target_": target} | {argument.name: argument.default for argument in arguments}
    ConfigStore.instance().store(group="hydra/sweeper", name="optuna", node=node)
