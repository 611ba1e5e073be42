"""Values of losses, whose gradients are taken already."""

from __future__ import annotations


class Values(dict[str, float]):
    """The values of losses by name: numbers, no tensors to differentiate.

    Examples:
        >>> Values(loss=0.5).backward()
        Traceback (most recent call last):
            ...
        AttributeError: these are numbers by name, {'loss': 0.5}, with no 'backward': accumulate \
has added their gradients to .grad; go on with learner.step(progress=...)
    """

    def __getattr__(self, name: str) -> None:
        """Say what was done already.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(
            f"these are numbers by name, {dict(self)}, with no {name!r}: accumulate has added "
            "their gradients to .grad; go on with learner.step(progress=...)"
        )
