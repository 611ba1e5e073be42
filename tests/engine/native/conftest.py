"""Fixtures of the native library."""

import pytest

from rlcomp.engine.native import build, library


@pytest.fixture(scope="session")
def native():
    """The library of this machine, compiled if it is missing."""
    if library.why_missing() is not None and build.compiler() is None:
        pytest.skip("no C++ compiler")
    build.build()


@pytest.fixture(params=["avx512", "avx2", "neon"])
def each(request, native, monkeypatch):
    """The object of each instruction set that this machine can run."""
    names = list(build.instruction_sets())
    best = library.instruction_set()
    if request.param not in names[names.index(best) :]:
        pytest.skip("another instruction set")
    monkeypatch.setattr(library, "instruction_set", lambda: request.param)
    return request.param
