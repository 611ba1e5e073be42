"""Checks that your own components keep the contracts of their interfaces.

::

    from rlcomp.testing import check_component

    def test_my_advantage_keeps_the_contract():
        check_component(MyAdvantage(epsilon=1e-6))

:func:`check_component` inspects its argument and applies every law of its interface. A
:class:`rlcomp.errors.ContractError` names the law, the key and the size of the difference.
:func:`check_policy` does the same for policies. :func:`make_batch` makes a batch from values,
:func:`graded_answers` a batch of answers with rewards, :func:`example_batch` a batch with the keys
of a component, and :func:`tiny_policy` a small policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcomp.testing.advantage import check_advantage
from rlcomp.testing.batch import example_batch, graded_answers, make_batch
from rlcomp.testing.component import check_component
from rlcomp.testing.loss import check_loss

if TYPE_CHECKING:
    from rlcomp.testing.policy import check_policy
    from rlcomp.testing.tiny import tiny_model, tiny_policy

__all__ = [
    "check_advantage",
    "check_component",
    "check_loss",
    "check_policy",
    "example_batch",
    "graded_answers",
    "make_batch",
    "tiny_model",
    "tiny_policy",
]


def __getattr__(name: str) -> object:
    # Imported at first use: they need transformers, whose import takes longer than all the rest.
    if name not in ("check_policy", "tiny_model", "tiny_policy"):
        raise AttributeError(f"module 'rlcomp.testing' has no attribute '{name}'")
    from rlcomp.testing import policy, tiny

    return policy.check_policy if name == "check_policy" else getattr(tiny, name)
