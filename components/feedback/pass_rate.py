"""Reports the pass rate of each prompt to the prompt sampler."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.data.examples import TakesPassRates
from rlcomp.errors import ConfigError
from rlcomp.functional.group_accuracy import group_accuracy


class PassRate(Component):
    """Reports the pass rate of each example to the sampler that drew it (curriculum).

    Rows with an invalid reward do not count; an example without valid rows is not reported.

    Reads ``example_id``, ``correct``, ``reward_valid`` ``[B]``. Writes nothing.

    Args:
        sampler: what draws the prompts, and learns from this which ones to draw.

    Raises:
        ConfigError: the sampler takes no pass rates.
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
        told = zip(examples[valid].tolist(), rates[valid].tolist(), strict=True)
        self.sampler.tell(dict(told))
        return batch
