"""What is shipped: two packages, the configs inside, and it runs away from the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rlcomp.engine.native import build

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    where = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(where)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (found,) = where.glob("*.whl")
    return found


def test_the_top_level_of_the_wheel_is_two_packages(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names} == {
        "rlcomp",
        "components",
        "rlcomp-0.2.0.dev0.dist-info",
    }


def test_every_config_travels_inside_the_wheel(wheel):
    inside = {n for n in zipfile.ZipFile(wheel).namelist() if n.startswith("rlcomp/conf/")}

    shipped = {f"rlcomp/{path.relative_to(ROOT)}" for path in (ROOT / "conf").rglob("*.yaml")}
    assert inside == {name.replace("\\", "/") for name in shipped}


def test_the_words_of_other_libraries_travel_inside(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"rlcomp/advice/foreign_options.yaml", "rlcomp/config/renamed.json"} <= {*names}


def test_the_native_library_travels_inside_and_is_all_that_depends_on_the_platform(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    built = {f"rlcomp/{path.relative_to(ROOT / 'rlcomp')}" for path in build.OBJECTS.glob("*.so")}
    assert {name for name in names if name.endswith(".so")} == built
    assert wheel.name.startswith("rlcomp-0.2.0.dev0-py3-none-")
    assert wheel.name.endswith("-any.whl") != bool(built)


@pytest.mark.slow
def test_the_demo_starts_from_the_installed_wheel(wheel, tmp_path):
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target"]
    subprocess.run([*install, str(site), str(wheel)], check=True, capture_output=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    sizes = ["phases.warm_start.steps=2", "phases.rl.steps=2", "evaluation.num_prompts=8"]

    ran = subprocess.run(
        [sys.executable, "-m", "rlcomp", "directory=run", "prompts.batch_size=4", *sizes],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert "held-out accuracy: sampled" in ran.stdout.splitlines()[-1]
    lines = (elsewhere / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["total"] for line in lines] == [1, 2, 3, 4]
    where = [sys.executable, "-c", "import rlcomp, components; print(components.__file__)"]
    env = {**os.environ, "PYTHONPATH": str(site)}
    home = subprocess.run(where, cwd=elsewhere, env=env, capture_output=True, text=True, check=True)
    assert home.stdout.startswith(str(site))


def test_the_shipped_texts_travel_inside_the_wheel(wheel):
    inside = zipfile.ZipFile(wheel).namelist()

    texts = {f"components/task/texts/{name}.txt" for name in ("romeo_and_juliet", "the_tempest")}
    assert texts <= set(inside)
