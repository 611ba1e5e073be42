"""``rlcomp --help``: every option of every group.

Hydra's own help composes the config once for each group, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_HEAD = """\
rlcomp: reinforcement learning out of named parts.

Parts, chosen by group=option:
"""

_FOOT = """\

rlcomp recipe=grpo seed=1                        one run
rlcomp -m recipe=grpo,shuffled_rewards seed=0,1  a sweep
rlcomp-describe recipe=grpo                      what a recipe is made of
rlcomp-report runs/SWEEP                         tables and curves of finished runs

Any value can be set: learner.optimizer.lr=3e-4. --cfg job prints the config,
-m sweeps, -cd DIR adds your own configs, -sc install=bash completes words.
"""


def help_text(directories: Iterable[Path]) -> str:
    """The whole text.

    Args:
        directories: of configs; options of a later one join those of an earlier one.
    """
    groups: dict[str, set[str]] = {}
    for directory in directories:
        for file in directory.glob("*/**/*.yaml"):
            group = file.parent.relative_to(directory).as_posix()
            groups.setdefault(group, set()).add(file.stem)
    lines = [f"{group}: {', '.join(sorted(groups[group]))}" for group in sorted(groups)]
    return "\n".join([_HEAD, *lines, _FOOT])
