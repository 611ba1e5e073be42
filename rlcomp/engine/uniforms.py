"""Uniform random numbers of the rows of a batch, independent of how rows are decoded."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.seed import named_seed

# Numbers of a row or a fork that are drawn at a time.
_BLOCK = 64


class SliceGenerator(torch.Generator):
    """Generator for a process with a slice of the prompts of a batch.

    :meth:`uniform` draws the numbers of the whole batch and selects those of this process's rows.
    So the tokens of a batch do not depend on its split.

    Args:
        first: index of this process's first prompt.
        prompts: number of this process's prompts.
        total_prompts: number of prompts of the batch.

    Attributes:
        was_used: whether :meth:`uniform` was called.
    """

    first: int
    prompts: int
    total_prompts: int
    was_used: bool

    def __new__(cls, first: int, prompts: int, total_prompts: int) -> SliceGenerator:
        """Return an unseeded generator on the CPU."""
        generator = super().__new__(cls)
        generator.first, generator.prompts = first, prompts
        generator.total_prompts, generator.was_used = total_prompts, False
        return generator

    def uniform(self, rows: int) -> Tensor:
        """Return numbers in [0, 1) for this process's rows, shape ``[rows, 1]``, float64.

        Args:
            rows: number of this process's rows; equally many for each prompt.

        Raises:
            ValueError: the number of rows is not a multiple of the number of prompts.
        """
        self.was_used = True
        if self.prompts == self.total_prompts:  # any number of rows
            return torch.rand(rows, 1, dtype=torch.float64, generator=self)
        rows_per_prompt, remainder = divmod(rows, self.prompts)
        if remainder:
            raise ValueError(
                f"{rows} rows are not a multiple of {self.prompts} prompts: draw for equally many "
                "rows of each prompt"
            )
        total_rows = self.total_prompts * rows_per_prompt
        numbers = torch.rand(total_rows, 1, dtype=torch.float64, generator=self)
        return numbers[self.first * rows_per_prompt :][:rows]


def uniform(rows: int, generator: torch.Generator) -> Tensor:
    """Return a random number in [0, 1) for each row, shape ``[rows, 1]``, float64.

    A :class:`SliceGenerator` gives the numbers of the rows in the whole batch.
    """
    if isinstance(generator, SliceGenerator):
        return generator.uniform(rows)
    return torch.rand(rows, 1, dtype=torch.float64, generator=generator)


class Uniforms:
    """Uniform random numbers for the rows of a batch, step by step.

    A row's numbers depend on the generator, the batch size and the row's index in the batch alone,
    not on finished rows or on the split of the batch (:class:`SliceGenerator`).

    Args:
        rows: ``B``, the number of rows.
        generator: on the CPU.
    """

    def __init__(self, rows: int, generator: torch.Generator) -> None:
        self.rows = rows
        self.generator = generator
        self._drawn: list[Tensor] = []
        # Number of steps and state of the generator before a draw in advance.
        self._before: tuple[int, Tensor] | None = None

    def at(self, step: int) -> Tensor:
        """Return the numbers in [0, 1) of a step, shape ``[B, 1]``, float64, on the CPU."""
        self._draw(step + 1)
        return self._drawn[step]

    @property
    def num_drawn(self) -> int:
        """Return the number of steps that have been drawn."""
        return len(self._drawn)

    def steps_from(self, start: int, count: int) -> Tensor:
        """Return the numbers of ``count`` steps from ``start`` on, shape ``[count, B, 1]``."""
        if len(self._drawn) < start + count:
            # No later call rewinds to a step before `start`.
            self._before = len(self._drawn), self.generator.get_state()
            self._draw(start + count)
        return torch.stack(self._drawn[start : start + count])

    def rewind(self, steps: int) -> None:
        """Undo draws after ``steps`` steps, and restore the generator's state.

        Only draws of the last :meth:`steps_from` that drew in advance can be undone.
        """
        if steps < len(self._drawn):
            assert self._before is not None
            num_drawn, state = self._before
            self.generator.set_state(state)
            del self._drawn[num_drawn:]
            self._draw(steps)

    def _draw(self, steps: int) -> None:
        """Draw numbers until ``steps`` steps are stored."""
        while len(self._drawn) < steps:
            self._drawn.append(uniform(self.rows, self.generator))


class SeededUniforms(Uniforms):
    """Uniform random numbers of rows with one seed each; a row's numbers depend on its seed alone.

    Args:
        seeds: seed of each row.
        generator: random generator for the seed of forks (:class:`ForkUniforms`).
    """

    def __init__(self, seeds: Sequence[int], generator: torch.Generator) -> None:
        super().__init__(len(seeds), generator)
        self._row_generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def _draw(self, steps: int) -> None:
        while len(self._drawn) < steps:
            block = [
                torch.rand(_BLOCK, dtype=torch.float64, generator=generator)
                for generator in self._row_generators
            ]
            self._drawn += torch.stack(block, 1)[..., None].unbind()

    def rewind(self, steps: int) -> None:
        """No-op: the rows have their own generators."""


class ForkUniforms:
    """Uniform random numbers of rows that can be forked; a fork does not change earlier rows.

    A fork's numbers depend on the state of the generator before the first fork, and on the number
    of earlier forks.

    Args:
        rows: number of rows before the first fork.
        generator: on the CPU.
        seeds: seed of each of these rows (:class:`SeededUniforms`); None for :class:`Uniforms`.
    """

    def __init__(
        self, rows: int, generator: torch.Generator, seeds: Sequence[int] | None = None
    ) -> None:
        self.base = Uniforms(rows, generator) if seeds is None else SeededUniforms(seeds, generator)
        self.forks = 0
        self._seed = 0
        self._blocks: dict[int, Tensor] = {}

    def fork(self) -> None:
        """Add a row."""
        if not self.forks:  # a copy of the generator: the rows draw from the generator itself
            generator = self.base.generator.clone_state()
            self._seed = int(torch.randint(2**62, (), generator=generator))
        self.forks += 1

    def draw_ahead(self, steps: int) -> int:
        """Draw ``steps`` steps in advance; return the number of steps drawn before."""
        num_drawn = self.base.num_drawn
        if steps > num_drawn:
            self.base.steps_from(num_drawn, steps - num_drawn)
        return num_drawn

    def rewind(self, steps: int) -> None:
        """Undo draws after ``steps`` steps, and restore the generator's state."""
        self.base.rewind(steps)

    def at(self, step: int) -> Tensor:
        """Return numbers in [0, 1) of a step, shape ``[rows + forks, 1]``, float64, on the CPU."""
        if not self.forks:
            return self.base.at(step)
        block, offset = divmod(step, _BLOCK)
        return torch.cat([self.base.at(step), self._block(block)[:, offset : offset + 1]])

    def _block(self, block: int) -> Tensor:
        """Return the numbers of every fork for a block of steps, shape ``[forks, _BLOCK]``."""
        numbers = self._blocks.get(block, torch.zeros(0, _BLOCK, dtype=torch.float64))
        if len(numbers) < self.forks:
            new = [self._numbers(fork, block) for fork in range(len(numbers), self.forks)]
            numbers = self._blocks[block] = torch.cat([numbers, torch.stack(new)])
        return numbers

    def _numbers(self, fork: int, block: int) -> Tensor:
        generator = torch.Generator().manual_seed(named_seed(self._seed, f"fork {fork} {block}"))
        return torch.rand(_BLOCK, dtype=torch.float64, generator=generator)


class TurnUniforms:
    """Uniform numbers of rows that have sampled before: a row's n-th token has its n-th number.

    Args:
        base: numbers of all rows of the session.
        rows: indices of the rows of this turn.
        counts: number of tokens that each of these rows has sampled before.
    """

    def __init__(self, base: ForkUniforms, rows: Sequence[int], counts: Sequence[int]) -> None:
        self.base = base
        self.rows = len(rows)
        self._row_indices = list(rows)
        self._counts = torch.tensor(counts)
        self._drawn = torch.stack([base.at(n) for n in range(max(counts, default=0) + 1)])

    def at(self, step: int) -> Tensor:
        """Return numbers in [0, 1) of a step of this turn, shape ``[len(rows), 1]``."""
        base_steps = self._counts + step
        while int(base_steps.max()) >= len(self._drawn):
            self._drawn = torch.cat([self._drawn, self.base.at(len(self._drawn))[None]])
        return self._drawn[base_steps, self._row_indices]

    def steps_from(self, start: int, count: int) -> Tensor:
        """Return numbers of ``count`` steps from ``start`` on, shape ``[count, rows, 1]``."""
        base_steps = self._counts + torch.arange(start, start + count)[:, None]
        end = int(base_steps.max()) + 1
        self.base.draw_ahead(end)
        return torch.stack([self.base.at(n) for n in range(end)])[base_steps, self._row_indices]

    def rewind(self, steps: int) -> None:
        """No-op: the session rewinds the numbers of all rows, if it draws in advance."""


class RequestUniforms:
    """Uniform numbers of the rows of a rollout request, which are decoded at different times.

    A row's n-th token has the row's number at step n of :class:`Uniforms`.

    Args:
        rows: number of rows of the request.
        seed: seed of the request's generator.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.generator = torch.Generator().manual_seed(seed)
        self._drawn = torch.empty(0, rows, dtype=torch.float64)

    def row_numbers(self, row: int, start: int, count: int) -> Tensor:
        """Return the numbers of a row from its token ``start`` on, shape ``[count]``."""
        while len(self._drawn) < start + count:
            steps = [uniform(self.rows, self.generator)[:, 0] for _ in range(_BLOCK)]
            self._drawn = torch.cat([self._drawn, torch.stack(steps)])
        return self._drawn[start : start + count, row]


class FixedUniforms:
    """Uniform numbers that the caller has drawn, with the interface of :class:`Uniforms`.

    Args:
        numbers: for each row a tensor of one number per step; rows may differ in length.
    """

    def __init__(self, numbers: Sequence[Tensor]) -> None:
        self.rows = len(numbers)
        self._numbers = stack_numbers(numbers)[..., None]

    def at(self, step: int) -> Tensor:
        """Return the numbers of a step, shape ``[rows, 1]``."""
        return self._numbers[step]

    def steps_from(self, start: int, count: int) -> Tensor:
        """Return numbers of ``count`` steps from ``start`` on, shape ``[count, rows, 1]``."""
        return self._numbers[start : start + count]

    def rewind(self, steps: int) -> None:
        """No-op."""


def stack_numbers(numbers: Sequence[Tensor]) -> Tensor:
    """Return the numbers of several rows as one tensor ``[steps, rows]``, padded with 0.

    Examples:
        >>> stack_numbers([torch.tensor([0.5, 0.25]), torch.tensor([0.75])]).tolist()
        [[0.5, 0.75], [0.25, 0.0]]
    """
    return torch.nn.utils.rnn.pad_sequence(list(numbers))
