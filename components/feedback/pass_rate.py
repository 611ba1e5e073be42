"""Feedback of pass rates to the prompt sampler."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.data.examples import TakesPassRates
from rlcomp.errors import ConfigError
from rlcomp.functional.group_accuracy import group_accuracy


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
