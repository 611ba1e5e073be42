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


# Those that this machine can run: its own, and what came before.
SETS = list(instruction_sets())
RUNNABLE = SETS[SETS.index(best) :] if (best := instruction_set()) else []


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNABLE)
def test_random_shapes_touch_no_memory_but_their_own_and_give_the_formulas(tmp_path, name):
    program = tmp_path / "fuzz"
    flags = [*SANITIZED, *build.flags(compiler(), name), f"-I{SOURCES}"]
    subprocess.run([compiler(), *flags, str(FUZZ), "-o", str(program)], check=True)

    # Without a look for leaks, which a container may forbid: nothing is given away.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [str(program), "30"], env=environment, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr[-2000:]
