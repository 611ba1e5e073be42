"""The contract that every component keeps, as checks to run on parts of your own.

::

    from rlcomp.testing import check_component

    def test_my_advantage_keeps_the_contract():
        check_component(MyAdvantage(epsilon=1e-6))

:func:`check_component` looks at what it is given and applies all laws that hold for it. Each law
has a name, which the :class:`rlcomp.errors.ContractError` quotes beside the key and the size of the
fault.
"""

from __future__ import annotations

from rlcomp.testing.advantage import check_advantage
from rlcomp.testing.component import check_component
from rlcomp.testing.example import example_batch
from rlcomp.testing.loss import check_loss

__all__ = ["check_advantage", "check_component", "check_loss", "example_batch"]
