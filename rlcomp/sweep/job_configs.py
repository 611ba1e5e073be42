"""Composition of each job's config by itself, so that one bad job does not end the others."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.types import Override
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, open_dict

from rlcomp.config.checks.overrides import check_unread, unread
from rlcomp.config.compose import CommandLine
from rlcomp.config.finding import messages
from rlcomp.config.overrides import RefusedOverrides, filter_overrides
from rlcomp.errors import ConfigError, ConfigErrors, nearest
from rlcomp.sweep.jobs import overrides_of, texts_of

# Variable with the error of a config that could not be composed; Hydra passes env_set to every job.
REFUSED_VARIABLE = "RLCOMP_REFUSED"


class JobConfigs(ConfigLoaderImpl):
    """Hydra's loader; a job with an unknown override fails when it starts."""

    def load_sweep_config(
        self, master_config: DictConfig, sweep_overrides: list[str]
    ) -> DictConfig:
        """Compose the config of a job, with a note on refused overrides."""
        config, refused = self.compose_known(master_config, sweep_overrides)
        if refused:
            message = describe_refused(refused, [config])
            with open_dict(config):
                config.hydra.job.env_set[REFUSED_VARIABLE] = message.replace("${", "\\${")
                config.hydra.overrides.task = list(sweep_overrides)
        return config

    def compose_known(
        self, master: DictConfig, overrides: Sequence[str]
    ) -> tuple[DictConfig, RefusedOverrides]:
        """Return the config of a job without its unknown overrides, and these with their errors."""
        load = super().load_sweep_config
        return filter_overrides(lambda texts: load(master, texts), overrides)


def with_job_configs(context: HydraContext) -> HydraContext:
    """Return the same context, with :class:`JobConfigs` as loader of the jobs' configs."""
    loader: Any = context.config_loader
    return HydraContext(JobConfigs(loader.config_search_path), context.callbacks)


def describe_refused(refused: RefusedOverrides, configs: Sequence[DictConfig]) -> str:
    """Describe the faults of overrides, a line each, with near names in the configs of jobs."""
    from rlcomp.advice.explain import explain_composition
    from rlcomp.advice.unknown_key import keys_below

    def keys(parent: str) -> list[str]:
        return [key for config in configs for key in keys_below(config, parent) if key != "hydra"]

    sources = OmegaConf.select(configs[-1], "hydra.runtime.config_sources", default=[])
    directories = [
        source.path for source in sources if source.provider not in ("main", "hydra", "schema")
    ]
    choices = _choices(configs[-1])
    recipe = [f"recipe={choices['recipe']}"] if "recipe" in choices else []
    line = None  # several configs have no one command line
    if len(configs) == 1 and choices:
        line = CommandLine(recipe, directories, configs[-1], choices)
    return "\n".join(explain_composition(error, directories, keys, line) for _, error in refused)


def _choices(config: DictConfig) -> dict[str, str]:
    """Return the chosen option of each group."""
    choices: Any = OmegaConf.select(config, "hydra.runtime.choices", default={})
    return {str(group): str(option) for group, option in choices.items()}


def check_known(arguments: Sequence[str], context: HydraContext, master: DictConfig) -> None:
    """Refuse overrides that no job of a sweep knows, before the first job.

    Jobs are composed, one for each combination of the swept options, until every override was known
    and read once.

    Args:
        arguments: overrides of the sweep.
        context: from :func:`with_job_configs`.
        master: the sweep's own config.

    Raises:
        ConfigErrors: no job knows or reads an override.
        ConfigError: an option does not exist.
    """
    loader: Any = context.config_loader
    overrides = overrides_of(arguments, loader)
    texts_by_override = [_texts_to_check(value, loader, master) for value in overrides.values()]
    # Overrides that no job so far knows, and that no job so far reads.
    unknown, unused, configs, errors = set(overrides), set(overrides), [], {}
    for job in itertools.product(*texts_by_override):
        config, refused = loader.compose_known(master, list(job))
        configs.append(config)
        errors = dict(refused)
        override_of = dict(zip(job, overrides, strict=True))
        unknown &= {override_of[text] for text in errors}
        unused &= {override_of[text] for text in (*unread(config, job), *errors)}
        if not unknown and not unused:
            return
    # What follows is about the last job: its config, texts and errors.
    if not unknown:
        texts = [text for text in job if override_of[text] in unused]
        raise ConfigErrors(messages(check_unread(config, texts, _choices(config))))
    faults = [(text, error) for text, error in errors.items() if override_of[text] in unknown]
    raise ConfigErrors(describe_refused(faults, configs).splitlines())


def _texts_to_check(override: Override, loader: ConfigLoaderImpl, master: DictConfig) -> list[str]:
    """Return the texts of an override that :func:`check_known` composes.

    Each option of a group has other keys and is composed; of other values only the first.

    Raises:
        ConfigError: a group has no such option.
    """
    texts, group = texts_of(override), override.key_or_group
    if not override.is_sweep_override() or not override.is_discrete_sweep():
        return texts
    hydra_overrides = [str(text) for text in master.hydra.overrides.hydra]
    options = loader.get_group_options(group, config_name="config", overrides=hydra_overrides)
    for option in [text.partition("=")[2] for text in texts] if options else []:
        if option not in (*options, "null") and "/" not in option and option[:1] not in "['\"":
            hint = nearest(option, options)
            raise ConfigError(f"{group}={option}: there is no such option{hint}")
    return texts if options else texts[:1]


# Words that hide_words has hidden, and the whole command line, for restore_hidden_words.
_HIDDEN: list[str] = []
_ARGV: list[str] = []


@contextmanager
def hide_words(words: Sequence[str]) -> Iterator[None]:
    """Hide words of the command line while Hydra composes the sweep's own config.

    They are overrides that this config does not know, so that Hydra would refuse them. Jobs get
    them by :func:`restore_hidden_words`, because their configs may know them.
    """
    _HIDDEN[:], _ARGV[:] = words, sys.argv
    sys.argv = [word for word in sys.argv if word not in words]
    try:
        yield
    finally:
        sys.argv = list(_ARGV)
        _HIDDEN.clear()


def restore_hidden_words(arguments: Sequence[str], master: DictConfig) -> list[str]:
    """Return the overrides of a sweep, including those hidden from its own config."""
    words = [*arguments, *_HIDDEN]
    if _HIDDEN:
        with open_dict(master):
            master.hydra.overrides.task = words
        sys.argv = list(_ARGV)
    return words
