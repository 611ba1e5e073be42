"""Freed memory stays with the process: told by the page faults of a process of its own."""

import json
import platform
import subprocess
import sys

from rlcomp.engine import freed_memory

CODE = """
import json, resource, sys
from rlcomp.engine.freed_memory import keep_freed_memory

def faults(size):
    bytearray(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        bytearray(size)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

size = 64 * 2**20  # above the largest threshold that malloc chooses by itself
print(json.dumps([faults(size), keep_freed_memory(), faults(size)]))
"""


def test_what_is_freed_is_asked_for_again_without_a_fault():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    before, told, after = json.loads(done.stdout)
    assert told is (platform.libc_ver()[0] == "glibc")
    assert not told or before > 20 * 1000 > 100 > after


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(freed_memory.platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", None)

    assert freed_memory.keep_freed_memory() is False
