"""Seeds of worlds: examples for environments that give the instructions themselves."""

from __future__ import annotations

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt
from rlcomp.interfaces.task import Example


class SeedTask(metaclass=Checked):
    r"""Task with one prompt and a seed for each example (column ``seed``), its index.

    All episodes of an example have the same world, so that a group baseline compares actions in the
    same world.

    Args:
        prompt: text before the environment's first observation.
        examples: number of examples.
        held_out: share of the seeds that only evaluators see.

    Examples:
        >>> SeedTask().example(3).columns
        {'seed': 3}
    """

    def __init__(
        self,
        *,
        prompt: NonEmptyText = "Play.\n",
        examples: PositiveInt = 1_000,
        held_out: Fraction = 0.1,
    ) -> None:
        self.prompt = prompt
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return the world of an index."""
        return Example(self.prompt, "", "", source=str(index), columns={"seed": index})
