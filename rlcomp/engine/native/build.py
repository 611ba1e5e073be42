"""Build of the native library: one shared object per instruction set of this machine's family.

``python -m rlcomp.engine.native.build`` compiles in place. The build hook of a wheel, or of an
editable install, does the same. It needs a C++17 compiler, but no torch and no Python headers.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE / "src"
OBJECTS = HERE / "objects"

# Instruction sets by the machine's family, best first, and their compiler flags. For x86,
# torch.backends.cpu.get_cpu_capability() returns these names.
_X86 = {
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"),
    "avx2": ("-mavx2", "-mfma"),
}
INSTRUCTION_SETS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": _X86,
    "amd64": _X86,
    "aarch64": {"neon": ()},
    "arm64": {"neon": ()},
}
# Flags of AMX by instruction set. Old compilers lack them, and then leave out its kernels.
_NEWER = {"avx512": ("-mamx-tile", "-mamx-bf16")}
# Program that only compiles with these flags.
_TILES = """#include <immintrin.h>
void multiply(const void* config) {
    _tile_loadconfig(config);
    _tile_dpbf16ps(0, 1, 2);
    _tile_release();
}
"""
FLAGS = (
    "-std=c++17",
    "-O3",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fvisibility=hidden",
    "-fPIC",
    "-shared",
)
_COMPILERS = ("c++", "g++", "clang++")


def compiler() -> str | None:
    """Return the C++ compiler: ``$CXX``, else the first one on the path; None if there is none."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else [*_COMPILERS]
    return next((path for name in names if (path := shutil.which(name))), None)


def digest() -> str:
    """Return a hash of sources and flags, twelve hex digits; a part of the objects' names."""
    paths = sorted(SOURCES.iterdir())
    text = b"".join(path.name.encode() + path.read_bytes() for path in paths)
    return hashlib.sha256(text + repr((FLAGS, INSTRUCTION_SETS, _NEWER)).encode()).hexdigest()[:12]


def object_path(name: str) -> Path:
    """Return the path of the object of an instruction set."""
    return OBJECTS / f"{name}-{digest()}.so"


def instruction_sets() -> dict[str, tuple[str, ...]]:
    """Return the instruction sets built on this machine, best first, and their compiler flags."""
    return INSTRUCTION_SETS.get(platform.machine().lower(), {})


def flags(cxx: str, name: str) -> tuple[str, ...]:
    """Return the flags of an instruction set, including newer ones that the compiler knows."""
    flags, newer = instruction_sets()[name], _NEWER.get(name, ())
    return flags + newer if newer and _assembles(cxx, flags + newer) else flags


def _assembles(cxx: str, flags: Sequence[str]) -> bool:
    """Return whether compiler and assembler support the newer flags."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "tiles.cpp"
        source.write_text(_TILES)
        call = [cxx, "-std=c++17", *flags, "-c", str(source), "-o", str(source.with_suffix(".o"))]
        return subprocess.run(call, capture_output=True, check=False).returncode == 0


def command(cxx: str, flags: Sequence[str], into: Path) -> list[str]:
    """Return the compiler command that builds one object."""
    # Linked statically where possible: an object then works with any libstdc++.
    static = [] if sys.platform == "darwin" else ["-static-libstdc++", "-static-libgcc"]
    sources = sorted(str(path) for path in SOURCES.glob("*.cpp"))
    return [cxx, *FLAGS, *flags, *sources, *static, "-o", str(into)]


def build() -> list[Path]:
    """Compile missing objects, and remove objects of other sources.

    Returns:
        The objects of this machine's instruction sets.

    Raises:
        RuntimeError: there is no compiler, it failed, or the machine's family is not supported.
    """
    cxx, names = compiler(), instruction_sets()
    if not names:
        raise RuntimeError(f"processors of the family {platform.machine()} are not supported")
    if cxx is None:
        raise RuntimeError("there is no C++ compiler: install c++, g++ or clang++, or set CXX")
    OBJECTS.mkdir(exist_ok=True)
    objects = [object_path(name) for name in names]
    for name, path in zip(names, objects, strict=True):
        if not path.exists():
            _compile(cxx, flags(cxx, name), path)
    for path in set(OBJECTS.glob("*.so")) - set(objects):
        path.unlink(missing_ok=True)
    return objects


def _compile(cxx: str, flags: Sequence[str], path: Path) -> None:
    # Written under another name first: another process may be about to load it.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        into = Path(folder) / path.name
        call = command(cxx, flags, into)
        process = subprocess.run(call, capture_output=True, text=True, check=False)
        if process.returncode:
            raise RuntimeError(f"{' '.join(call)}\n{process.stderr.strip()}")
        into.replace(path)


if __name__ == "__main__":
    try:
        for built in build():
            print(built)
    except RuntimeError as error:
        raise SystemExit(f"the native library was not built: {error}") from None
