"""Hydra's own sweeper, for jobs whose configs have different keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, TaskFunction
from hydra.utils import get_class
from omegaconf import DictConfig

from rlcomp.sweep.job_configs import check_known, restore_hidden_words, with_job_configs
from rlcomp.sweep.jobs import check_count, overrides_of, swept_keys
from rlcomp.sweep.preflight import warn_of_refused_jobs

# Hydra executes the modules of its plugins when it searches for them, even imported ones. A class
# imported before that would differ from the class in Hydra's registry.
Plugins.instance()
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper, BasicSweeperConf  # noqa: E402

# Subclass of Grid in the package that Hydra searches for plugins. It has the name of Hydra's own
# sweeper, by which jobs_of_sweep knows a grid.
TARGET = "hydra_plugins.rlcomp_search.BasicSweeper"


class Grid(BasicSweeper):
    """Sweeper over all combinations of multi-valued overrides.

    An override must fit at least one job; a job that it does not fit fails alone.
    """

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Set up the sweeper; called by Hydra."""
        context = with_job_configs(hydra_context)
        super().setup(hydra_context=context, task_function=task_function, config=config)

    def sweep(self, arguments: list[str]) -> Any:  # noqa: ANN401
        """Run all jobs."""
        assert self.config is not None
        assert self.hydra_context is not None
        words = restore_hidden_words(arguments, self.config)
        overrides = OverridesParser.create(self.hydra_context.config_loader).parse_overrides(words)
        check_count([*overrides], product=True)
        requested = [*self._parse_config(), *words]
        check_known(requested, self.hydra_context, self.config)
        loader: Any = self.hydra_context.config_loader
        (jobs,) = self.split_arguments([*overrides_of(requested, loader).values()], None)
        warn_of_refused_jobs(jobs, loader, self.config, swept_keys(requested))
        return super().sweep(words)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Accept every batch: each job is checked by itself when it starts."""
        del batch


def offer_grid() -> None:
    """Register :class:`Grid` in place of Hydra's own sweeper."""
    Plugins.instance().register(get_class(TARGET))
    node = BasicSweeperConf(_target_=TARGET)
    ConfigStore.instance().store(group="hydra/sweeper", name="basic", node=node, provider="rlcomp")
