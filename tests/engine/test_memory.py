"""Memory budgets, and freed memory that stays with the process."""

import json
import platform
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from rlcomp.engine import memory
from rlcomp.engine.memory import cache_budget, machine_memory

MEMINFO = "MemTotal:       8 kB\nMemFree:        1 kB\nMemAvailable:   3 kB\nHugePages_Total: 0\n"


def machine(tmp_path, limit=None, taken=0):
    (tmp_path / "meminfo").write_text(MEMINFO)
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{taken}\n")
    return tmp_path / "meminfo", tmp_path


@pytest.mark.parametrize(
    ("limit", "taken", "wanted"),
    [
        (None, 0, (8192, 3072)),
        ("max", 0, (8192, 3072)),
        (4096, 2096, (4096, 2000)),
        (4096, 96, (4096, 3072)),
        (9000, 0, (8192, 3072)),
        (4096, 5000, (4096, 0)),
    ],
)
def test_machine_memory_is_the_minimum_of_machine_and_control_group(tmp_path, limit, taken, wanted):
    assert machine_memory(*machine(tmp_path, limit, taken)) == wanted


def test_without_meminfo_all_memory_counts_as_free(tmp_path, monkeypatch):
    sizes = {"SC_PHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", sizes.__getitem__)

    assert machine_memory(tmp_path / "none", tmp_path) == (40960, 40960)


@pytest.mark.parametrize(
    ("whole", "free", "wanted"), [(8000, 8000, 2000), (8000, 4000, 2000), (8000, 3998, 1999)]
)
def test_cache_budget_is_a_quarter_of_all_or_half_of_free_memory(monkeypatch, whole, free, wanted):
    monkeypatch.setattr(memory, "machine_memory", lambda *paths: (whole, free))

    assert cache_budget(torch.device("cpu")) == wanted


def test_cache_budget_on_a_gpu_is_half_of_free_and_cached_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 500)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 300)

    assert cache_budget(torch.device("cuda")) == 600


CODE = """
import json, resource, sys
from rlcomp.engine.memory import keep_freed_memory

def faults(size):
    bytearray(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        bytearray(size)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

size = 64 * 2**20  # above the largest threshold that malloc chooses by itself
print(json.dumps([faults(size), keep_freed_memory(), faults(size)]))
"""


def test_freed_memory_is_reused_without_page_faults():
    before, configured, after = in_a_process(CODE)

    assert configured is (platform.libc_ver()[0] == "glibc")
    assert not configured or before > 20 * 1000 > 100 > after


HUGE = """
import json, resource, sys
from rlcomp.engine.memory import keep_freed_memory

def huge():
    found = [line for line in open("/proc/self/smaps_rollup") if line.startswith("AnonHugePages")]
    return int(found[0].split()[1]) / 1024  # MB

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20

if "limited" in sys.argv:
    resource.setrlimit(resource.RLIMIT_AS, (2**36, 2**36))
before = resident()
keep_freed_memory()
taken = resident() - before
block = b"1" * (64 * 2**20)
print(json.dumps([taken, huge()]))
"""


def in_a_process(code, *words):
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists()
    or "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    or resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY,
    reason="no huge pages",
)
def test_new_memory_is_in_huge_pages():
    taken, huge = in_a_process(HUGE)
    limited = in_a_process(HUGE, "limited")

    assert taken < 8  # addresses, not memory
    assert huge > 56
    # Limited addresses are not reserved.
    always = "[always]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    assert always or limited[1] < 8


@pytest.mark.parametrize(("gigabytes", "size"), [(8, 2 * 2**30), (1000, 16 * 2**30)])
def test_without_overcommitment_no_addresses_are_reserved(monkeypatch, gigabytes, size):
    whole = {"SC_PHYS_PAGES": gigabytes * 2**18, "SC_PAGE_SIZE": 2**12}
    monkeypatch.setattr(memory.os, "sysconf", whole.__getitem__)
    asked = SimpleNamespace(
        malloc=Mock(return_value=None), free=Mock(), madvise=Mock(side_effect=AssertionError)
    )

    memory._request_huge_pages(asked)

    asked.malloc.assert_called_once_with(size)
    asked.free.assert_not_called()


@pytest.mark.parametrize(
    ("limit", "policy", "asked"),
    [
        (None, "0\n", 1),
        (None, "1\n", 1),
        (None, None, 1),  # no such file
        (None, "2\n", 0),
        (resource.RLIMIT_AS, "0\n", 0),
        (resource.RLIMIT_DATA, "0\n", 0),
    ],
)
def test_under_an_address_limit_no_addresses_are_reserved(
    monkeypatch, tmp_path, limit, policy, asked
):
    file, libc, calls = tmp_path / "policy", Mock(), []
    if policy is not None:
        file.write_text(policy)
    monkeypatch.setattr(memory, "_OVERCOMMIT", file)
    limits = {limit: 2**40}
    monkeypatch.setattr(memory.resource, "getrlimit", lambda kind: (limits.get(kind, -1), -1))
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("glibc", "2"))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: libc)
    monkeypatch.setattr(memory, "_request_huge_pages", calls.append)

    assert memory.keep_freed_memory() is True
    assert calls == [libc] * asked


def test_huge_pages_are_requested_within_the_allocation():
    start = 4 * 2**21 + 16
    asked = SimpleNamespace(
        malloc=Mock(return_value=start), free=Mock(), madvise=Mock(return_value=-1)
    )

    memory._request_huge_pages(asked)

    (size,) = asked.malloc.call_args.args
    first, length, advice = asked.madvise.call_args.args
    assert (first, advice) == (5 * 2**21, 14)
    assert length % 2**21 == 0
    assert 0 <= start + size - (first + length) < 2**21
    asked.free.assert_called_once_with(start)


def test_other_allocators_are_not_changed(monkeypatch):
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(memory.ctypes, "CDLL", None)

    assert memory.keep_freed_memory() is False
