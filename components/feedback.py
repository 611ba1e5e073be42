"""Feedback to samplers."""

from __future__ import annotations

import re

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.data.sampling import TakesPassRates
from rlcomp.errors import ConfigError
from rlcomp.functional.group_statistics import group_accuracy
from rlcomp.metrics import record


class AnswerKinds(Component):
    """Stage that records share and accuracy of questions by the kind of their gold answer.

    Reads ``answer`` ``[B, W]``, ``correct``, ``reward_valid`` ``[B]``; ``is_proposer`` ``[B]``
    if present: proposers' rows are left out. Writes nothing. Records
    ``answer_kinds/<kind>``, the share of rows whose gold answer is of that kind, and
    ``answer_kinds/<kind>_correct``, the share of correct rows among the valid rows of that kind. A
    batch without answers records nothing.

    Args:
        kinds: regular expressions by name; an answer is of the first kind whose expression matches
            all of it, else of ``other``.

    Raises:
        ConfigError: there is no kind, one is called ``other``, or a pattern is no regular
            expression.
    """

    reads = ("answer", "correct", "reward_valid")
    keys = {"is_proposer": ("B", "bool", "the row poses a question; the others answer one")}
    optional = ("is_proposer",)

    def __init__(self, *, kinds: dict[str, NonEmptyText]) -> None:
        super().__init__()
        if not kinds or "other" in kinds:
            raise ConfigError(
                f"AnswerKinds: kinds names {list(kinds)}: name one or more, and none 'other', "
                "the kind of answers that no pattern matches"
            )
        self.kinds = dict(kinds)
        self._patterns = {name: _compile(name, pattern) for name, pattern in kinds.items()}

    def forward(self, batch: TensorDict) -> TensorDict:
        """Record the kinds; return the batch unchanged."""
        is_proposer = batch.get("is_proposer", torch.zeros_like(batch["correct"]))
        kinds = [self._kind(text) for text in decode_texts(batch["answer"])]
        for name in (*self.kinds, "other"):
            of_kind = torch.tensor([kind == name for kind in kinds], device=is_proposer.device)
            record(f"answer_kinds/{name}", of_kind, where=~is_proposer)
            valid = of_kind & ~is_proposer & batch["reward_valid"]
            record(f"answer_kinds/{name}_correct", batch["correct"], where=valid)
        return batch

    def _kind(self, answer: str) -> str:
        matching = (name for name, pattern in self._patterns.items() if pattern.fullmatch(answer))
        return next(matching, "other")


def _compile(name: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"AnswerKinds: kinds.{name} {pattern!r} is no regular expression: {error}"
        ) from None


class PassRate(Component):
    """Stage that reports each example's pass rate to the sampler that drew it (curriculum).

    Rows with an invalid reward do not count; an example without valid rows is not reported.

    Reads ``example_id``, ``correct``, ``reward_valid`` ``[B]``. Writes nothing.

    Args:
        sampler: the prompt sampler, which adapts to the pass rates.

    Raises:
        ConfigError: the sampler does not use pass rates.
    """

    reads = ("example_id", "correct", "reward_valid")

    def __init__(self, *, sampler: TakesPassRates) -> None:
        super().__init__()
        if not isinstance(sampler, TakesPassRates):
            raise ConfigError(
                f"PassRate: sampler is a {type(sampler).__name__}, which takes no pass rates; "
                "choose sampler@prompts=curriculum, or feedback=none"
            )
        self.sampler = sampler

    def forward(self, batch: TensorDict) -> TensorDict:
        """Report the pass rates; return the batch unchanged."""
        examples, valid = batch["example_id"], batch["reward_valid"]
        rates = group_accuracy(batch["correct"], examples, valid)
        pairs = zip(examples[valid].tolist(), rates[valid].tolist(), strict=True)
        self.sampler.tell(dict(pairs))
        return batch
