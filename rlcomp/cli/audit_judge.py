"""``rlcomp-audit pairwise_judge=… task=…``: compare a judge with pairs of known quality."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcomp.report.judge import JudgeReport

_WORD = re.compile(r"\+{0,2}pairwise_judge=")


def names_judge(words: Sequence[str]) -> bool:
    """Return whether a command line names a pairwise judge.

    Examples:
        >>> names_judge(["pairwise_judge=endpoint"]), names_judge(["reward=numeric"])
        (True, False)
    """
    return any(_WORD.match(word) for word in words)


def audited_judge(
    overrides: Sequence[str], config_dirs: Sequence[str], rows: int, seed: int
) -> JudgeReport:
    """Return the report on the pairwise judge of a command line, on pairs of its task.

    Args:
        overrides: as for ``rlcomp``, with ``pairwise_judge=...``.
        config_dirs: directories of the user's own configs.
        rows: number of pairs; all of them, if the task has fewer.
        seed: of the choice of pairs.

    Raises:
        ConfigError: judge or task cannot be built.
        DataError: the task has no pairs, or the judge gives no verdict.
    """
    from rlcomp.audit.audit import examples_of
    from rlcomp.config.build import Builder
    from rlcomp.config.resolve import compose_or_explain, plan_of_nodes
    from rlcomp.report.judge import judge_report, labelled_pair

    words = [_WORD.sub("+pairwise_judge=", word) for word in overrides]
    missing = {name: f"there is no {name}: set {name}=..." for name in ("pairwise_judge", "task")}
    plan = plan_of_nodes(compose_or_explain(words, config_dirs), missing)
    builder = Builder(plan, int(plan.tree["seed"]))
    task: Any = builder.build(plan.nodes["task"])
    # A task without pairs is reported before a model is loaded.
    pairs = [labelled_pair(example) for example in examples_of(task, rows, seed)]
    judge: Any = builder.build(plan.nodes["pairwise_judge"])
    return judge_report(judge, pairs)
