"""Task whose demonstrations also call a useless tool, and this tool."""

from __future__ import annotations

import random
from dataclasses import replace

from rlcomp.arguments import Checked, NonEmptyText, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example, Task
from rlcomp.seed import named_seed


class FixedAnswer(metaclass=Checked):
    """Tool that answers every call with the same text, so that it is useless.

    The number of its calls (``facts/calls_<name>``) shows whether a reward encourages useless
    calls.

    Args:
        says: the text of every answer; an empty text is no result, and the call is not useful.
    """

    def __init__(self, *, says: str = "") -> None:
        self.says = says

    def __call__(self, query: str) -> str:
        """Return the fixed text; the query is ignored."""
        del query
        return self.says


class PlantedCalls(metaclass=Checked):
    """Task that adds an empty call of a useless tool to some demonstrations of another task.

    The demonstration then begins with the turns ``<idle></idle>`` and
    ``<information></information>`` (``tool_protocol=tags``). So an imitating policy calls the tool
    when RL begins, and RL changes the frequency of the calls.

    Args:
        task: the other task; its demonstrations must have turns.
        tool: name of the useless tool.
        says: answer of the tool
            (:class:`components.worlds.planted_calls.task.FixedAnswer`).
        often: probability that a demonstration begins with the call.

    Raises:
        ConfigError: (when called) an example of the other task has no turns.

    Examples:
        >>> from components.worlds.hops.task import Hops
        >>> task = PlantedCalls(task=Hops(asked=0.0), often=1.0)
        >>> task.example(0).turns[:2]
        ('<idle></idle>', '<information></information>')
    """

    def __init__(
        self,
        *,
        task: Task,
        tool: NonEmptyText = "idle",
        says: str = "",
        often: Probability = 0.5,
    ) -> None:
        self.task = task
        self.tool = tool
        self.says = says
        self.often = often
        self.held_out = task.held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return len(self.task)

    def example(self, index: int) -> Example:
        """Return the example of the other task, with or without the call."""
        example = self.task.example(index)
        if not example.turns:
            raise ConfigError(
                "PlantedCalls: a demonstration of its task has no turns: set task=hops"
            )
        if random.Random(named_seed(index, "planted")).random() >= self.often:
            return example
        call = f"<{self.tool}></{self.tool}>", f"<information>{self.says}</information>"
        turns = (*call, *example.turns)
        return replace(example, turns=turns, demonstration="".join(turns))
