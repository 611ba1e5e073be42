"""Random numbers for a part of a batch's prompts: the same as when all are decoded at once."""

from __future__ import annotations

import torch
from torch import Tensor


class PartGenerator(torch.Generator):
    """The generator of a batch, for a process that holds only some of its prompts.

    A draw for each row draws the numbers of the whole batch and takes those of the rows held here
    (:class:`rlcomp.engine.draw.Uniforms`). The batch gets the same tokens however it is split.

    Args:
        first: index of the first prompt that is held here.
        prompts: number of prompts held here.
        of: number of prompts of the batch.

    Attributes:
        taken: whether numbers of rows have been drawn from it.
    """

    first: int
    prompts: int
    of: int
    taken: bool

    def __new__(cls, first: int, prompts: int, of: int) -> PartGenerator:
        """Create an unseeded generator on the CPU."""
        new = super().__new__(cls)
        new.first, new.prompts, new.of, new.taken = first, prompts, of, False
        return new

    def uniform(self, rows: int) -> Tensor:
        """Return numbers in [0, 1) for the rows held here, shape ``[rows, 1]``, float64.

        Args:
            rows: number of rows held here, the same number for each prompt, sorted by prompt.

        Raises:
            ValueError: the number of rows is no multiple of the prompts.
        """
        self.taken = True
        if self.prompts == self.of:  # the whole batch: any number of rows
            return torch.rand(rows, 1, dtype=torch.float64, generator=self)
        each, left = divmod(rows, self.prompts)
        if left:
            raise ValueError(f"{rows} rows are not equally many for each of {self.prompts} prompts")
        whole = torch.rand(self.of * each, 1, dtype=torch.float64, generator=self)
        return whole[self.first * each :][:rows]
