"""Memory of this process: available memory, and reuse of freed memory."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from pathlib import Path

import torch

# Files of Linux with the memory of the machine, and of a control group.
_MACHINE = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
# A cache may have these shares of all memory and of free memory. All memory is the same in every
# process, so that runs are reproducible; free memory is the bound if memory is short.
_SHARE_OF_ALL = 0.25
_SHARE_OF_FREE = 0.5


def cache_budget(device: torch.device) -> int:
    """Return the maximum size of a KV cache on a device, in bytes.

    On a GPU: half of the free memory. On a CPU: the minimum of a quarter of the memory of the
    machine or control group, and half of the free memory.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(_SHARE_OF_FREE * (free + cached))
    whole, free = machine_memory()
    return int(min(_SHARE_OF_ALL * whole, _SHARE_OF_FREE * free))


def machine_memory(machine: Path = _MACHINE, group: Path = _GROUP) -> tuple[int, int]:
    """Return the bytes of memory that this process may use, and the free bytes.

    Args:
        machine: ``/proc/meminfo``; if it is missing (not Linux), all memory counts as free.
        group: folder of a control group (version 2), with ``memory.max`` and ``memory.current``.

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
        used = int((group / "memory.current").read_text())
        whole, free = min(whole, int(text)), min(free, int(text) - used)
    return whole, max(free, 0)


# Parameters of mallopt(3): allocations get no separate mapping, and the heap never shrinks.
_M_MMAP_MAX, _NONE = -4, 0
_M_TRIM_THRESHOLD, _NEVER = -1, -1
# Parameters of madvise(2): advice for huge pages, and the size of such a page, 2 MB.
_MADV_HUGEPAGE, _HUGE = 14, 2**21
# Addresses to reserve for the heap: a fraction of the machine's memory, up to a maximum.
_FRACTION, _MAXIMUM = 4, 2**34
# proc(5): 2 forbids overcommitment.
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


def keep_freed_memory() -> bool:
    """Configure malloc to keep freed memory, and to allocate it in huge pages.

    A step frees hundreds of megabytes (gradients, scores over a vocabulary) and allocates them
    again. By default this memory goes back to the system and returns page by page: a sixth of a
    step's time at 56 M weights, and more in a container. Huge pages need 512 times fewer address
    lookups: another quarter.

    Call this before large allocations.

    Returns:
        Whether malloc was configured; other systems and allocators are not changed.

    Source:
        mallopt(3); madvise(2), ``MADV_HUGEPAGE``.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    accepted = bool(libc.mallopt(_M_MMAP_MAX, _NONE))
    accepted = accepted and bool(libc.mallopt(_M_TRIM_THRESHOLD, _NEVER))
    if accepted and not _is_address_space_limited():
        _request_huge_pages(libc)
    return accepted


def _is_address_space_limited() -> bool:
    """Return whether addresses count against a limit, or overcommitment is forbidden."""
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    limited = any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in limits)
    try:
        policy = _OVERCOMMIT.read_text().strip()
    except OSError:  # not Linux, or the file is not readable
        policy = ""
    return limited or policy == "2"


def _request_huge_pages(libc: ctypes.CDLL) -> None:
    """Request huge pages for a part of the heap; pages are allocated when touched."""
    malloc, free, madvise = libc.malloc, libc.free, libc.madvise
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = min(memory // _FRACTION, _MAXIMUM)
    start = malloc(size)
    if start is None:  # the system limits reservations
        return
    first, last = -(-start // _HUGE) * _HUGE, (start + size) // _HUGE * _HUGE
    madvise(first, last - first, _MADV_HUGEPAGE)  # has no effect where there are no huge pages
    free(start)
