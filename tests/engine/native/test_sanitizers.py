"""Random shapes, prompts and turns under the address and undefined-behaviour sanitizers."""

import subprocess
from pathlib import Path

import pytest

from rlcomp.engine.native import build

FUZZ = Path(__file__).with_name("fuzz.cpp")
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1", "-O1"]


@pytest.mark.slow
def test_decoding_passes_the_sanitizers_on_random_shapes_and_turns(each, tmp_path):
    flags = [*SANITIZERS, "-std=c++17", "-ffp-contract=fast", *build.instruction_sets()[each]]
    sources = [str(path) for path in (FUZZ, *sorted(build.SOURCES.glob("*.cpp")))]
    program = tmp_path / "fuzz"
    call = [build.compiler(), *flags, f"-I{build.SOURCES}", *sources, "-o", str(program)]
    subprocess.run(call, check=True, timeout=600)

    process = subprocess.run([program, "12", "1"], capture_output=True, text=True, timeout=600)

    assert (process.returncode, process.stdout, process.stderr) == (0, "12 rounds\n", "")
