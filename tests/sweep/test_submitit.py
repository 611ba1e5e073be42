"""Jobs of a sweep by submitit: as processes of this machine here, through Slurm on a cluster."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlcomp.files.json_lines import read_lines

pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="needs rlcomp[slurm]")

STEPS = 40


def job_process(folder):
    """The process of a job: what submitit's controller, whose number the folder has, has begun."""
    children = Path(f"/proc/{folder.name}/task/{folder.name}/children").read_text()
    return int(children.split()[0])


def metrics(directory):
    rows = read_lines(directory / "metrics.jsonl")
    return [{key: value for key, value in row.items() if "time" not in key} for row in rows]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_requeued_job_resumes_with_the_same_result(tmp_path):
    """Two equal jobs; one gets the signal by which Slurm announces that it is preempted."""
    command = [
        *[sys.executable, "-m", "rlcomp", "-m", "hydra/launcher=submitit_local", "recipe=sft"],
        *["model=micro", f"phases.warm_start.steps={STEPS}", "overwrite=false,true", "seed=3"],
        *["phases.warm_start.every={checkpoint: 4, evaluation: 40}", f"directory={tmp_path}"],
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (tmp_path / "told").open("w") as told:
        sweep = subprocess.Popen(command, stdout=told, stderr=told, env=environment)
    try:
        while not any(tmp_path.glob("0/checkpoints/*")):
            assert sweep.poll() is None, (tmp_path / "told").read_text()
            time.sleep(0.02)
        folders = [each for each in tmp_path.glob(".submitit/*") if each.name.isdigit()]
        first = min(folders, key=lambda each: int(each.name))
        os.kill(job_process(first), signal.SIGUSR2)
        assert sweep.wait(timeout=300) == 0, (tmp_path / "told").read_text()
    finally:
        sweep.kill()

    log = next(first.glob("*_log.out")).read_text()
    assert "Requeued job" in log
    assert log.count("Starting with JobEnvironment") == 2
    assert len(metrics(tmp_path / "0")) == STEPS
    assert metrics(tmp_path / "0") == metrics(tmp_path / "1")
