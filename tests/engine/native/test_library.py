import ctypes

import pytest
import torch

from rlcomp.engine.native import build, library

REMEDY = "run python -m rlcomp.engine.native.build"


def processor(monkeypatch, machine, capability):
    monkeypatch.setattr(build.platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)


@pytest.mark.parametrize(
    ("machine", "capability", "name"),
    [
        ("x86_64", "AVX512", "avx512"),
        ("AMD64", "AVX2", "avx2"),
        ("x86_64", "DEFAULT", None),
        ("aarch64", "DEFAULT", "neon"),
        ("arm64", "SVE256", "neon"),
        ("riscv64", "DEFAULT", None),
    ],
)
def test_the_best_instruction_set_is_chosen(machine, capability, name, monkeypatch):
    processor(monkeypatch, machine, capability)

    assert library.instruction_set() == name


def test_why_missing_gives_the_reason(monkeypatch, tmp_path):
    processor(monkeypatch, "x86_64", "DEFAULT")
    assert library.why_missing() == "this processor (x86_64) has neither AVX-512, AVX2 nor NEON"
    processor(monkeypatch, "x86_64", "AVX2")
    for module in (build, library):
        monkeypatch.setattr(module, "OBJECTS", tmp_path)
    monkeypatch.setattr(library, "compiler", lambda: "g++")
    assert library.why_missing() == f"the library is not compiled: {REMEDY}"
    monkeypatch.setattr(library, "compiler", lambda: None)
    install = "install a C++ compiler (g++ or clang++), then"
    assert library.why_missing() == f"the library is not compiled: {install} {REMEDY}"
    with pytest.raises(RuntimeError, match="the library is not compiled"):
        library.library()
    (tmp_path / "avx2-000000000000.so").touch()
    assert library.why_missing() == f"the library was compiled from other sources: {REMEDY}"
    build.object_path("avx2").touch()
    assert library.why_missing() is None


def test_the_library_is_loaded_once_and_error_codes_raise(native):
    loaded = library.library()

    assert library.library() is loaded
    check = loaded.rlcomp_generate.errcheck
    with pytest.raises(MemoryError, match="no memory is left"):
        check(1, loaded.rlcomp_generate, ())
    assert check(0, loaded.rlcomp_generate, ()) is None
    assert loaded.rlcomp_close.argtypes == (ctypes.c_void_p, ctypes.c_int64)


def test_the_sources_are_hashed_once(native, monkeypatch):
    loaded = library.library()
    monkeypatch.setattr(build, "digest", lambda: pytest.fail("read again"))

    assert library.library() is loaded
