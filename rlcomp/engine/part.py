"""Random numbers of some of a batch's prompts: those they have where all are decoded at once."""

from __future__ import annotations

import torch
from torch import Tensor


class PartGenerator(torch.Generator):
    """The generator of a batch of which only some prompts are here.

    Whoever draws a number for each row draws those of the whole batch, and takes those of its own
    rows (:class:`rlcomp.engine.draw.Uniforms`): the batch gives the same tokens however it is dealt
    out.

    Args:
        first: the first prompt that is here.
        prompts: how many are.
        of: how many the batch has.

    Attributes:
        taken: whether rows have been taken of it.
    """

    first: int
    prompts: int
    of: int
    taken: bool

    def __new__(cls, first: int, prompts: int, of: int) -> PartGenerator:
        """On the CPU; unseeded."""
        made = super().__new__(cls)
        made.first, made.prompts, made.of, made.taken = first, prompts, of, False
        return made

    def uniform(self, rows: int) -> Tensor:
        """Numbers in [0, 1) for the rows that are here, shape ``[rows, 1]``, float64.

        Args:
            rows: of a part, equally many for each prompt; those of the first one come first.

        Raises:
            ValueError: the rows of a part are no multiple of its prompts.
        """
        self.taken = True
        if self.prompts == self.of:  # all of them: as many rows as there may be
            return torch.rand(rows, 1, dtype=torch.float64, generator=self)
        each, left = divmod(rows, self.prompts)
        if left:
            raise ValueError(f"{rows} rows are not equally many for each of {self.prompts} prompts")
        whole = torch.rand(self.of * each, 1, dtype=torch.float64, generator=self)
        return whole[self.first * each :][:rows]
