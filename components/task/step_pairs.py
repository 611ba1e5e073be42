"""Step pairs: the first different step of two solutions, after their common steps."""

from __future__ import annotations

from rlcomp.arguments import Checked
from rlcomp.columns import CONVERSATION
from rlcomp.data.pairs import REJECTED, STEP
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example, Task


class StepPairs(metaclass=Checked):
    r"""Task of pairs of single steps (Step-DPO) from pairs of solutions.

    The prompt is followed by the steps that both solutions share. The chosen and the rejected
    answer are the step in which they first differ, without EOS, so that only the tokens of that
    step are trained. Prompt and step are tokenised separately.

    Args:
        task: the task of pairs of solutions (texts): demonstration and column ``rejected``.
        separator: text at the end of a step, such as ``"\n"``; empty: every character is a step.

    Raises:
        DataError: an example is no pair of texts, or one solution is the beginning of the other.

    Source:
        Lai et al. 2024 (Step-DPO), arXiv:2406.18629, eq. 2.
    """

    def __init__(self, *, task: Task, separator: str = "\n") -> None:
        self.task = task
        self.separator = separator
        self.held_out = task.held_out

    def __len__(self) -> int:
        """Return the number of pairs, training and held out."""
        return len(self.task)

    def example(self, index: int) -> Example:
        """Return the step pair of a pair of solutions, with the same split."""
        whole = self.task.example(index)
        rejected = whole.columns.get(REJECTED)
        if not isinstance(rejected, str) or CONVERSATION in whole.columns:
            raise DataError(
                f"the example {whole.prompt[:60]!r} is no pair of texts: step pairs need a text "
                "and a column 'rejected' with another, and prompt=text"
            )
        both = steps_of(whole.demonstration, self.separator), steps_of(rejected, self.separator)
        shared = len(_shared(*both))
        if shared == min(map(len, both)):
            raise DataError(
                f"the example {whole.prompt[:60]!r} has solutions of which one is the beginning of "
                f"the other, with steps that end in {self.separator!r}: there is no step in which "
                "they differ; take it out, or set separator"
            )
        chosen, wrong = (steps[shared] for steps in both)
        return Example(
            prompt=whole.prompt + "".join(both[0][:shared]),
            answer=whole.answer,
            demonstration=chosen,
            source=whole.held_out_by,
            columns={**whole.columns, REJECTED: wrong, STEP: True},
        )


def steps_of(text: str, separator: str) -> list[str]:
    r"""Return the steps of a solution, each with its separator.

    Examples:
        >>> steps_of("a\nb\n\nc", "\n")
        ['a\n', 'b\n', '\n', 'c']
        >>> steps_of("124", "")
        ['1', '2', '4']
    """
    if not separator:
        return list(text)
    *ended, last = text.split(separator)
    return [part + separator for part in ended] + ([last] if last else [])


def _shared(chosen: list[str], rejected: list[str]) -> list[str]:
    """Return the common first steps of both solutions."""
    shared = []
    for one, other in zip(chosen, rejected, strict=False):
        if one != other:
            break
        shared.append(one)
    return shared
