import os
import subprocess
from pathlib import Path

import pytest

from rlcomp.engine.native import build
from rlcomp.engine.native.build import SOURCES, compiler, instruction_sets
from rlcomp.engine.native.library import instruction_set

FUZZ = Path(__file__).with_name("fuzz_update.cpp")
SANITIZED = [
    "-std=c++17",
    "-O1",
    "-g1",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
]
# The instruction sets that this machine can run.
SETS = list(instruction_sets())
RUNNABLE = SETS[SETS.index(best) :] if (best := instruction_set()) else []


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNABLE)
def test_update_kernels_pass_the_sanitizers_on_random_shapes(tmp_path, name):
    program = tmp_path / "fuzz"
    flags = [*SANITIZED, *build.flags(compiler(), name), f"-I{SOURCES}"]
    subprocess.run([compiler(), *flags, str(FUZZ), "-o", str(program)], check=True)

    # A container may forbid the search for leaks.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    process = subprocess.run(
        [str(program), "30"], env=environment, capture_output=True, text=True, check=False
    )

    assert (process.returncode, process.stdout) == (0, "right\n"), process.stderr[-2000:]
