"""Free memory of the machine for a cache."""

from __future__ import annotations

import os
from pathlib import Path

import torch

# Linux reports available memory here; a control group its limit and its use.
_MACHINE = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
# Shares of all memory and of free memory. The share of a whole machine is the same in every
# process, so that a run can be repeated to the bit; free memory bounds it where memory is short.
_SHARE_OF_ALL = 0.25
_SHARE_OF_FREE = 0.5


def cache_budget(device: torch.device) -> int:
    """Return how many bytes keys and values may take at a time.

    On a GPU half of the free memory. Elsewhere a quarter of the machine's memory (or its control
    group's), or half of the free memory, whichever is less.

    Args:
        device: where keys and values are stored.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(_SHARE_OF_FREE * (free + cached))
    whole, free = machine_memory()
    return int(min(_SHARE_OF_ALL * whole, _SHARE_OF_FREE * free))


def machine_memory(machine: Path = _MACHINE, group: Path = _GROUP) -> tuple[int, int]:
    """Return the bytes of memory that this process may take in all, and the bytes that are free.

    Args:
        machine: ``/proc/meminfo``; where it is missing (not Linux), all memory counts as free.
        group: folder with ``memory.max`` and ``memory.current``; limits of control groups of
            version 2 are obeyed where they exist.

    Source:
        Linux, Documentation/filesystems/proc.rst (MemTotal, MemAvailable in kB),
        Documentation/admin-guide/cgroup-v2.rst.
    """
    if not machine.exists():
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return pages, pages
    lines = dict(line.split(":", 1) for line in machine.read_text().splitlines())
    whole, free = (1024 * int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    limit = group / "memory.max"
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        taken = int((group / "memory.current").read_text())
        whole, free = min(whole, int(text)), min(free, int(text) - taken)
    return whole, max(free, 0)
