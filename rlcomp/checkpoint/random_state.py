"""State of random number generators: the global ones (torch, Python, NumPy), and any other."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcomp.arguments import problem
from rlcomp.checkpoint.state_fields import check_fields, field, tensor_field
from rlcomp.errors import CheckpointError

# Words of the Mersenne twister's state, of 32 bits each.
_WORDS = 624


def random_state() -> dict[str, Any]:
    """Return the state of the global generators: ``torch``, ``cuda``, ``python`` and ``numpy``."""
    name, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": list(torch.cuda.get_rng_state_all()) if torch.cuda.is_available() else [],
        "python": random.getstate(),
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restore the global generators from a checked state."""
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))


def check_random_state(state: object) -> dict[str, Any]:
    """Return the state of the global generators after checking it.

    Raises:
        CheckpointError: the state of a generator is invalid.
    """
    check_fields(state, ("torch", "cuda", "python", "numpy"))
    assert isinstance(state, dict)
    check_generator("torch", torch.default_generator, state["torch"])
    devices = field(state, "cuda", list)
    for index in range(min(len(devices), torch.cuda.device_count())):
        check_generator("cuda", torch.Generator(f"cuda:{index}"), devices[index])
    _check_python(state["python"])
    _check_numpy(state["numpy"])
    return state


def check_generator(name: str, generator: torch.Generator, state: object) -> None:
    """Check that a generator accepts a state, without changing the generator.

    Raises:
        CheckpointError: the state is no tensor, or has another length or dtype; the message names
            the generator.
    """
    try:
        if not isinstance(state, Tensor):
            raise TypeError(f"it is {state!r:.60}, no tensor")
        torch.Generator(generator.device).set_state(state)
    except (TypeError, RuntimeError) as error:
        fault = str(error).splitlines()[0]
        raise CheckpointError(f"the state of the generator '{name}' is invalid: {fault}") from error


def _check_python(state: object) -> None:
    """Check ``(3, 624 words and a position, the next Gaussian or None)``."""
    fits = isinstance(state, tuple) and len(state) == 3 and state[0] == 3
    if not fits or problem(tuple[int, list[int], float | None], state):
        raise CheckpointError(f"'python' is {state!r:.60}: no state of its generator")
    words = state[1]  # type: ignore[index]
    words_fit = len(words) == _WORDS + 1 and all(0 <= word < 2**32 for word in words)
    if not isinstance(words, tuple) or not words_fit or words[-1] > _WORDS:
        raise CheckpointError("'python': must have 624 words of 32 bits and a position in them")


def _check_numpy(state: object) -> None:
    """Check ``["MT19937", 624 words, position, has a next Gaussian, next Gaussian]``."""
    if not isinstance(state, list) or len(state) != 5 or state[0] != "MT19937":
        raise CheckpointError(f"'numpy' is {state!r:.60}: no state of its generator")
    _, _, position, has_gaussian, gaussian = state
    words = tensor_field({"numpy": state[1]}, "numpy", torch.int64, [_WORDS])
    fault = problem(tuple[int, int, float], (position, has_gaussian, gaussian))
    # NumPy would read foreign memory at a position behind the end.
    if fault or not 0 <= position <= _WORDS or has_gaussian not in (0, 1):
        raise CheckpointError(f"'numpy' ends with {state[2:]!r:.80}: no position and Gaussian")
    if bool(((words < 0) | (words >= 2**32)).any()):
        raise CheckpointError("'numpy': must have words of 32 bits")
