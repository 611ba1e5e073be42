"""Which walls there are: probed, told, and refused where they are weaker than asked for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlcomp.errors import ConfigError
from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.sandbox import Sandbox
from rlcomp.sandbox.tier import find_missing, probe

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
NEEDED = "import sys, rlcomp.errors; assert sys.version_info >= (3, 10)"
PROGRAM = """
import sys
from rlcomp.errors import ConfigError
from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.sandbox import Sandbox
try:
    with Sandbox(workers=1, min_tier=sys.argv[1]) as sandbox:
        print(sandbox.tier)
        print(sandbox.run_check('def f(a): return a', 'assert f(3) == 3', 'f').status)
        print(sandbox.run_stdio('import os; os.fork()', limits=Limits(fork=True)).status)
        print(sandbox.run_stdio('import threading as t; x = t.Thread(); x.start(); x.join()').status)
        print(sandbox.run_stdio('open("/tmp/file", "w")').status)
        print(sandbox.run_stdio('import os; assert not os.path.exists("/etc")').status)
except ConfigError as error:
    print(error)
"""


def under(words, tier, python=sys.executable):
    """What the program prints, started by other words."""
    done = subprocess.run(
        [*words, python, "-c", PROGRAM, tier],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.fixture
def no_namespaces():
    """Words that start a program where no further user namespace can be made."""
    words = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    if not shutil.which("unshare") or subprocess.run([*words, "true"]).returncode:
        pytest.skip("no sandbox of tier strict: user namespaces cannot be made")
    return [*words, forbid, "sh"]


def test_this_machine_is_probed():
    assert probe() == {tier: find_missing(tier) for tier in ("strict", "bwrap", "portable")}


def test_the_tier_is_told(sandbox):
    assert sandbox.tier == "strict"


def test_a_sandbox_may_be_stronger_than_required(sandbox):
    with Sandbox(workers=1, min_tier="portable") as other:
        assert other.tier == "strict"


def test_a_tier_that_does_not_exist_is_refused():
    with pytest.raises(
        ConfigError, match=r"sandbox\.min_tier='none': must be one of strict, bwrap, portable"
    ):
        Sandbox(min_tier="none")


def test_a_weaker_tier_is_refused_with_reason_and_remedy(no_namespaces):
    told = under(no_namespaces, "strict")

    assert told.startswith(
        "sandbox.min_tier=strict: the strongest tier here is portable (strict lacks: [Errno 1] "
        "change to user 64"
    )
    assert "Allow unprivileged user namespaces" in told
    assert "sandbox.min_tier=portable if its weaker isolation is enough" in told


def test_weaker_walls_that_will_do_allow_one_process_and_no_files(no_namespaces):
    assert under(no_namespaces, "portable").split() == [
        "portable",
        "passed",
        "failed",  # a fork, though it may
        "failed",  # a thread
        "failed",  # a file
        "failed",  # that a path exists can be seen
    ]


@pytest.mark.parametrize("tier", ["strict", "portable"])
def test_it_runs_for_an_ordinary_user(tier, sandbox):
    python = "/usr/bin/python3" if os.geteuid() == 0 else sys.executable
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    words = words if os.geteuid() == 0 else []
    if subprocess.run(
        [*words, python, "-c", NEEDED], env=ENVIRONMENT, capture_output=True
    ).returncode:
        pytest.skip("no sandbox of tier strict: no Python here that another user may run")

    assert under(words, tier, python).split() == ["strict", *["passed"] * 5]


def test_limits_can_be_compared_and_are_those_of_a_job():
    assert Limits() == Limits()
    assert Limits(wall=1) != Limits()
