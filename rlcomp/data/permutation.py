"""Random orders of examples."""

from __future__ import annotations

from collections.abc import Iterator

from rlcomp.seed import named_seed


def permutation(length: int, seed: int, name: str) -> Iterator[int]:
    """Yield a pseudo-random permutation of ``range(length)``, fixed by (seed, name).

    It is a Feistel network with cycle walking and holds no list of size ``length``: a task of a
    million procedural examples needs no more memory than one of ten.

    Source:
        Luby and Rackoff 1988 (a network of four rounds); Black and Rogaway 2002 (cycle walking).

    Examples:
        >>> sorted(permutation(10, 0, "epoch 0")) == list(range(10))
        True
    """
    half = max((length - 1).bit_length() + 1, 2) // 2  # of the bits of an index, rounded up
    keys = [named_seed(seed, f"{name}/{turn}") for turn in range(4)]  # a key for each round
    for start in range(length):
        index = _feistel(start, half, keys)
        while index >= length:
            index = _feistel(index, half, keys)
        yield index


def _feistel(index: int, half: int, keys: list[int]) -> int:
    """Permute the integers of ``2 * half`` bits.

    The round function multiplies by the constants of SplitMix64 (Steele et al. 2014).
    """
    low = (1 << half) - 1
    left, right = index >> half, index & low
    for key in keys:
        mixed = (right * 0x9E3779B97F4A7C15 + key) & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 29
        mixed = (mixed * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        left, right = right, left ^ ((mixed >> 32) & low)
    return (left << half) | right
