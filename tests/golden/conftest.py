"""Cases of other people's numbers, from the manifest, and the one list of those left out."""

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

POLICY = Path(__file__).parent / "policy"
MANIFEST = json.loads((POLICY / "manifest.json").read_text("utf-8"))
LEFT_OUT = json.loads((POLICY / "left_out.json").read_text("utf-8"))

# What was computed, what it should be, and by how much it may differ.
Pairs = Iterable[tuple[Any, Any, float]]


@dataclass(frozen=True)
class Case:
    """A case of the manifest; ``file`` may name what is compared apart (``x/critic``)."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}-{self.number}"

    @property
    def entry(self) -> dict[str, Any]:
        return MANIFEST[self.file.split("/")[0]]["cases"][self.number]

    @property
    def args(self) -> dict[str, Any]:
        return self.entry["args"]

    @property
    def note(self) -> str:
        return self.entry.get("note", "")

    @property
    def tensors(self) -> dict[str, Tensor]:
        """By ``in/...``, ``out/...`` and ``grad/...``; copies."""
        return {
            key.split("/", 1)[1]: tensor.clone()
            for key, tensor in tensors_of(self.file).items()
            if key.startswith(f"{self.number}/")
        }

    @property
    def left_out(self) -> str | None:
        """Why it is not reproduced; None where it is."""
        rows = [row for row in LEFT_OUT if row["file"] == self.file]
        reasons = [row["reason"] for row in rows if self.number in row["cases"]]
        return reasons[0] if reasons else None


@functools.cache
def tensors_of(file: str) -> dict[str, Tensor]:
    return load_file(POLICY / f"{file.split('/')[0]}.safetensors")


def cases(file: str) -> Iterator[Case]:
    return (Case(file, number) for number in range(len(MANIFEST[file.split("/")[0]]["cases"])))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a ``case`` runs on every case of the files in its module's COMPARE."""
    if "case" in metafunc.fixturenames:
        found = [case for file in metafunc.module.COMPARE for case in cases(file)]
        metafunc.parametrize("case", found, ids=str)


def differing(pairs: Pairs) -> list[str]:
    """What differs by more than its tolerance, absolute and relative."""
    found = []
    for got, want, tolerance in pairs:
        want = torch.as_tensor(want, dtype=torch.float64)
        got = torch.as_tensor(got, dtype=torch.float64).detach().expand_as(want)
        try:
            torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)
        except AssertionError as error:
            found.append(str(error))
    return found


@pytest.fixture(scope="session")
def differences() -> Callable[[Pairs], list[str]]:
    return differing


@pytest.fixture(scope="session")
def left_out_of() -> Callable[[str], list[Case]]:
    return lambda file: [case for case in cases(file) if case.left_out is not None]


@pytest.fixture(scope="session")
def reproduce() -> Callable[[Case, Callable[[Case], Pairs]], None]:
    """Compare a case; of one on the list, that something still differs."""

    def check(case: Case, compare: Callable[[Case], Pairs]) -> None:
        found = differing(compare(case))
        if case.left_out is None:
            assert not found, "\n".join(found)
        else:
            assert found, f"{case} is reproduced: take it off policy/left_out.json"

    return check
