"""Entropy branching (ARPO): a higher entropy makes a branch more likely."""

from __future__ import annotations

from torch import Tensor

from rlcomp.arguments import Checked, Probability
from rlcomp.functional.branching import branch_probability


class EntropyBranching(metaclass=Checked):
    """Entropy branching (ARPO): ``P(branch) = clip(p0 + w dH, 0, 1)``.

    ``dH = H_t - H_init``, with ``H`` the entropy of the policy's next token divided by ``log V``:
    ``H_t`` after an observation, ``H_init`` at the beginning of the tree's first turn. ``V`` is the
    size of the vocabulary. ``dH`` is in [-1, 1], so that the probability is between 0.3 and 0.7
    with the default arguments.

    Args:
        probability: ``p0``, the probability at ``dH = 0``.
        entropy_weight: ``w``; 0: all probabilities are ``p0``.

    Source:
        Dong et al. 2025 (ARPO), arXiv:2507.19849, eq. 4; numbers of the authors' code.
    """

    def __init__(self, *, probability: Probability = 0.5, entropy_weight: float = 0.2) -> None:
        self.probability = probability
        self.entropy_weight = entropy_weight

    def __call__(self, delta_entropy: Tensor) -> Tensor:
        """Return the probabilities of a branch for changes of entropy, shape ``[N]`` each."""
        return branch_probability(delta_entropy, self.probability, self.entropy_weight)
