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
def test_what_is_there_is_the_machines_or_the_groups(tmp_path, limit, taken, wanted):
    assert machine_memory(*machine(tmp_path, limit, taken)) == wanted


def test_elsewhere_all_of_the_memory_counts_as_free(tmp_path, monkeypatch):
    sizes = {"SC_PHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", sizes.__getitem__)

    assert machine_memory(tmp_path / "none", tmp_path) == (40960, 40960)


@pytest.mark.parametrize(
    ("whole", "free", "wanted"), [(8000, 8000, 2000), (8000, 4000, 2000), (8000, 3998, 1999)]
)
def test_a_quarter_of_all_or_half_of_what_is_free(monkeypatch, whole, free, wanted):
    monkeypatch.setattr(memory, "machine_memory", lambda *paths: (whole, free))

    assert cache_budget(torch.device("cpu")) == wanted


def test_on_a_gpu_half_of_what_is_free_and_kept_for_reuse(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 500)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 300)

    assert cache_budget(torch.device("cuda")) == 600
