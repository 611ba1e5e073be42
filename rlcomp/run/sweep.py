"""What a job of a sweep is called: from the overrides that vary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra.conf import HydraConf
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import OmegaConf


def varied(arguments: Sequence[str]) -> list[str]:
    """The keys a command line sweeps over.

    Examples:
        >>> varied(["-m", "recipe=grpo,sft", "seed=0,1", "device=cpu"])
        ['recipe', 'seed']
    """
    overrides = [text for text in arguments if not text.startswith("-") and "=" in text]
    parsed = OverridesParser.create().parse_overrides(overrides)
    return [str(override.key_or_group) for override in parsed if override.is_sweep_override()]


def labels(arguments: Sequence[str], hydra_config: HydraConf) -> dict[str, object]:
    """Group, job type and tags of one job.

    Returns:
        ``group``: the sweep's directory (None outside a sweep); ``job_type``: what is varied, seeds
        aside; ``tags``: this job's overrides.
    """
    tags = [str(tag)[:64] for tag in OmegaConf.to_container(hydra_config.overrides.task)]  # type: ignore[union-attr]
    if hydra_config.mode != RunMode.MULTIRUN:
        return {"tags": tags}
    axes = [key for key in varied(arguments) if key != "seed"] or ["seed"]
    group = Path(hydra_config.sweep.dir).name
    return {"group": group, "job_type": "+".join(axes), "tags": tags}
