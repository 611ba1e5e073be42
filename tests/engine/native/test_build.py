import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlcomp.engine.native import build

ROOT = Path(__file__).parents[3]


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Sources of one function, and a temporary folder for the objects."""
    sources = tmp_path / "src"
    sources.mkdir()
    (sources / "one.cpp").write_text('extern "C" int one() { return 1; }\n')
    monkeypatch.setattr(build, "SOURCES", sources)
    monkeypatch.setattr(build, "OBJECTS", tmp_path / "objects")
    return sources


def hook(root, warnings):
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook_object = object.__new__(module.NativeLibrary)
    hook_object._BuildHookInterface__root = str(root)
    hook_object._BuildHookInterface__app = SimpleNamespace(display_warning=warnings.append)
    return module, hook_object


def test_the_digest_depends_on_the_sources(sources):
    before = build.digest()
    assert len(before) == 12
    (sources / "one.cpp").write_text('extern "C" int one() { return 2; }\n')

    assert build.digest() != before


def test_build_compiles_missing_objects_and_removes_stale_ones(sources, native):
    build.OBJECTS.mkdir()
    (build.OBJECTS / "avx2-000000000000.so").write_text("stale")

    objects = build.build()

    assert objects == [build.object_path(name) for name in build.instruction_sets()]
    assert sorted(build.OBJECTS.iterdir()) == sorted(objects)
    times = [path.stat().st_mtime_ns for path in objects]
    build.build()
    assert [path.stat().st_mtime_ns for path in objects] == times


def test_build_without_a_compiler_is_refused(sources, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")

    assert build.compiler() is None
    with pytest.raises(RuntimeError, match=r"no C\+\+ compiler: install c\+\+, g\+\+"):
        build.build()


def test_cxx_takes_precedence(monkeypatch):
    monkeypatch.setenv("CXX", sys.executable)

    assert build.compiler() == sys.executable


def test_build_on_another_processor_is_refused(monkeypatch):
    monkeypatch.setattr(build.platform, "machine", lambda: "riscv64")

    with pytest.raises(RuntimeError, match="processors of the family riscv64 are not supported"):
        build.build()


def test_a_compile_error_names_the_source(sources, native):
    (sources / "one.cpp").write_text("this is no C++\n")

    with pytest.raises(RuntimeError, match=r"one\.cpp"):
        build.build()
    assert list(build.OBJECTS.iterdir()) == []


def test_every_processor_has_flags():
    assert list(build.INSTRUCTION_SETS["x86_64"]) == ["avx512", "avx2"]
    assert build.INSTRUCTION_SETS["amd64"] == build.INSTRUCTION_SETS["x86_64"]
    assert (
        list(build.INSTRUCTION_SETS["aarch64"]) == list(build.INSTRUCTION_SETS["arm64"]) == ["neon"]
    )


def test_a_wheel_built_without_a_compiler_is_pure_with_one_warning(monkeypatch):
    warnings, data = [], {"artifacts": []}
    module, hook_object = hook(ROOT, warnings)

    def fails():
        raise RuntimeError("no C++ compiler was found\nand more")

    monkeypatch.setattr(module, "_module", lambda path: SimpleNamespace(build=fails))
    hook_object.initialize("standard", data)

    assert data == {"artifacts": []}
    assert warnings == ["rlcomp decodes by torch, several times slower: no C++ compiler was found"]


def test_a_wheel_with_objects_is_tagged_by_platform_alone(monkeypatch):
    warnings, data = [], {"artifacts": []}
    module, hook_object = hook(ROOT, warnings)
    objects = [ROOT / "rlcomp" / "engine" / "native" / "objects" / "avx2-1.so"]
    monkeypatch.setattr(module, "_module", lambda path: SimpleNamespace(build=lambda: objects))
    monkeypatch.setattr(module.sysconfig, "get_platform", lambda: "macosx-11.0-arm64")
    hook_object.initialize("standard", data)

    assert data == {
        "artifacts": ["rlcomp/engine/native/objects/avx2-1.so"],
        "pure_python": False,
        "tag": "py3-none-macosx_11_0_arm64",
    }
    assert warnings == []


def test_the_build_hook_loads_the_module_of_this_package():
    module, _ = hook(ROOT, [])

    assert module._module(ROOT / module.BUILD).SOURCES == build.SOURCES


def test_the_module_builds_in_place(native):
    call = [sys.executable, "-m", "rlcomp.engine.native.build"]
    process = subprocess.run(call, capture_output=True, text=True, check=True, cwd=ROOT)

    assert process.stdout.split() == [str(build.object_path(n)) for n in build.instruction_sets()]


def test_flags_unknown_to_the_compiler_are_left_out(native, monkeypatch):
    monkeypatch.setattr(build.platform, "machine", lambda: "x86_64")
    cxx = build.compiler()
    plain = build.INSTRUCTION_SETS["x86_64"]["avx512"]
    monkeypatch.setattr(build, "_TILES", "void multiply() {}")
    monkeypatch.setattr(build, "_NEWER", {"avx512": ("-no-such-flag",)})
    assert build.flags(cxx, "avx512") == plain
    assert build.flags(cxx, "avx2") == ("-mavx2", "-mfma")
    monkeypatch.setattr(build, "_NEWER", {"avx512": ("-DKNOWN",)})
    assert build.flags(cxx, "avx512") == (*plain, "-DKNOWN")
    # The compiler knows the instruction, the assembler does not.
    monkeypatch.setattr(build, "_TILES", 'void multiply() { asm volatile("no_such_thing"); }')
    assert build.flags(cxx, "avx512") == plain
