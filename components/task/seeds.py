"""Seeds of worlds: examples for environments that say themselves what is to be done."""

from __future__ import annotations

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt
from rlcomp.interfaces.task import Example


class Seeds(metaclass=Checked):
    r"""One prompt, and a seed for each example (column ``seed``): its index.

    All episodes of an example play in the same world, so that a baseline of the group compares
    what was done in it.

    Args:
        prompt: what stands in front of the environment's first words.
        examples: how many.
        held_out: share of the seeds that only evaluators see.

    Examples:
        >>> Seeds().example(3).columns
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
        """How many examples there are, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """The world of an index."""
        return Example(self.prompt, "", "", source=str(index), columns={"seed": index})
