"""Environment of a run: the versions and hardware that its numbers depend on."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

_PACKAGES = ("rlcomp", "torch", "torchrl", "tensordict", "transformers", "numpy", "safetensors")
_GIT_SECONDS = 5  # time limit of a git command


def environment() -> dict[str, str]:
    """Return versions, threads, instruction set, GPU and git commits, each as a text.

    Runs with equal environments repeat bit by bit: another version or instruction set may sum in
    another order. ``commit of rlcomp`` is the checkout of this package, ``commit`` the checkout of
    the current directory; outside of a checkout they are left out.
    """
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    commits = {"commit of rlcomp": _commit(Path(__file__).parent), "commit": _commit(Path.cwd())}
    return {
        **_versions(),
        "threads": str(torch.get_num_threads()),
        "instruction set": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "GPU": gpu,
        **{name: commit for name, commit in commits.items() if commit},
    }


@cache
def _versions() -> Mapping[str, str]:
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def _commit(directory: Path) -> str:
    """Return the commit of a checkout, with ``+`` if files differ from it.

    Empty outside of a checkout, and if git is missing or too slow.
    """
    command = ["git", "-C", str(directory), "describe", "--always", "--exclude=*"]
    try:
        process = subprocess.run(
            [*command, "--dirty=+", "--abbrev=40"],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout.strip() if process.returncode == 0 else ""


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """List the differences between two environments; a name that only one of them has is left out.

    Examples:
        >>> differences({"torch": "2.11.0", "threads": "1"}, {"torch": "2.13.0", "threads": "1"})
        ["torch was '2.11.0', is '2.13.0'"]
    """
    return [
        f"{name} was {then[name]!r}, is {now[name]!r}"
        for name in now
        if name in then and then[name] != now[name]
    ]
