"""Grids and spaces of a sweep, and labels of its jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper, BasicSweeperConf
from hydra.conf import HydraConf
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, RunMode, TaskFunction
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from rlcomp.errors import ConfigError
from rlcomp.sweep.job_configs import check_known, each_by_itself, unhidden
from rlcomp.sweep.jobs import asked, check_count, overrides_of, plain_key, texts_of, varied
from rlcomp.sweep.preflight import tell_refused


class Space:
    """Points of a search.

    Args:
        arguments: overrides, as on the command line.
        config_loader: finds the options that match a ``glob``.

    Raises:
        ConfigError: no override except seeds has several values.
    """

    def __init__(self, arguments: Sequence[str], config_loader: ConfigLoader | None = None) -> None:
        overrides = overrides_of(arguments, config_loader)
        seeds = overrides.get("seed")
        swept = {key: o for key, o in overrides.items() if o.is_sweep_override()}
        self.searched = {key: override for key, override in swept.items() if key != "seed"}
        if not self.searched:
            raise ConfigError(
                "there is nothing to search: give a value a range, "
                "learner.optimizer.lr='tag(log,interval(1e-4,1e-2))', or several, loss=grpo,policy"
            )
        if seeds is not None and seeds.is_sweep_override() and not seeds.is_discrete_sweep():
            raise ConfigError("seed is an interval: list the seeds of a trial, seed=0,1,2")
        self.seeds = [""] if seeds is None else texts_of(seeds)
        self.fixed = [texts_of(o)[0] for key, o in overrides.items() if key not in {*swept, "seed"}]

    def jobs(self, trial: Any) -> list[list[str]]:  # noqa: ANN401
        """Return the overrides of every run of a trial, one a seed.

        Args:
            trial: an ``optuna.Trial``, which suggests values.
        """
        chosen = [
            f"{override.get_key_element()}={_suggested(trial, key, override)}"
            for key, override in self.searched.items()
        ]
        return [[*chosen, *self.fixed, *([seed] if seed else [])] for seed in self.seeds]


def _suggested(trial: Any, key: str, override: Override) -> object:  # noqa: ANN401
    sweep = override.value()
    if not isinstance(sweep, IntervalSweep):
        return trial.suggest_categorical(key, [*override.sweep_string_iterator()])
    low, high, log = sweep.start, sweep.end, "log" in sweep.tags
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(key, low, high, log=log)
    return trial.suggest_float(key, low, high, log=log)


# Hydra executes the modules of its plugins when it searches them, even imported ones: a class
# inherited before that would differ from the class that its own methods know.
Plugins.instance()

TARGET = "hydra_plugins.rlcomp_search.BasicSweeper"


class Grid(BasicSweeper):
    """Sweeper over all combinations of multi-valued overrides; each must fit at least one job."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Set up the sweeper; called by Hydra."""
        context = each_by_itself(hydra_context)
        super().setup(hydra_context=context, task_function=task_function, config=config)

    def sweep(self, arguments: list[str]) -> Any:  # noqa: ANN401
        """Run all jobs."""
        assert self.config is not None
        assert self.hydra_context is not None
        whole = unhidden(arguments, self.config)
        overrides = OverridesParser.create(self.hydra_context.config_loader).parse_overrides(whole)
        check_count([*overrides], product=True)
        requested = [*self._parse_config(), *whole]
        check_known(requested, self.hydra_context, self.config)
        loader: Any = self.hydra_context.config_loader
        (jobs,) = self.split_arguments([*overrides_of(requested, loader).values()], None)
        tell_refused(jobs, loader, self.config, varied(requested))
        return super().sweep(whole)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Accept every batch: each job is checked by itself when it starts."""
        del batch


def offer_grid() -> None:
    """Register in place of Hydra's own sweeper."""
    Plugins.instance().register(get_class(TARGET))
    node = BasicSweeperConf(_target_=TARGET)
    ConfigStore.instance().store(group="hydra/sweeper", name="basic", node=node, provider="rlcomp")


# Limits of W&B.
_LONGEST_NAME, _LONGEST_TAG = 128, 64
# Options that decide where numbers go, and not what they are.
_NO_METHODS = ("tracker", "experiment", "hydra")


def labels(hydra_config: HydraConf) -> dict[str, object]:
    """Return name, group, job type and tags of one job.

    Returns:
        ``run_name``: this job's values of the varied keys (``advantage=leave_one_out seed=1``),
        outside a sweep the recipe and the options and seed of the command line; ``tags``: recipe
        and options of the command line, without seeds and numbers; in a sweep also ``group``, its
        directory, and ``job_type``, the varied keys without seeds.
    """
    own = [str(text) for text in OmegaConf.to_container(hydra_config.overrides.task)]  # type: ignore[union-attr]
    choices = hydra_config.runtime.choices
    methods = _methods(own, choices)
    recipe = f"recipe={choices.get('recipe')}"
    tags = [text[:_LONGEST_TAG] for text in dict.fromkeys([recipe, *methods])]
    if hydra_config.mode != RunMode.MULTIRUN:
        words = [str(choices.get("recipe")), *(text for text in methods if text != recipe)]
        return {"run_name": _name([*words, *_of(own, ["seed"])]), "tags": tags}
    directory = Path(hydra_config.runtime.cwd) / hydra_config.sweep.dir
    axes = varied(asked(directory)) or [_key(text) for text in own]
    return {
        "run_name": _name(_of(own, axes)),
        "group": directory.name,
        "job_type": "+".join([axis for axis in axes if axis != "seed"] or ["seed"]),
        "tags": tags,
    }


def _methods(own: Sequence[str], groups: Collection[str]) -> list[str]:
    """Return the options of the command line, ``group=option``, except for removed ones."""
    return [
        text.lstrip("+")
        for text in own
        if _key(text) in groups and not _key(text).startswith(_NO_METHODS) and text[:1] != "~"
    ]


def _of(own: Sequence[str], keys: Collection[str]) -> list[str]:
    return [text.lstrip("+") for text in own if _key(text) in keys]


def _key(text: str) -> str:
    return plain_key(text.partition("=")[0])


def _name(words: Sequence[str]) -> str:
    return " ".join(words)[:_LONGEST_NAME]
